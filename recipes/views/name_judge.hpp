#pragma once

#include <optional>
#include <string>
#include <vector>

#include "recipes/views/guarded_predicate.hpp"

namespace zkrecipes::detail {

/// CacheOptions::include.
using NamePredicate = GuardedPredicate<std::string>;

/// Which of the paths belong to the view. What the predicate throws makes its path one of those, and is logged. nullopt:
/// it was stopped before it had judged all of them.
std::optional<std::vector<bool>> judge(NamePredicate& include, const std::vector<std::string>& paths);

}  // namespace zkrecipes::detail
