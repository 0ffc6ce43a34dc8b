#include "recipes/commit/vote_count.hpp"

#include <algorithm>
#include <utility>

#include "recipes/commit/commit_decider.hpp"

namespace zkrecipes::detail {

namespace {

// The participant that votes last sees all votes, and decides. The others leave it this time before they count: it may
// be dead.
constexpr auto last_voter_time = std::chrono::milliseconds(100);

}  // namespace

VoteCount::VoteCount(ParticipantStatePtr state, OpenTransactionPtr transaction, TransactionView& view)
    : state_(std::move(state)),
      open_(std::move(transaction)),
      view_(view),
      votes_(state_->tree, open_->events, open_->transaction.id, vote_prefix, open_->header->participants),
      count_at_(from_now(last_voter_time)) {}

Awaitable<void> VoteCount::wait_or_decide() {
  const auto now = std::chrono::steady_clock::now();
  const bool counting = now >= count_at_ && !votes_.complete();
  Roster::Absence absence;
  if (counting) {
    const bool counted = co_await count();
    if (!counted) co_return;
    absence = missing();
  }
  DriveFacts facts;
  facts.participants = &open_->header->participants;
  facts.voted = votes_.seen();
  facts.late = now >= *open_->deadline;
  facts.gone = absence.gone;
  const DriveStep step = decide_drive(facts);
  if (step.kind == DriveStep::Kind::wait_for_votes) {
    LoopTime next = *open_->deadline;
    if (!counting) next = std::min(next, count_at_);
    if (absence.next) next = std::min(next, *absence.next);
    co_await open_->events.wait(next);
    co_return;
  }
  Decision wanted{step.kind == DriveStep::Kind::commit, step.reason};
  co_await view_.decide(std::move(wanted));
}

// False: it failed, and the transaction has to be looked at again.
Awaitable<bool> VoteCount::count() {
  const auto& roster = state_->driver->roster();
  roster->follow();
  roster->tell(open_->events.signal());
  const bool advanced = co_await advance();
  if (!advanced || !missing().gone) co_return advanced;
  votes_.list_next();  // It may have voted before it went.
  co_return co_await advance();
}

Awaitable<bool> VoteCount::advance() {
  Reply reply = co_await votes_.advance(view_.call());
  if (reply.ok()) co_return true;
  view_.look_again();
  if (!reply.failed(Errc::no_node)) co_await view_.pause_after(std::move(reply));
  co_return false;
}

Roster::Absence VoteCount::missing() const {
  return state_->driver->roster()->absence(open_->header->participants, votes_.seen());
}

}  // namespace zkrecipes::detail
