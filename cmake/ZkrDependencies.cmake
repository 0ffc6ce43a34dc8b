# Finds everything that the project is built from. Each error names the Debian package.

# scripts/setup.sh unpacks packages that cannot be installed next to the user's own into build/deps.
include("${PROJECT_SOURCE_DIR}/build/deps/deps.cmake" OPTIONAL)

if(PROJECT_IS_TOP_LEVEL AND NOT DEFINED CMAKE_CXX_COMPILER_LAUNCHER)
  find_program(CCACHE_PROGRAM ccache)
  mark_as_advanced(CCACHE_PROGRAM)
  if(CCACHE_PROGRAM)
    set(CMAKE_CXX_COMPILER_LAUNCHER "${CCACHE_PROGRAM}")
  endif()
endif()

set(THREADS_PREFER_PTHREAD_FLAG ON)
find_package(Threads REQUIRED)

# The libraries do without Boost. The opt-in headers for Asio need it, and with them the tests and the examples.
find_package(Boost 1.81 QUIET)
if(NOT TARGET Boost::headers AND (ZKRECIPES_BUILD_TESTS OR ZKRECIPES_BUILD_EXAMPLES))
  message(FATAL_ERROR "Boost 1.81 or newer was not found (headers only).\n"
                      "Debian 12: apt-get install libboost1.81-dev, or run scripts/setup.sh")
endif()

find_package(fmt 9 QUIET)
if(NOT TARGET fmt::fmt)
  message(FATAL_ERROR "fmt 9 or newer was not found.\n"
                      "Debian 12: apt-get install libfmt-dev, or run scripts/setup.sh")
endif()

# Headers only, for the sources: nothing of it is in the installed package.
find_package(nlohmann_json 3.11 QUIET)
if(NOT TARGET nlohmann_json::nlohmann_json)
  message(FATAL_ERROR "nlohmann-json 3.11 or newer was not found (headers only).\n"
                      "Debian 12: apt-get install nlohmann-json3-dev, or run scripts/setup.sh")
endif()

# For `zkr`, the command line: without these, and Boost's headers, that is not built.
find_package(CLI11 2.1 QUIET)
find_path(TOMLPLUSPLUS_INCLUDE_DIR NAMES toml++/toml.h)
mark_as_advanced(TOMLPLUSPLUS_INCLUDE_DIR)
if(NOT TARGET CLI11::CLI11 AND ZKRECIPES_BUILD_TESTS)
  message(FATAL_ERROR "CLI11 2.1 or newer was not found (headers only).\n"
                      "Debian 12: apt-get install libcli11-dev, or run scripts/setup.sh")
endif()
if(NOT TOMLPLUSPLUS_INCLUDE_DIR AND ZKRECIPES_BUILD_TESTS)
  message(FATAL_ERROR "toml++ was not found (headers only).\n"
                      "Debian 12: apt-get install libtomlplusplus-dev, or run scripts/setup.sh")
endif()

set(CURSES_NEED_NCURSES TRUE)
set(CURSES_NEED_WIDE TRUE)
find_package(Curses QUIET)
if(CURSES_FOUND)
  add_library(Curses::ncursesw INTERFACE IMPORTED)
  target_include_directories(Curses::ncursesw INTERFACE ${CURSES_INCLUDE_DIRS})
  target_link_libraries(Curses::ncursesw INTERFACE ${CURSES_LIBRARIES})
  target_compile_options(Curses::ncursesw INTERFACE ${CURSES_CFLAGS})
elseif(ZKRECIPES_BUILD_TESTS)
  message(FATAL_ERROR "ncurses was not found, with wide characters.\n"
                      "Debian 12: apt-get install libncurses-dev, or run scripts/setup.sh")
endif()

find_package(ZooKeeper 3.8 REQUIRED COMPONENTS st OPTIONAL_COMPONENTS mt)
if(ZKRECIPES_REQUIRE_TLS AND NOT ZooKeeper_HAS_SSL)
  message(FATAL_ERROR "The ZooKeeper C client that was found has no TLS: ${ZooKeeper_st_LIBRARY}\n"
                      "Build one that has it with scripts/build_tls_client.sh, then start with a fresh build folder")
endif()

# For an example of a bridge to it.
if(ZKRECIPES_BUILD_EXAMPLES)
  find_package(prometheus-cpp QUIET)
endif()

# Probes are no-ops, and need nothing but a header of macros.
find_path(SDT_INCLUDE_DIR NAMES sys/sdt.h)
mark_as_advanced(SDT_INCLUDE_DIR)
set(has_sdt OFF)
if(SDT_INCLUDE_DIR)
  set(has_sdt ON)
endif()
option(ZKRECIPES_PROBES "Static probes (USDT) in the libraries" ${has_sdt})
if(ZKRECIPES_PROBES AND NOT has_sdt)
  message(FATAL_ERROR "ZKRECIPES_PROBES needs <sys/sdt.h>, which was not found.\n"
                      "Debian 12: apt-get install systemtap-sdt-dev, or switch the option off")
endif()

if(ZKRECIPES_BUILD_TESTS)
  find_package(GTest QUIET)
  if(NOT TARGET GTest::gtest_main)
    message(FATAL_ERROR "GoogleTest was not found.\n"
                        "Debian 12: apt-get install libgtest-dev, or run scripts/setup.sh")
  endif()
endif()
