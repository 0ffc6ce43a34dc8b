#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/two_phase_commit.hpp>

/// The data and the names of the nodes of a two-phase commit.
namespace zkrecipes::detail {

inline constexpr std::string_view decision_node = "decision";
inline constexpr std::string_view coordinator_node = "coordinator";
inline constexpr std::string_view vote_prefix = "vote-";
inline constexpr std::string_view ack_prefix = "ack-";
inline constexpr std::size_t max_reason = 1024;

/// The data of a transaction's node.
struct TransactionHeader {
  CommitVariant variant = CommitVariant::mediated;
  std::chrono::milliseconds timeout{0};
  std::chrono::milliseconds retention{0};
  std::vector<std::string> participants;
  std::string payload;

  friend bool operator==(const TransactionHeader&, const TransactionHeader&) = default;
};
std::string encode(const TransactionHeader& header);
std::optional<TransactionHeader> decode_transaction(std::string_view text);

/// The data of the decision's node.
struct Decision {
  bool committed = false;
  std::string reason;

  friend bool operator==(const Decision&, const Decision&) = default;
};
std::string encode(const Decision& decision);
std::optional<Decision> decode_decision(std::string_view text);

/// The data that a participant logs with `begin`.
struct LoggedData {
  std::int64_t tree = 0;  ///< czxid of the node that all transactions lie under.
  std::string payload;

  friend bool operator==(const LoggedData&, const LoggedData&) = default;
};
std::string encode(const LoggedData& data);
std::optional<LoggedData> decode_logged(std::string_view text);

/// The children of a transaction's node, sorted out. Names that no participant made are left out.
struct Ballot {
  std::set<std::string, std::less<>> voted;
  std::set<std::string, std::less<>> acknowledged;
  bool decided = false;
  bool coordinated = false;  ///< Its coordinator's session is alive.
};
Ballot sort_out(const std::vector<std::string>& children);

/// Why no participant can be called that; nullptr if it can.
const char* name_defect(std::string_view name) noexcept;

}  // namespace zkrecipes::detail
