#pragma once

#include <type_traits>

#include "tools/zkr/run/holder.hpp"

/// What a test and the keeper of a rig say to each other: the test sends a `Lease` as it lies in memory.
namespace zkr {

static_assert(std::is_trivially_copyable_v<Lease>);

constexpr const char* release_word = "r";

}  // namespace zkr
