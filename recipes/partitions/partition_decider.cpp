#include "recipes/partitions/partition_decider.hpp"

#include <algorithm>
#include <cstddef>

#include <zkrecipes/hashing.hpp>

namespace zkrecipes::detail {

std::optional<std::set<std::string>> decide_wanted(const std::vector<std::string>& partitions,
                                                   const std::vector<Member>& members, const OwnPlace& own) {
  const auto is_own = [&own](const Member& member) {
    return member.id == own.id && member.incarnation == own.incarnation;
  };
  if (std::none_of(members.begin(), members.end(), is_own)) {
    // The server may lag behind, or the node is about to be made (again). But one whose name another has is no member.
    return own.name_taken ? std::optional(std::set<std::string>()) : std::nullopt;
  }
  std::vector<WeightedMember> sharing;
  std::optional<std::size_t> self;  // Nothing: our own node says that we share nothing, and the others go by it.
  for (const Member& member : members) {
    const std::optional<MemberShare> share = parse_share(member.payload);
    if (!share || share->set != own.set) continue;
    if (member.id == own.id) self = sharing.size();
    sharing.push_back({member.id, share->weight});
  }
  const auto owners = assign(partitions, sharing, own.max_load);
  std::set<std::string> wanted;
  for (std::size_t i = 0; i < partitions.size(); ++i) {
    if (self && owners[i] == self) wanted.insert(partitions[i]);
  }
  return wanted;
}

}  // namespace zkrecipes::detail
