# The series of a version number: the newer one of two versions of a series can replace the older one. Before 1.0 a minor
# version may break programs, so 0.7.x is a series, named 0.7; from 1.0 on only a major version may, so 2.x.y is one, named 2.
# The soversion, the name of Debian's runtime package and what find_package accepts follow from it.
#
# As a script it prints the series of CMakeLists.txt's version, or of another one:
#   cmake [-D version=MAJOR.MINOR.PATCH] -P cmake/ZkrSeries.cmake

# zkr_series(<version> <variable>)
function(zkr_series version variable)
  if(NOT version MATCHES "^[0-9]+\\.[0-9]+\\.[0-9]+$")
    message(FATAL_ERROR "'${version}' is no version: MAJOR.MINOR.PATCH")
  endif()
  string(REGEX MATCH "^(0\\.)?[0-9]+" series "${version}")
  set(${variable} "${series}" PARENT_SCOPE)
endfunction()

# zkr_series_compatibility(<version> <variable>): what write_basic_package_version_file calls it.
function(zkr_series_compatibility version variable)
  zkr_series("${version}" series)
  if(series MATCHES "\\.")
    set(${variable} SameMinorVersion PARENT_SCOPE)
  else()
    set(${variable} SameMajorVersion PARENT_SCOPE)
  endif()
endfunction()

if(CMAKE_SCRIPT_MODE_FILE STREQUAL CMAKE_CURRENT_LIST_FILE)
  if(NOT DEFINED version)
    file(STRINGS "${CMAKE_CURRENT_LIST_DIR}/../CMakeLists.txt" version REGEX "^  VERSION [0-9.]+$")
    string(REPLACE "  VERSION " "" version "${version}")
  endif()
  zkr_series("${version}" series)
  execute_process(COMMAND "${CMAKE_COMMAND}" -E echo "${series}")
endif()
