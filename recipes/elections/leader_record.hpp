#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zkrecipes::detail {

/// What a leader writes into the data of the election's own node: whose words these are, whether it is ready, and what
/// it proclaims. Kept there and not in the candidate's node, whose data other languages read as the candidate's id.
///
///   "leader/1 <term in decimal> <ready: 0 or 1> <1 if a value follows, 0 if not>\n" <value>
struct LeaderRecord {
  std::int64_t term = 0;
  bool ready = false;
  std::optional<std::string> value = {};

  friend bool operator==(const LeaderRecord&, const LeaderRecord&) = default;
};

std::string encode(const LeaderRecord& record);
/// nullopt for anything that is not a record (other libraries leave the node empty).
std::optional<LeaderRecord> decode_leader_record(std::string_view text);

}  // namespace zkrecipes::detail
