// One target under libFuzzer; which one is told by ZKR_FUZZ_TARGET. See CMakeLists.txt.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "tests/fuzz/targets.hpp"

namespace {

const fuzz::Target& the_target() {
  static const fuzz::Target* const target = [] {
    for (const fuzz::Target& candidate : fuzz::targets()) {
      if (std::strcmp(candidate.name, ZKR_FUZZ_TARGET) == 0) return &candidate;
    }
    __builtin_trap();
  }();
  return *target;
}

}  // namespace

// A folder for the corpus that is empty gets the seeds.
extern "C" int LLVMFuzzerInitialize(int* argc, char*** argv) {
  for (int i = 1; i < *argc; ++i) {
    const std::filesystem::path folder = (*argv)[i];
    if (!std::filesystem::is_directory(folder) || !std::filesystem::is_empty(folder)) continue;
    std::size_t number = 0;
    for (const std::string& seed : the_target().seeds)
      std::ofstream(folder / ("seed-" + std::to_string(number++)), std::ios::binary) << seed;
  }
  return 0;
}

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  the_target().check({reinterpret_cast<const char*>(data), size});  // What it throws ends the program, and is kept.
  return 0;
}
