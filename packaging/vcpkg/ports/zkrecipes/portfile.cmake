# An overlay port that builds the checkout which it is in: vcpkg install zkrecipes --overlay-ports=packaging/vcpkg/ports
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(
  OUT_FEATURE_OPTIONS features
  FEATURES testing ZKRECIPES_BUILD_TESTING_LIB
  # Else zkr would be built with what the system has.
  INVERTED_FEATURES zkr CMAKE_DISABLE_FIND_PACKAGE_CLI11)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  # Probes: else the system would decide.
  OPTIONS ${features} -DZKRECIPES_BUILD_TESTS=OFF -DZKRECIPES_BUILD_EXAMPLES=OFF -DZKRECIPES_BUILD_BENCH=OFF
          -DZKRECIPES_PROBES=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/zkrecipes)
vcpkg_fixup_pkgconfig()
set(programs zkrecipes-guardian)
if("zkr" IN_LIST FEATURES)
  list(APPEND programs zkr)
endif()
vcpkg_copy_tools(TOOL_NAMES ${programs} AUTO_CLEAN)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
     "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/share/man")
# Shells and systemd look for theirs in the system.
foreach(folder IN ITEMS share/bash-completion share/fish share/zsh lib/systemd debug/lib/systemd)
  file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/${folder}")
endforeach()
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
