#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>

namespace zkrecipes::detail {

/// What a member of a partitioner tells the others: the payload of its node.
struct MemberShare {
  std::uint32_t weight = 0;
  /// Of all that members must agree on, so that their results fit together: the partitions (or the node whose children
  /// they are) and max_load.
  std::uint64_t set = 0;

  friend bool operator==(const MemberShare&, const MemberShare&) = default;
};

std::string share_text(const MemberShare& share);
/// nullopt: another program's.
std::optional<MemberShare> parse_share(std::string_view text);

/// `parent`: the full path of the node whose children the partitions are; "": they are those of the list.
std::uint64_t set_of(const PartitionSource& source, const std::string& parent, double max_load);

/// The data of an owner's node.
std::string owner_text(std::string_view id, std::string_view data);
/// The owner that wrote it; the token and the session are left to the caller.
PartitionOwner parse_owner(std::string_view text);

}  // namespace zkrecipes::detail
