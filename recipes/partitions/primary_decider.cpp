#include "recipes/partitions/primary_decider.hpp"

#include <algorithm>

#include <zkrecipes/hashing.hpp>

namespace zkrecipes {

namespace {

bool is_member(const std::vector<Member>& members, const std::string& id) {
  return std::any_of(members.begin(), members.end(), [&id](const Member& member) { return member.id == id; });
}

}  // namespace

std::string keep_primary(const RoleState& state, const std::vector<Member>& members) {
  if (is_member(members, state.named)) return state.named;
  std::vector<WeightedMember> candidates;
  for (const Member& member : members)
    candidates.push_back({member.id});
  const auto chosen = assign({state.role}, candidates).front();
  return chosen ? candidates[*chosen].id : "";
}

namespace detail {

std::vector<RoleNode> decide_roles(const std::vector<RoleNode>& roles, const std::vector<Member>& members,
                                   const ChoosePrimary& choose) {
  std::vector<RoleNode> writes;
  for (const RoleNode& node : roles) {
    RoleNode next = node;
    next.named = choose({node.role, node.named}, members);
    if (!node.version || next.named != node.named) writes.push_back(std::move(next));
  }
  return writes;
}

}  // namespace detail
}  // namespace zkrecipes
