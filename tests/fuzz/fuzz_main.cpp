// One target under libFuzzer; which one is told by ZKR_FUZZ_TARGET. See CMakeLists.txt.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tests/fuzz/targets.hpp"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static const fuzz::Target* const target = [] {
    for (const fuzz::Target& candidate : fuzz::targets()) {
      if (std::strcmp(candidate.name, ZKR_FUZZ_TARGET) == 0) return &candidate;
    }
    __builtin_trap();
  }();
  target->check({reinterpret_cast<const char*>(data), size});  // What it throws ends the program, and is kept.
  return 0;
}
