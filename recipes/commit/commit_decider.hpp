#pragma once

#include <optional>
#include <set>
#include <string>
#include <vector>

#include <zkrecipes/participant_log.hpp>

#include "recipes/commit/commit_record.hpp"

/// What to do next in a two-phase commit: pure functions of what is known.
namespace zkrecipes::detail {

/// What one who drives a transaction (its coordinator, whoever recovers it, each participant of an all-to-all one) knows.
struct DriveFacts {
  const std::vector<std::string>* participants = nullptr;
  std::set<std::string, std::less<>> voted = {};  ///< Whose votes were seen; a vote to abort is a decision as well.
  std::set<std::string, std::less<>> acknowledged = {};
  std::optional<bool> decided = {};      ///< True: to commit.
  bool late = false;                     ///< The transaction's time is up.
  std::string unwanted = {};             ///< Why it is to be aborted in any case.
  std::optional<std::string> gone = {};  ///< A participant that has not voted and will not.
  bool settled = false;                  ///< The decision to abort is old enough: nobody need acknowledge it any more.
  bool kept = false;                     ///< For audit.
};

struct DriveStep {
  enum class Kind { wait_for_votes, commit, abort, wait_for_acknowledgements, remove, keep };
  Kind kind = Kind::wait_for_votes;
  std::string reason = {};  ///< Of the abort.

  friend bool operator==(const DriveStep&, const DriveStep&) = default;
};
DriveStep decide_drive(const DriveFacts& facts);

/// What a participant knows about one transaction.
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
  ask_operator  ///< What the log says cannot be squared with what ZooKeeper says.
};
const char* to_string(ParticipantStep step) noexcept;
ParticipantStep decide_participant(const ParticipantFacts& facts) noexcept;

}  // namespace zkrecipes::detail
