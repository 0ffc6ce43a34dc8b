# Written by the build (tests/CMakeLists.txt), read by the servers of tests.
set(ZKR_CLASS_ARCHIVE "${PROJECT_BINARY_DIR}/zookeeper.jsa")
# A server that scripts/setup.sh could not install but unpack.
set(ZKR_JARS "")
if(EXISTS "${PROJECT_SOURCE_DIR}/build/deps/usr/share/java/zookeeper.jar")
  set(ZKR_JARS "ZKRECIPES_JARS=${PROJECT_SOURCE_DIR}/build/deps/usr/share/java")
endif()

# zkr_add_test(<name> LABEL <unit|integration|faults|interop> SOURCES <file>...
#              [LIBS <lib>...] [TIMEOUT <seconds>] [NO_MAIN] [SIMULATED])
#
# One executable, and one CTest test for it: each executable may start a server, so its cases share
# one. It links zkclient, zkrecipes and zktesting. NO_MAIN: the sources define main() themselves. SIMULATED: its tests
# of faults play in simulated worlds, where there are any (tests/support/fault_server.hpp).
function(zkr_add_test name)
  cmake_parse_arguments(PARSE_ARGV 1 arg "NO_MAIN;SIMULATED" "LABEL;TIMEOUT" "SOURCES;LIBS")
  if(NOT arg_LABEL MATCHES "^(unit|integration|faults|interop)$")
    message(FATAL_ERROR "zkr_add_test(${name}): LABEL unit, integration, faults or interop")
  endif()
  if(NOT arg_TIMEOUT)
    set(arg_TIMEOUT 1200)  # Ends what hangs; nothing that is slow.
  endif()
  if(arg_SIMULATED AND ZKR_HAS_SIMULATION)
    list(APPEND arg_SOURCES support/simulated_faults.cpp)
    list(APPEND arg_LIBS zkrecipes::zksimulation)
  endif()
  add_executable(${name}_test ${arg_SOURCES})
  zkr_configure_target(${name}_test)
  target_precompile_headers(${name}_test REUSE_FROM testkit)
  zkr_join_sources(${name}_test)
  target_include_directories(${name}_test PRIVATE "${PROJECT_SOURCE_DIR}"
                                                  "${PROJECT_SOURCE_DIR}/include")
  if(arg_NO_MAIN)
    target_link_libraries(${name}_test PRIVATE GTest::gtest)
  else()
    target_link_libraries(${name}_test PRIVATE GTest::gtest_main)
  endif()
  target_link_libraries(
    ${name}_test PRIVATE ${arg_LIBS} zkrecipes::zkrecipes zkrecipes::zkclient zkrecipes::zktesting
                         fmt::fmt Threads::Threads)

  add_test(NAME ${name} COMMAND ${name}_test)
  zkr_test_properties(${name} ${arg_LABEL} ${arg_TIMEOUT})
endfunction()

# What every CTest test of ours has, also those that are not made by zkr_add_test.
function(zkr_test_properties name label timeout)
  # What takes longest begins first: what waits for sessions to end, or for programs of other languages.
  set(cost 0)
  if(label MATCHES "^(faults|interop)$" OR name MATCHES "^(fuzz|recipes_units|zkclient_connection)$")
    set(cost 100)
  endif()
  # What is read or freed after it was freed shows itself: g++ 12 destroys some parts of a co_await expression twice.
  set(memory "MALLOC_PERTURB_=165;")
  if(ZKRECIPES_SANITIZE)
    set(memory "")
  endif()
  set_tests_properties(
    ${name}
    PROPERTIES
      COST ${cost}
      LABELS ${label}
      TIMEOUT ${timeout}
      ENVIRONMENT
      "${memory}ASAN_OPTIONS=detect_stack_use_after_return=1;UBSAN_OPTIONS=print_stacktrace=1;TSAN_OPTIONS=second_deadlock_stack=1:suppressions=${PROJECT_SOURCE_DIR}/tests/support/tsan.supp;ZKRECIPES_CLASS_ARCHIVE=${ZKR_CLASS_ARCHIVE};${ZKR_JARS}"
  )
endfunction()

# zkr_shorten_with_sanitizers(<name> [WITHOUT <gtest pattern>...] [RUNS <number>])
#
# For test <name>, in sanitizers' builds: leave out WITHOUT, and take RUNS for ZKRECIPES_RUNS. For figures of a model, which
# are the same with a sanitizer, and for numbers of rounds after which it sees nothing new: in those builds they cost
# several times as much. The program itself, started by hand, leaves out nothing.
function(zkr_shorten_with_sanitizers name)
  if(NOT ZKRECIPES_SANITIZE OR NOT TEST ${name})
    return()
  endif()
  cmake_parse_arguments(PARSE_ARGV 1 arg "" "RUNS" "WITHOUT")
  set(changes "")
  if(arg_WITHOUT)
    list(JOIN arg_WITHOUT ":" patterns)
    list(APPEND changes "GTEST_FILTER=set:-${patterns}")
  endif()
  if(arg_RUNS)
    list(APPEND changes "ZKRECIPES_RUNS=set:${arg_RUNS}")
  endif()
  set_property(TEST ${name} APPEND PROPERTY ENVIRONMENT_MODIFICATION "${changes}")
endfunction()
