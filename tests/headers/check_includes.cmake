# Public headers include the standard library and each other, nothing else. Run with cmake -P.

# The opt-in headers, what each may use in addition, and that no other header may include.
set(extra_zkclient/asio.hpp "^<boost/")
set(extra_zkclient/asio/initiate.hpp "^<boost/")
set(extra_zkclient/asio/operation.hpp "^<boost/")
set(extra_zkclient/asio/watch_event.hpp "^<boost/")
set(extra_zkclient/format.hpp "^<fmt/")
set(extra_zkrecipes/asio.hpp "^<boost/")
set(extra_zkrecipes/format.hpp "^<fmt/")

file(
  GLOB_RECURSE headers
  RELATIVE "${INCLUDE_DIR}"
  "${INCLUDE_DIR}/*")
set(bad "")
foreach(header IN LISTS headers)
  file(STRINGS "${INCLUDE_DIR}/${header}" lines REGEX "^[ \t]*#[ \t]*include")
  foreach(line IN LISTS lines)
    string(REGEX REPLACE "^[ \t]*#[ \t]*include[ \t]*([<\"][^>\"]*[>\"]).*" "\\1" name "${line}")
    if(name MATCHES "^<[a-z_]+>$") # <vector>, but not <stdint.h> or <unistd.h>
      continue()
    endif()
    if(name MATCHES "^<((zkclient|zkrecipes|zktesting)/[a-z0-9_/]+\\.hpp)>$")
      set(included "${CMAKE_MATCH_1}")
      if(DEFINED extra_${included} AND NOT "${extra_${included}}" STREQUAL "${extra_${header}}")
        string(APPEND bad "  ${header}: ${name} is opt-in\n")
        continue()
      endif()
      if(EXISTS "${INCLUDE_DIR}/${included}")
        continue()
      endif()
      string(APPEND bad "  ${header}: ${name} is no public header\n")
      continue()
    endif()
    if(DEFINED extra_${header} AND name MATCHES "${extra_${header}}")
      continue()
    endif()
    string(APPEND bad "  ${header}: ${name}\n")
  endforeach()
endforeach()

if(bad)
  message(FATAL_ERROR "Public headers include only <std> and <zkclient|zkrecipes|zktesting/...>:\n"
                      "${bad}")
endif()
list(LENGTH headers count)
message(STATUS "${count} public headers include only std and each other")
