# Installs the build under test, then moves the result, as proof that it can be moved.
# Run with cmake -D BUILD_DIR=... -D PREFIX=... -P.
file(REMOVE_RECURSE "${PREFIX}" "${PREFIX}.first")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${PREFIX}.first"
                        COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
file(RENAME "${PREFIX}.first" "${PREFIX}")

# A program that the library starts is a part of it.
find_program(guardian zkrecipes-guardian PATHS "${PREFIX}/bin" NO_DEFAULT_PATH NO_CACHE REQUIRED)

# The guides, with README.md beside them, whose links lead there.
file(GLOB_RECURSE guides RELATIVE "${PREFIX}" "${PREFIX}/*.md")
foreach(name IN ITEMS README.md CHANGELOG.md docs/locks.md)
  if(NOT guides MATCHES "share/doc/zkrecipes/${name}")
    message(FATAL_ERROR "${name} was not installed")
  endif()
endforeach()

# The same package as it is without zktesting: install_missing_component asks for that.
file(REMOVE_RECURSE "${PREFIX}.without_zktesting")
file(GLOB_RECURSE package "${PREFIX}/*/cmake/zkrecipes/*.cmake")
file(COPY ${package} DESTINATION "${PREFIX}.without_zktesting")
file(WRITE "${PREFIX}.without_zktesting/zkrecipesTargets.cmake" "")

# Neither the source tree nor the build tree may be named in what a user reads.
file(GLOB_RECURSE texts "${PREFIX}/*.cmake" "${PREFIX}/*.pc" "${PREFIX}/*.hpp")
foreach(file IN LISTS texts)
  file(READ "${file}" text)
  foreach(dir IN ITEMS "${BUILD_DIR}" "${PREFIX}.first")
    string(FIND "${text}" "${dir}" at)
    if(NOT at EQUAL -1)
      message(FATAL_ERROR "${file} names ${dir}")
    endif()
  endforeach()
endforeach()
