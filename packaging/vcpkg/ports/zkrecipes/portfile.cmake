# An overlay port that builds the checkout which it is in: vcpkg install zkrecipes --overlay-ports=packaging/vcpkg/ports
get_filename_component(SOURCE_PATH "${CMAKE_CURRENT_LIST_DIR}/../../../.." ABSOLUTE)

vcpkg_check_features(OUT_FEATURE_OPTIONS features FEATURES testing ZKRECIPES_BUILD_TESTING_LIB)
vcpkg_cmake_configure(
  SOURCE_PATH "${SOURCE_PATH}"
  OPTIONS ${features} -DZKRECIPES_BUILD_TESTS=OFF -DZKRECIPES_BUILD_EXAMPLES=OFF -DZKRECIPES_BUILD_BENCH=OFF)
vcpkg_cmake_install()
vcpkg_cmake_config_fixup(CONFIG_PATH lib/cmake/zkrecipes)
vcpkg_fixup_pkgconfig()
vcpkg_copy_tools(TOOL_NAMES zkrecipes-guardian AUTO_CLEAN)

file(REMOVE_RECURSE "${CURRENT_PACKAGES_DIR}/debug/include" "${CURRENT_PACKAGES_DIR}/debug/share"
     "${CURRENT_PACKAGES_DIR}/share/doc" "${CURRENT_PACKAGES_DIR}/share/man")
vcpkg_install_copyright(FILE_LIST "${SOURCE_PATH}/LICENSE")
