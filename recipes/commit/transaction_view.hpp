#pragma once

#include <memory>

#include "recipes/commit/participant_state.hpp"

namespace zkrecipes::detail {

/// Keeps an open transaction's facts up to date with ZooKeeper, with one watch, on its decision.
class TransactionView {
 public:
  TransactionView(ParticipantStatePtr state, OpenTransactionPtr transaction)
      : state_(std::move(state)), open_(std::move(transaction)) {}

  bool ended() const { return state_->ended() || open_->over; }
  /// Begins a step in the session in which the participant is present. False: it is not.
  bool begin_step();
  /// The limits of this step's requests.
  zk::Call call() const;

  /// True when the facts are known; the watch then tells of the decision.
  zk::Awaitable<bool> look();
  /// The next look() reads everything again.
  void look_again() { watch_ = nullptr; }
  /// There is no such transaction (any more). Notes whether the tree is the one in which it was begun.
  zk::Awaitable<void> note_removal();
  /// Decides the transaction, if it is still open. If a full quota has no room for that, the entry of our inbox gives its
  /// own, unless we have voted.
  zk::Awaitable<void> decide(Decision wanted);
  /// After a request has failed: pauses, or finds that nothing is left to do.
  zk::Awaitable<void> pause_after(zk::Reply failure);

 private:
  zk::Awaitable<zk::Reply> read_transaction();
  zk::Awaitable<zk::Reply> find_decision();

  const ParticipantStatePtr state_;
  const OpenTransactionPtr open_;
  std::shared_ptr<zk::SessionState> session_;
  NodeEvents::WatchPtr watch_;
};

}  // namespace zkrecipes::detail
