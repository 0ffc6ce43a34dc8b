#pragma once

#include <cstddef>
#include <cstdlib>
#include <string>

namespace zkr {

/// How often a test does what it repeats: ZKRECIPES_ROUNDS=number, or so many. scripts/prove_zkr.sh sets it.
inline std::size_t rounds(std::size_t by_default) {
  const char* given = std::getenv("ZKRECIPES_ROUNDS");
  return given != nullptr ? std::stoul(given) : by_default;
}

}  // namespace zkr
