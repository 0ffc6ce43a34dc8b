#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include <zkrecipes/participant_log.hpp>

#include "recipes/commit/commit_record.hpp"

/// The next steps of a two-phase commit: pure functions of the known facts.
namespace zkrecipes::detail {

/// The facts that a driver of a transaction knows: its coordinator, a recoverer, each participant of an all-to-all one.
struct DriveFacts {
  const std::vector<std::string>* participants = nullptr;
  std::set<std::string, std::less<>> voted = {};  ///< Whose votes were seen; a vote to abort is a decision as well.
  std::set<std::string, std::less<>> acknowledged = {};
  std::optional<bool> decided = {};      ///< True: to commit.
  bool late = false;                     ///< The transaction's time is up.
  std::string unwanted = {};             ///< Why it is to be aborted in any case.
  std::optional<std::string> gone = {};  ///< A participant that has not voted and will not.
  bool settled = false;  ///< The decision to abort is old enough: no acknowledgement is waited for any more.
  bool kept = false;     ///< For audit.
};

struct DriveStep {
  enum class Kind { wait_for_votes, commit, abort, wait_for_acknowledgements, remove, keep };
  Kind kind = Kind::wait_for_votes;
  std::string reason = {};  ///< Of the abort.

  friend bool operator==(const DriveStep&, const DriveStep&) = default;
};
DriveStep decide_drive(const DriveFacts& facts);

/// The facts that a participant knows about one transaction.
struct ParticipantFacts {
  LogState logged = LogState::none;
  bool exists = true;     ///< The transaction's node; false only when that is certain.
  bool same_tree = true;  ///< The tree is the one in which the transaction was begun.
  bool voted = false;     ///< It is known that our vote is there.
  std::optional<bool> decided = {};
  bool foreign_vote = false;  ///< There is a vote in our name, but of another log.
};

enum class ParticipantStep {
  prepare,
  vote,
  wait,    ///< For the decision.
  commit,  ///< Write down the decision and apply it.
  abort,   ///< The same.
  acknowledge,
  forget,       ///< There is nothing to do, and nothing to be told.
  ask_operator  ///< The log and ZooKeeper contradict each other.
};
const char* to_string(ParticipantStep step) noexcept;
ParticipantStep decide_participant(const ParticipantFacts& facts) noexcept;

/// Which inbox, and how many transactions have come into it.
struct InboxVersion {
  std::int64_t czxid = 0;
  std::int32_t version = 0;
};

enum class InboxStep {
  nothing,
  take_newest,  ///< One has come: the inbox's data is its id.
  list          ///< Several have come, or it is not known how many.
};
InboxStep decide_inbox(const std::optional<InboxVersion>& known, const InboxVersion& found) noexcept;

}  // namespace zkrecipes::detail
