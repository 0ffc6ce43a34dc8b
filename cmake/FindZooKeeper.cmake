#[=======================================================================[.rst:
FindZooKeeper
-------------

Finds the Apache ZooKeeper C client. Components:

``st``  the single-threaded library, target ``ZooKeeper::st`` (the default component)
``mt``  the multi-threaded library, target ``ZooKeeper::mt``

The two export the same symbols: never link both into one program. ``ZooKeeper_ROOT`` is the prefix of
another C client than the system's, one with TLS for instance.

Result variables: ``ZooKeeper_FOUND``, ``ZooKeeper_VERSION``, ``ZooKeeper_INCLUDE_DIR``,
``ZooKeeper_st_LIBRARY``, ``ZooKeeper_mt_LIBRARY``, and what the ``st`` library was built with:
``ZooKeeper_HAS_SSL`` (zookeeper_init_ssl) and ``ZooKeeper_HAS_SASL`` (zookeeper_init_sasl). Each needs
the headers and libraries of OpenSSL, or Cyrus SASL, and is false without them.
#]=======================================================================]

find_path(ZooKeeper_INCLUDE_DIR NAMES zookeeper/zookeeper.h)
find_library(ZooKeeper_st_LIBRARY NAMES zookeeper_st)
find_library(ZooKeeper_mt_LIBRARY NAMES zookeeper_mt)
mark_as_advanced(ZooKeeper_INCLUDE_DIR ZooKeeper_st_LIBRARY ZooKeeper_mt_LIBRARY)

set(_zookeeper_header "${ZooKeeper_INCLUDE_DIR}/zookeeper/zookeeper_version.h")
if(ZooKeeper_INCLUDE_DIR AND EXISTS "${_zookeeper_header}")
  file(STRINGS "${_zookeeper_header}" _zookeeper_line REGEX "define +ZOO_VERSION +\"")
  if(_zookeeper_line MATCHES "\"([0-9.]+)")
    set(ZooKeeper_VERSION "${CMAKE_MATCH_1}")
  endif()
  unset(_zookeeper_line)
endif()
unset(_zookeeper_header)

foreach(_zookeeper_component IN ITEMS st mt)
  if(ZooKeeper_INCLUDE_DIR AND ZooKeeper_${_zookeeper_component}_LIBRARY)
    set(ZooKeeper_${_zookeeper_component}_FOUND TRUE)
  else()
    set(ZooKeeper_${_zookeeper_component}_FOUND FALSE)
  endif()
endforeach()
unset(_zookeeper_component)

if(NOT ZooKeeper_FIND_COMPONENTS)
  set(ZooKeeper_FIND_COMPONENTS st)
  set(ZooKeeper_FIND_REQUIRED_st TRUE)
endif()

set(_zookeeper_reason "")
if(NOT ZooKeeper_st_FOUND AND ZooKeeper_FIND_REQUIRED_st)
  string(APPEND _zookeeper_reason "The ZooKeeper C client (single-threaded) is missing. "
                                  "Debian: apt-get install libzookeeper-st-dev. ")
endif()
if(NOT ZooKeeper_mt_FOUND AND ZooKeeper_FIND_REQUIRED_mt)
  string(APPEND _zookeeper_reason "The ZooKeeper C client (multi-threaded) is missing. "
                                  "Debian: apt-get install libzookeeper-mt-dev. ")
endif()

include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(
  ZooKeeper
  REQUIRED_VARS ZooKeeper_INCLUDE_DIR
  VERSION_VAR ZooKeeper_VERSION
  HANDLE_COMPONENTS
  REASON_FAILURE_MESSAGE "${_zookeeper_reason}")
unset(_zookeeper_reason)

# The header hides the TLS and SASL functions unless these are defined, so ask the library itself.
if(ZooKeeper_st_FOUND)
  include(CheckCXXSourceCompiles)
  include(CMakePushCheckState)
  find_package(OpenSSL QUIET)
  find_path(ZooKeeper_SASL_INCLUDE_DIR NAMES sasl/sasl.h)
  find_library(ZooKeeper_SASL_LIBRARY NAMES sasl2)
  mark_as_advanced(ZooKeeper_SASL_INCLUDE_DIR ZooKeeper_SASL_LIBRARY)
  if(NOT ZooKeeper_CHECKED_LIBRARY STREQUAL ZooKeeper_st_LIBRARY)
    unset(ZooKeeper_SSL_SYMBOL CACHE)
    unset(ZooKeeper_SASL_SYMBOL CACHE)
    set(ZooKeeper_CHECKED_LIBRARY "${ZooKeeper_st_LIBRARY}" CACHE INTERNAL "")
  endif()
  cmake_push_check_state(RESET)
  set(CMAKE_REQUIRED_QUIET TRUE)
  set(CMAKE_REQUIRED_LIBRARIES "${ZooKeeper_st_LIBRARY}")
  if(OPENSSL_FOUND) # Libraries that a static C client needs.
    list(APPEND CMAKE_REQUIRED_LIBRARIES OpenSSL::SSL OpenSSL::Crypto)
  endif()
  if(ZooKeeper_SASL_LIBRARY)
    list(APPEND CMAKE_REQUIRED_LIBRARIES "${ZooKeeper_SASL_LIBRARY}")
  endif()
  foreach(_zookeeper_feature IN ITEMS ssl sasl)
    string(TOUPPER "${_zookeeper_feature}" _zookeeper_upper)
    check_cxx_source_compiles(
      "extern \"C\" void zookeeper_init_${_zookeeper_feature}(void);
       int main() { zookeeper_init_${_zookeeper_feature}(); }"
      ZooKeeper_${_zookeeper_upper}_SYMBOL)
    set(ZooKeeper_HAS_${_zookeeper_upper} "${ZooKeeper_${_zookeeper_upper}_SYMBOL}")
  endforeach()
  cmake_pop_check_state()
  unset(_zookeeper_feature)
  unset(_zookeeper_upper)
  if(ZooKeeper_HAS_SSL AND NOT OPENSSL_FOUND)
    set(ZooKeeper_HAS_SSL FALSE)
    message(STATUS "The ZooKeeper C client has TLS, but OpenSSL's headers are missing (Debian: libssl-dev)")
  endif()
  if(ZooKeeper_HAS_SASL AND NOT (ZooKeeper_SASL_INCLUDE_DIR AND ZooKeeper_SASL_LIBRARY))
    set(ZooKeeper_HAS_SASL FALSE)
    message(STATUS "The ZooKeeper C client has SASL, but Cyrus SASL's headers are missing (Debian: libsasl2-dev)")
  endif()
endif()

if(ZooKeeper_st_FOUND AND NOT TARGET ZooKeeper::st)
  add_library(ZooKeeper::st UNKNOWN IMPORTED)
  set_target_properties(
    ZooKeeper::st PROPERTIES IMPORTED_LOCATION "${ZooKeeper_st_LIBRARY}"
                             INTERFACE_INCLUDE_DIRECTORIES "${ZooKeeper_INCLUDE_DIR}")
  if(ZooKeeper_HAS_SSL)
    set_property(TARGET ZooKeeper::st APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS HAVE_OPENSSL_H)
    set_property(TARGET ZooKeeper::st APPEND PROPERTY INTERFACE_LINK_LIBRARIES OpenSSL::SSL
                                                      OpenSSL::Crypto)
  endif()
  if(ZooKeeper_HAS_SASL)
    set_property(TARGET ZooKeeper::st APPEND PROPERTY INTERFACE_COMPILE_DEFINITIONS
                                                      HAVE_CYRUS_SASL_H)
    set_property(TARGET ZooKeeper::st APPEND PROPERTY INTERFACE_INCLUDE_DIRECTORIES
                                                      "${ZooKeeper_SASL_INCLUDE_DIR}")
    set_property(TARGET ZooKeeper::st APPEND PROPERTY INTERFACE_LINK_LIBRARIES
                                                      "${ZooKeeper_SASL_LIBRARY}")
  endif()
endif()

if(ZooKeeper_mt_FOUND AND NOT TARGET ZooKeeper::mt)
  add_library(ZooKeeper::mt UNKNOWN IMPORTED)
  set_target_properties(
    ZooKeeper::mt
    PROPERTIES IMPORTED_LOCATION "${ZooKeeper_mt_LIBRARY}"
               INTERFACE_INCLUDE_DIRECTORIES "${ZooKeeper_INCLUDE_DIR}"
               INTERFACE_COMPILE_DEFINITIONS THREADED)
endif()
