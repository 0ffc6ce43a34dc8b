#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <zkrecipes/group.hpp>

#include "recipes/partitions/partition_format.hpp"

namespace zkrecipes::detail {

/// What a member knows of itself.
struct OwnPlace {
  const std::string& id;
  FencingToken incarnation;  ///< Of its node, as it knows it.
  bool name_taken = false;   ///< Another session has its node.
  std::uint64_t set = 0;     ///< See MemberShare.
  double max_load = 1.0;
};

/// The partitions that this member shall have; nullopt: that cannot be said, and nothing changes.
std::optional<std::set<std::string>> decide_wanted(const std::vector<std::string>& partitions,
                                                   const std::vector<Member>& members, const OwnPlace& own);

}  // namespace zkrecipes::detail
