"""zkrecipes for Conan 2, from this checkout: conan create packaging/conan. README.md beside this folder says what was tried."""

import os
import re

from conan import ConanFile
from conan.errors import ConanException
from conan.tools.build import check_min_cppstd
from conan.tools.cmake import CMake, CMakeDeps, CMakeToolchain, cmake_layout
from conan.tools.files import copy, load, rmdir
from conan.tools.system.package_manager import Apt

SOURCES = ("CMakeLists.txt", "LICENSE", "README.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md", "bench/README.md", "cmake/*",
           "docs/*", "examples/*", "include/*",
           "monitoring/*", "recipes/*", "simulation/*", "tools/*", "zkclient/*",
           "zktesting/*")
BOOST, HEADERS = "boost/[>=1.81 <2]", {"header_only": True}


class ZkrecipesConan(ConanFile):
    name = "zkrecipes"
    description = "Coordination recipes for C++20 on Apache ZooKeeper"
    license = "Apache-2.0"
    topics = ("zookeeper", "coordination", "lock", "leader-election")
    settings = "os", "arch", "compiler", "build_type"
    package_type = "library"
    options = {"shared": [True, False], "with_asio": [True, False], "with_testing": [True, False], "with_zkr": [True, False]}
    default_options = {"shared": False, "with_asio": False, "with_testing": False, "with_zkr": False}

    def _root(self):
        return os.path.join(self.recipe_folder, "..", "..")

    def set_version(self):
        text = load(self, os.path.join(self._root(), "CMakeLists.txt"))
        self.version = re.search(r"^  VERSION ([0-9.]+)$", text, re.M)[1]

    def export_sources(self):
        for pattern in SOURCES:
            copy(self, pattern, self._root(), self.export_sources_folder)

    def layout(self):
        cmake_layout(self)

    def validate(self):
        check_min_cppstd(self, 20)

    def system_requirements(self):
        # ConanCenter has the multi-threaded C client only.
        packages = ["libzookeeper-st-dev"]
        if self.options.with_zkr:  # CMake's own module finds the system's.
            packages.append("libncurses-dev")
        Apt(self).install(packages, check=True)

    def requirements(self):
        self.requires("fmt/[>=9 <12]", transitive_headers=True)
        if self.options.with_asio:
            self.requires(BOOST, transitive_headers=True, options=HEADERS)

    def build_requirements(self):
        self.test_requires("nlohmann_json/[>=3.11 <4]")
        if self.options.with_zkr:  # Headers, which nobody else needs.
            self.test_requires("cli11/[>=2.1 <3]")
            self.test_requires("tomlplusplus/[>=3 <4]")
            if not self.options.with_asio:
                self.test_requires(BOOST, options=HEADERS)

    def generate(self):
        CMakeDeps(self).generate()
        toolchain = CMakeToolchain(self)
        toolchain.cache_variables["ZKRECIPES_BUILD_TESTING_LIB"] = bool(self.options.with_testing)
        # Else it would be built with what the system has.
        toolchain.cache_variables["ZKRECIPES_PROBES"] = False
        toolchain.cache_variables["CMAKE_DISABLE_FIND_PACKAGE_CLI11"] = not self.options.with_zkr
        for part in ("TESTS", "EXAMPLES", "BENCH"):
            toolchain.cache_variables[f"ZKRECIPES_BUILD_{part}"] = False
        toolchain.generate()

    def build(self):
        cmake = CMake(self)
        cmake.configure()
        cmake.build()

    def package(self):
        copy(self, "LICENSE", self.source_folder, os.path.join(self.package_folder, "licenses"))
        CMake(self).install()
        rmdir(self, os.path.join(self.package_folder, "share"))
        rmdir(self, os.path.join(self.package_folder, "lib", "systemd"))
        if self.options.with_zkr and not os.path.exists(os.path.join(self.package_folder, "bin", "zkr")):
            raise ConanException("zkr was not built: CLI11, toml++, ncurses or Boost was not found")

    def package_info(self):
        # The installed package of CMake is a better one than Conan could write.
        self.cpp_info.set_property("cmake_find_mode", "none")
        self.cpp_info.builddirs = [os.path.join("lib", "cmake", "zkrecipes")]
        self.buildenv_info.append_path("PATH", os.path.join(self.package_folder, "bin"))
        self.runenv_info.append_path("PATH", os.path.join(self.package_folder, "bin"))
