#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace zkrecipes::detail {

/// The number, of those below `count`, that a process tries to get next. `held`: names of the nodes that are there.
/// The lowest free one; a process that was too late `conflicts` times takes one of the lowest few, as `random` has it:
/// else a hundred that start at once would race for each number. nullopt: all are taken.
std::optional<int> pick_number(const std::vector<std::string>& held, int count, int conflicts, std::uint64_t random);

}  // namespace zkrecipes::detail
