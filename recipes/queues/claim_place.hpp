#pragma once

#include <string>
#include <vector>

namespace zkrecipes::detail {

/// Where the claim that belongs at `claim` stands if the quota that `holder`, a node at or above it, holds has no room for it:
/// beside that node, as `<holder>-claim-<the rest of the path>`. A '/' in the rest is written as %2F, a '%' as %25. Full paths.
std::string claim_place(const std::string& claim, const std::string& holder);
/// All places where it may stand, whichever node holds the quota, or held it when the item was claimed.
std::vector<std::string> claim_places(const std::string& claim);

}  // namespace zkrecipes::detail
