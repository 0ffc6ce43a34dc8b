# Functions that define the project's targets, so that all of them are built alike.
include(ZkrSeries)
zkr_series("${PROJECT_VERSION}" ZKR_SERIES)

# Warnings and sanitizers: for our own targets only, never exported. Where several sources are compiled as one, names hide
# those of the sources before, and that is of no interest.
set(joined $<BOOL:$<TARGET_PROPERTY:UNITY_BUILD>>)
add_library(zkr_build_flags INTERFACE)
target_compile_options(zkr_build_flags INTERFACE -Wall -Wextra -Wconversion $<$<NOT:${joined}>:-Wshadow> -Wpedantic)
if(ZKRECIPES_WERROR)
  target_compile_options(zkr_build_flags INTERFACE -Werror)
endif()
if(CMAKE_CXX_COMPILER_ID STREQUAL GNU)
  # With -O3, g++ 12 warns of overlaps inside std::string's operator+.
  target_compile_options(zkr_build_flags INTERFACE -Wno-restrict $<${joined}:-Wno-subobject-linkage>)
endif()

# Of the sources that simulations run in, millions of times: without optimisation, as in the sanitizers' builds, that takes
# minutes.
set(ZKR_SIMULATED_FLAGS -O2)

if(ZKRECIPES_SANITIZE)
  set(ZKR_SANITIZE_FLAGS "-fsanitize=${ZKRECIPES_SANITIZE}" -fno-sanitize-recover=all
                         -fno-omit-frame-pointer)
  if(CMAKE_CXX_COMPILER_ID STREQUAL Clang)
    # clang 14 cannot put what this check needs before a coroutine.
    list(APPEND ZKR_SANITIZE_FLAGS -fno-sanitize=function)
    if(ZKRECIPES_SANITIZE MATCHES address AND NOT ZKRECIPES_FUZZ)
      # As a library, as that of g++ is: the simulated world puts itself before the C library, and before it.
      execute_process(COMMAND "${CMAKE_CXX_COMPILER}" "-print-file-name=libclang_rt.asan-${CMAKE_SYSTEM_PROCESSOR}.so"
                      OUTPUT_VARIABLE runtime OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
      cmake_path(GET runtime PARENT_PATH runtime)
      target_link_options(zkr_build_flags INTERFACE -shared-libasan "LINKER:-rpath,${runtime}")
    endif()
    # As g++ says which sanitizer it compiles for.
    foreach(sanitizer IN ITEMS address thread)
      if(ZKRECIPES_SANITIZE MATCHES ${sanitizer})
        string(TOUPPER ${sanitizer} sanitizer)
        target_compile_definitions(zkr_build_flags INTERFACE __SANITIZE_${sanitizer}__)
      endif()
    endforeach()
  endif()
  if(ZKRECIPES_SANITIZE MATCHES undefined)
    # vptr needs a descriptor to look at an object, and takes it for a wrong one where there is none. The other two look
    # at each access by a pointer, which AddressSanitizer does as well: a third of what a source costs to compile.
    list(APPEND ZKR_SANITIZE_FLAGS -fno-sanitize=vptr,null,alignment)
  endif()
  if(ZKRECIPES_SANITIZE MATCHES address AND CMAKE_CXX_COMPILER_ID STREQUAL GNU)
    # Each access is checked by a function, not in line: programs wait more than they compute, and a source compiles as
    # fast as without the sanitizer.
    list(APPEND ZKR_SANITIZE_FLAGS --param=asan-instrumentation-with-call-threshold=0)
    list(APPEND ZKR_SIMULATED_FLAGS --param=asan-instrumentation-with-call-threshold=7000)
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

# Parsing the standard library takes longer than most of our sources. In other people's builds we leave it, because a
# compiler cache may not be set up for it.
function(zkr_precompile target)
  if(ARGN AND PROJECT_IS_TOP_LEVEL)
    target_precompile_headers(${target} PRIVATE ${ARGN})
  endif()
endfunction()

# Sanitizers' builds, and those that begin from nothing (ZKRECIPES_JOIN_SOURCES), compile the sources of a target that
# are in one folder as one: they share what they include and instantiate, so a library takes a third of the time, a test
# program half. So a name in an unnamed namespace is used once in a folder. This holds for users' builds as well, who may
# set CMAKE_UNITY_BUILD. CMake leaves out sources that have options of their own.
function(zkr_join_sources target)
  if(ZKRECIPES_SANITIZE OR ZKRECIPES_JOIN_SOURCES)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON)
  endif()
  set_target_properties(${target} PROPERTIES UNITY_BUILD_MODE GROUP)
  get_target_property(sources ${target} SOURCES)
  foreach(source IN LISTS sources)
    get_filename_component(folder "${source}" DIRECTORY)
    string(MAKE_C_IDENTIFIER "joined_${folder}" group)
    set_source_files_properties(${source} PROPERTIES UNITY_GROUP ${group})
  endforeach()
endfunction()

# zkr_add_library(<name> SOURCES <file>... [PUBLIC <lib>...] [PRIVATE <lib>...] [PRECOMPILE <header>...])
# PRIVATE libraries reach consumers of a static library, for linking only. The installed package follows from these.
# PRECOMPILE: what nearly every source includes. A source includes all the same what it uses: scripts/lint.sh reads the
# sources without precompiled headers.
function(zkr_add_library name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;PUBLIC;PRIVATE;PRECOMPILE")
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
               SOVERSION ${ZKR_SERIES})
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
  zkr_precompile(${name} ${arg_PRECOMPILE})
  zkr_join_sources(${name})
  set_property(GLOBAL APPEND PROPERTY ZKR_LIBRARIES ${name})
  set_target_properties(${name} PROPERTIES ZKR_PUBLIC "${arg_PUBLIC}" ZKR_PRIVATE "${arg_PRIVATE}")
endfunction()

# zkr_add_shared_form(<name> <library>): a shared library of the objects of a static one, which are position-independent and
# hide their symbols in either form. It costs a link. What <library> needs publicly are libraries of ours, whose shared forms
# are named <needed>_shared.
function(zkr_add_shared_form name library)
  get_target_property(public ${library} ZKR_PUBLIC)
  get_target_property(private ${library} ZKR_PRIVATE)
  if(NOT public)
    set(public "")
  endif()
  add_library(${name} SHARED $<TARGET_OBJECTS:${library}>)
  set_target_properties(
    ${name}
    PROPERTIES LINKER_LANGUAGE CXX
               OUTPUT_NAME ${library}
               EXPORT_NAME ${library}
               VERSION ${PROJECT_VERSION}
               SOVERSION ${ZKR_SERIES})
  target_compile_features(${name} PUBLIC cxx_std_20)
  target_include_directories(${name} INTERFACE $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  list(TRANSFORM public APPEND _shared)
  target_link_libraries(
    ${name}
    PUBLIC ${public}
    PRIVATE ${private})
  target_link_options(${name} PRIVATE -Wl,-z,defs)
endfunction()

# For a directory of programs that run once or never, in a build that begins from nothing: to optimise them takes longer than
# it saves, and to parse what all of them include takes longer than the rest.
macro(zkr_compile_quickly)
  if(ZKRECIPES_JOIN_SOURCES)
    add_compile_options(-O0)
    set(ZKR_PROGRAM_HEADERS program_headers)
    if(NOT TARGET program_headers)
      add_library(program_headers OBJECT "${PROJECT_SOURCE_DIR}/cmake/program_headers.cpp")
      zkr_configure_target(program_headers)
      target_link_libraries(program_headers PRIVATE zkrecipes::zkclient)
      target_precompile_headers(program_headers PRIVATE <algorithm> <condition_variable> <fstream> <iostream> <map> <set> <thread>
                                <zkclient/client.hpp> <zkrecipes/group.hpp> <zkrecipes/mutex.hpp>)
    endif()
  endif()
endmacro()

# zkr_add_program(<name> SOURCES <file>... [LIBS <lib>...]): an example or a benchmark.
function(zkr_add_program name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "" "SOURCES;LIBS")
  add_executable(${name} ${arg_SOURCES})
  zkr_configure_target(${name})
  target_link_libraries(${name} PRIVATE ${arg_LIBS})
  if(ZKR_PROGRAM_HEADERS AND arg_LIBS MATCHES "zkrecipes::|bench_peers")
    target_precompile_headers(${name} REUSE_FROM ${ZKR_PROGRAM_HEADERS})
    zkr_join_sources(${name})
  endif()
endfunction()
