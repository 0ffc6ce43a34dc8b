# Functions that define the project's targets, so that all of them are built alike.

# Warnings and sanitizers: for our own targets only, never exported.
add_library(zkr_build_flags INTERFACE)
target_compile_options(zkr_build_flags INTERFACE -Wall -Wextra -Wconversion -Wshadow -Wpedantic)
if(ZKRECIPES_WERROR)
  target_compile_options(zkr_build_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # With -O3, g++ 12 warns of overlaps inside std::string's operator+.
  target_compile_options(zkr_build_flags INTERFACE -Wno-restrict)
endif()

if(ZKRECIPES_SANITIZE)
  set(ZKR_SANITIZE_FLAGS "-fsanitize=${ZKRECIPES_SANITIZE}" -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # clang 14 cannot put what this check needs before a coroutine.
    list(APPEND ZKR_SANITIZE_FLAGS -fno-sanitize=function)
  endif()
  target_compile_options(zkr_build_flags INTERFACE ${ZKR_SANITIZE_FLAGS})
  target_link_options(zkr_build_flags INTERFACE ${ZKR_SANITIZE_FLAGS})
  if(ZKRECIPES_SANITIZE MATCHES thread AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # ThreadSanitizer does not model the fences of Asio, which tests and examples use; the mutexes around them it does
    # see.
    target_compile_options(zkr_build_flags INTERFACE -Wno-tsan)
  endif()
endif()

if(ZKRECIPES_FUZZ)
  target_compile_options(zkr_build_flags INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Everything that is the same for each library, program and test.
function(zkr_configure_target target)
  set_target_properties(${target} PROPERTIES CXX_EXTENSIONS OFF)
  target_compile_features(${target} PUBLIC cxx_std_20)
  # BUILD_INTERFACE keeps the flags out of the installed package.
  target_link_libraries(${target} PRIVATE $<BUILD_INTERFACE:zkr_build_flags>)
endfunction()

# zkr_add_library(<name> SOURCES <file>... [PUBLIC <lib>...] [PRIVATE <lib>...])
# PRIVATE libraries reach consumers of a static library, for linking only. The installed package follows from these.
function(zkr_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE")
  add_library(${name} ${arg_SOURCES})
  add_library(zkrecipes::${name} ALIAS ${name})
  zkr_configure_target(${name})
  set_target_properties(
    ${name}
    PROPERTIES POSITION_INDEPENDENT_CODE ON
               # Only what <zkclient/export.hpp> marks is seen outside. Also in a static library: it may become a part
               # of somebody's shared one.
               CXX_VISIBILITY_PRESET hidden
               VISIBILITY_INLINES_HIDDEN ON
               VERSION ${PROJECT_VERSION}
               SOVERSION ${PROJECT_VERSION_MAJOR}.${PROJECT_VERSION_MINOR})
  # Public headers are <zkclient/x.hpp>, private ones "zkclient/detail/x.hpp".
  target_include_directories(
    ${name}
    PUBLIC $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include>
           $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>
    PRIVATE "${PROJECT_SOURCE_DIR}")
  target_link_libraries(
    ${name}
    PUBLIC ${arg_PUBLIC}
    PRIVATE ${arg_PRIVATE})
  set_property(GLOBAL APPEND PROPERTY ZKR_LIBRARIES ${name})
  set_target_properties(${name} PROPERTIES ZKR_PUBLIC "${arg_PUBLIC}" ZKR_PRIVATE "${arg_PRIVATE}")
endfunction()

# zkr_add_program(<name> SOURCES <file>... [LIBS <lib>...]): an example or a benchmark.
function(zkr_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES})
  zkr_configure_target(${name})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
endfunction()
