# Headers, libraries, programs, guides, the CMake package and the pkg-config files. Nothing in them names an absolute
# path of ours, so an installed tree can be moved.
#
# Components (cmake --install DIR --component NAME), as distributions split packages:
#   runtime       the shared libraries
#   development   headers, static libraries, what CMake and pkg-config read
#   tools         zkr, the command line; zkrecipes-guardian, which the library starts
#   testing       zktesting and zksimulation with their headers
#   doc           guides and examples
include(CMakePackageConfigHelpers)

get_property(zkr_libraries GLOBAL PROPERTY ZKR_LIBRARIES)
if(NOT zkr_libraries)
  return()
endif()

set(zkr_config_dir "${CMAKE_INSTALL_LIBDIR}/cmake/zkrecipes")
set(zkr_pkgconfig_dir "${CMAKE_INSTALL_LIBDIR}/pkgconfig")

set(zkr_testing_libraries zktesting zksimulation) # Always static: for test programs, which nobody installs.

# zkr_component_of(<library> <variable>): where its headers and files for CMake belong.
function(zkr_component_of library variable)
  if(library IN_LIST zkr_testing_libraries)
    set(${variable} testing PARENT_SCOPE)
  else()
    set(${variable} development PARENT_SCOPE)
  endif()
endfunction()

# zkr_install_library(<target> <library>): each form of the libraries, and zktesting, has an export of its own. So any of
# them may be missing, or come later.
function(zkr_install_library target library)
  zkr_component_of(${library} component)
  get_target_property(type ${target} TYPE)
  if(component STREQUAL "testing")
    set(export zkrecipesTestingTargets)
    set(runtime testing)
  elseif(type STREQUAL "SHARED_LIBRARY")
    set(export zkrecipesSharedTargets)
    set(runtime runtime)
  else()
    set(export zkrecipesStaticTargets)
    set(runtime runtime)
  endif()
  install(
    TARGETS ${target}
    EXPORT ${export}
    ARCHIVE COMPONENT ${component}
    LIBRARY COMPONENT ${runtime} NAMELINK_COMPONENT ${component})
  get_property(exports GLOBAL PROPERTY ZKR_EXPORTS)
  if(NOT export IN_LIST exports)
    set_property(GLOBAL APPEND PROPERTY ZKR_EXPORTS ${export})
    install(
      EXPORT ${export}
      NAMESPACE zkrecipes::
      DESTINATION "${zkr_config_dir}"
      COMPONENT ${component})
  endif()
endfunction()

configure_package_config_file(
  cmake/zkrecipesConfig.cmake.in "${PROJECT_BINARY_DIR}/zkrecipesConfig.cmake"
  INSTALL_DESTINATION "${zkr_config_dir}"
  NO_SET_AND_CHECK_MACRO)
zkr_series_compatibility("${PROJECT_VERSION}" zkr_compatibility)
write_basic_package_version_file("${PROJECT_BINARY_DIR}/zkrecipesConfigVersion.cmake"
                                 COMPATIBILITY ${zkr_compatibility})
install(
  FILES "${PROJECT_BINARY_DIR}/zkrecipesConfig.cmake"
        "${PROJECT_BINARY_DIR}/zkrecipesConfigVersion.cmake"
        "${PROJECT_SOURCE_DIR}/cmake/FindZooKeeper.cmake"
  DESTINATION "${zkr_config_dir}"
  COMPONENT development)

# zkr_write_pkg_config(<library>): the .pc file from what zkr_add_library was told.
function(zkr_write_pkg_config library)
  set(pc_name ${library})
  if(library STREQUAL "zkclient")
    set(pc_description "Apache ZooKeeper client for C++20")
  elseif(library STREQUAL "zkrecipes")
    set(pc_description "${PROJECT_DESCRIPTION}")
  elseif(library STREQUAL "zksimulation")
    set(pc_description "A simulated world for the tests of C++20 programs that use ZooKeeper")
  else()
    set(pc_description "Real ZooKeeper servers for the tests of C++20 programs")
  endif()

  set(pc_requires "")
  get_target_property(public ${library} ZKR_PUBLIC)
  foreach(lib IN LISTS public)
    if(lib IN_LIST zkr_libraries)
      list(APPEND pc_requires "${lib} = ${PROJECT_VERSION}")
    endif()
  endforeach()

  # A shared library brings what it needs itself; a static one has to name it: for --static only, if there is a shared
  # one beside it, else always.
  set(pc_requires_private "")
  set(pc_libs_private "")
  get_target_property(type ${library} TYPE)
  if(type STREQUAL "STATIC_LIBRARY")
    get_target_property(private ${library} ZKR_PRIVATE)
    foreach(lib IN LISTS private)
      if(lib STREQUAL "fmt::fmt")
        list(APPEND pc_requires_private fmt)
      elseif(lib STREQUAL "Threads::Threads")
        list(APPEND pc_libs_private -pthread)
      elseif(lib STREQUAL "ZooKeeper::st")
        # The C client has no .pc file. Say where it is only if the linker would not look there.
        get_filename_component(dir "${ZooKeeper_st_LIBRARY}" DIRECTORY)
        if(NOT dir IN_LIST CMAKE_CXX_IMPLICIT_LINK_DIRECTORIES)
          list(APPEND pc_libs_private "-L${dir}")
        endif()
        list(APPEND pc_libs_private -lzookeeper_st)
        if(ZooKeeper_HAS_SSL)
          list(APPEND pc_requires_private libssl libcrypto)
        endif()
        if(ZooKeeper_HAS_SASL)
          list(APPEND pc_requires_private libsasl2)
        endif()
      elseif(lib IN_LIST zkr_libraries)
        list(APPEND pc_requires_private "${lib} = ${PROJECT_VERSION}")
      else()
        message(FATAL_ERROR "${library}.pc: how is ${lib} spelled for pkg-config?")
      endif()
    endforeach()
  endif()

  set(pc_libs "")
  if((type STREQUAL "STATIC_LIBRARY" AND NOT ZKRECIPES_BOTH_FORMS) OR library IN_LIST zkr_testing_libraries)
    list(APPEND pc_requires ${pc_requires_private})
    set(pc_requires_private "")
    set(pc_libs ${pc_libs_private})
    set(pc_libs_private "")
  endif()

  list(JOIN pc_requires ", " pc_requires)
  list(JOIN pc_requires_private ", " pc_requires_private)
  list(PREPEND pc_libs "-l${pc_name}")
  list(JOIN pc_libs " " pc_libs)
  list(JOIN pc_libs_private " " pc_libs_private)
  file(RELATIVE_PATH pc_up "/${zkr_pkgconfig_dir}" "/")
  string(REGEX REPLACE "/$" "" pc_up "${pc_up}")
  file(READ "${PROJECT_SOURCE_DIR}/cmake/library.pc.in" pc)
  string(CONFIGURE "${pc}" pc @ONLY)
  string(REGEX REPLACE "[A-Za-z.]+: *\n" "" pc "${pc}") # fields without a value
  file(GENERATE OUTPUT "${PROJECT_BINARY_DIR}/${library}.pc" CONTENT "${pc}")
  zkr_component_of(${library} component)
  install(
    FILES "${PROJECT_BINARY_DIR}/${library}.pc"
    DESTINATION "${zkr_pkgconfig_dir}"
    COMPONENT ${component})
endfunction()

foreach(library IN LISTS zkr_libraries)
  zkr_install_library(${library} ${library})
  if(ZKRECIPES_BOTH_FORMS AND TARGET ${library}_shared AND NOT library IN_LIST zkr_testing_libraries)
    zkr_install_library(${library}_shared ${library})
  endif()
  zkr_component_of(${library} component)
  if(EXISTS "${PROJECT_SOURCE_DIR}/include/${library}") # The simulation's header is zktesting's.
    install(
      DIRECTORY "${PROJECT_SOURCE_DIR}/include/${library}"
      DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}"
      COMPONENT ${component})
  endif()
  zkr_write_pkg_config(${library})
endforeach()

# README.md's links lead to the guides and the examples beside it, and those of the guides to the monitoring files.
install(
  FILES LICENSE README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT doc)
install(
  FILES bench/README.md
  DESTINATION "${CMAKE_INSTALL_DOCDIR}/bench"
  COMPONENT doc)
install(
  DIRECTORY docs
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT doc
  PATTERN site EXCLUDE)
install(
  DIRECTORY examples monitoring
  DESTINATION "${CMAKE_INSTALL_DOCDIR}"
  COMPONENT doc)
