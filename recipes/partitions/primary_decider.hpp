#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/primary.hpp>

namespace zkrecipes::detail {

/// A role as its node says.
struct RoleNode {
  std::string role;
  std::string named = {};
  std::optional<std::int32_t> version = {};  ///< nullopt: the node is missing.
};

/// The nodes that have to be written, with what they shall say. Calls `choose` for each role.
std::vector<RoleNode> decide_roles(const std::vector<RoleNode>& roles, const std::vector<Member>& members,
                                   const ChoosePrimary& choose);

}  // namespace zkrecipes::detail
