#include "recipes/commit/commit_decider.hpp"

#include <algorithm>

namespace zkrecipes::detail {

DriveStep decide_drive(const DriveFacts& facts) {
  using Kind = DriveStep::Kind;
  const auto all_in = [&](const std::set<std::string, std::less<>>& names) {
    return std::all_of(facts.participants->begin(), facts.participants->end(),
                       [&](const std::string& name) { return names.contains(name); });
  };
  if (!facts.decided) {
    if (!facts.unwanted.empty()) return {Kind::abort, facts.unwanted};
    if (all_in(facts.voted)) return {Kind::commit};
    if (facts.late) return {Kind::abort, "not all votes came in time"};
    if (facts.gone) return {Kind::abort, "participant " + *facts.gone + " is gone"};
    return {Kind::wait_for_votes};
  }
  // A participant that was away when a transaction was aborted takes it for aborted when it finds nothing.
  const bool over = all_in(facts.acknowledged) || (!*facts.decided && facts.settled);
  if (!over) return {Kind::wait_for_acknowledgements};
  return {facts.kept ? Kind::keep : Kind::remove};
}

const char* to_string(ParticipantStep step) noexcept {
  switch (step) {
    case ParticipantStep::prepare: return "prepare";
    case ParticipantStep::vote: return "vote";
    case ParticipantStep::wait: return "wait";
    case ParticipantStep::commit: return "commit";
    case ParticipantStep::abort: return "abort";
    case ParticipantStep::acknowledge: return "acknowledge";
    case ParticipantStep::forget: return "forget";
    case ParticipantStep::ask_operator: return "ask_operator";
  }
  return "unknown";
}

ParticipantStep decide_participant(const ParticipantFacts& facts) noexcept {
  using Step = ParticipantStep;
  switch (facts.logged) {
    case LogState::committed: return Step::commit;
    case LogState::aborted: return Step::abort;
    case LogState::applied: return facts.exists ? Step::acknowledge : Step::forget;
    case LogState::none:
    case LogState::begun: {
      const bool begun = facts.logged == LogState::begun;
      // No commit without our vote, no vote without `ready` in the log: this log has lost something.
      if (facts.exists && facts.decided == true) return Step::ask_operator;
      const bool over = !facts.exists || facts.decided == false;
      if (over && begun) return Step::abort;
      if (over) return facts.exists ? Step::acknowledge : Step::forget;
      return Step::prepare;
    }
    case LogState::ready: break;
  }
  if (facts.exists && facts.decided == true) {
    // With whose vote? Another process of our name has its own log, and may have to apply it.
    if (facts.foreign_vote) return Step::ask_operator;
    return facts.voted ? Step::commit : Step::vote;
  }
  if (facts.exists && facts.decided) return Step::abort;
  if (facts.exists) return facts.voted ? Step::wait : Step::vote;
  // A transaction that was committed is not removed before we have acknowledged it: this one was aborted. That is, if
  // no operator has emptied the tree.
  return facts.same_tree ? Step::abort : Step::ask_operator;
}

InboxStep decide_inbox(const std::optional<InboxVersion>& known, const InboxVersion& found) noexcept {
  if (!known || known->czxid != found.czxid) return InboxStep::list;
  if (found.version == known->version) return InboxStep::nothing;
  return found.version == known->version + 1 ? InboxStep::take_newest : InboxStep::list;
}

}  // namespace zkrecipes::detail
