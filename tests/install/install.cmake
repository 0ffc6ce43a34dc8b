# Installs the build under test, then moves the result, as proof that it can be moved.
# Run with cmake -D BUILD_DIR=... -D PREFIX=... -P.
file(REMOVE_RECURSE "${PREFIX}" "${PREFIX}.first")
execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${PREFIX}.first"
                        COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
file(RENAME "${PREFIX}.first" "${PREFIX}")

# The command line, and a program that the library starts.
find_program(zkr zkr PATHS "${PREFIX}/bin" NO_DEFAULT_PATH NO_CACHE REQUIRED)
execute_process(COMMAND "${zkr}" lock --help COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
find_program(guardian zkrecipes-guardian PATHS "${PREFIX}/bin" NO_DEFAULT_PATH NO_CACHE REQUIRED)

# What shells, manuals and systemd look for by their names.
foreach(
  file IN ITEMS share/man/man1/zkr.1 share/man/man1/zkrecipes-guardian.1 share/bash-completion/completions/zkr
                share/zsh/site-functions/_zkr share/fish/vendor_completions.d/zkr.fish
                lib/systemd/system/zkr-lead@.service)
  if(NOT EXISTS "${PREFIX}/${file}")
    message(FATAL_ERROR "${file} was not installed")
  endif()
endforeach()

# Each component by itself: together they are all that was installed, and no file belongs to two.
set(parts "")
foreach(component IN ITEMS runtime development tools testing doc)
  file(REMOVE_RECURSE "${PREFIX}.${component}")
  file(MAKE_DIRECTORY "${PREFIX}.${component}")
  execute_process(COMMAND "${CMAKE_COMMAND}" --install "${BUILD_DIR}" --prefix "${PREFIX}.${component}" --component
                          ${component} COMMAND_ERROR_IS_FATAL ANY OUTPUT_QUIET)
  file(GLOB_RECURSE files RELATIVE "${PREFIX}.${component}" "${PREFIX}.${component}/*")
  list(APPEND parts ${files})
endforeach()
file(GLOB_RECURSE whole RELATIVE "${PREFIX}" "${PREFIX}/*")
list(SORT parts)
list(SORT whole)
if(NOT parts STREQUAL whole)
  message(FATAL_ERROR "the components are not a partition of what is installed:\n${parts}\nbut\n${whole}")
endif()

# The guides, with README.md beside them, whose links lead there.
file(GLOB_RECURSE guides RELATIVE "${PREFIX}" "${PREFIX}/*.md")
foreach(name IN ITEMS README.md CHANGELOG.md docs/locks.md examples/README.md)
  if(NOT guides MATCHES "share/doc/zkrecipes/${name}")
    message(FATAL_ERROR "${name} was not installed")
  endif()
endforeach()
# A link is `](FILE)` or `](FILE#HEADING)`. What is in brackets before it does not matter, but would confuse CMake's lists.
foreach(guide IN LISTS guides)
  cmake_path(GET guide PARENT_PATH folder)
  file(READ "${PREFIX}/${guide}" text)
  string(REGEX REPLACE "[][;]" "|" text "${text}")
  string(REGEX MATCHALL "[|]\\([^()#: \n]+[)#]" links "${text}")
  list(TRANSFORM links REPLACE "^..(.+).$" "\\1")
  foreach(link IN LISTS links)
    if(NOT EXISTS "${PREFIX}/${folder}/${link}")
      message(FATAL_ERROR "${guide} has a link to ${link}, which is not installed")
    endif()
  endforeach()
endforeach()

# The package without the component testing: install_missing_component asks for what is in it.
file(REMOVE_RECURSE "${PREFIX}.without_zktesting")
file(COPY "${PREFIX}.development/" DESTINATION "${PREFIX}.without_zktesting")
file(COPY "${PREFIX}.runtime/" DESTINATION "${PREFIX}.without_zktesting")

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
