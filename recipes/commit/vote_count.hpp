#pragma once

#include <memory>

#include "recipes/commit/transaction_view.hpp"
#include "recipes/commit/vote_tally.hpp"

namespace zkrecipes::detail {

/// The votes of an all-to-all transaction: each participant counts them, and decides, as a coordinator does.
class VoteCount {
 public:
  /// To be made once our own vote is there.
  VoteCount(ParticipantStatePtr state, OpenTransactionPtr transaction, TransactionView& view);

  /// Takes in a list of the transaction's children.
  void note(const Ballot& ballot) { votes_.note(ballot); }
  /// Decides if the votes allow it, or waits for the next event.
  zk::Awaitable<void> wait_or_decide();

 private:
  zk::Awaitable<bool> count();
  zk::Awaitable<bool> advance();
  Roster::Absence missing() const;

  const ParticipantStatePtr state_;
  const OpenTransactionPtr open_;
  TransactionView& view_;
  VoteTally votes_;
  const LoopTime count_at_;
};

}  // namespace zkrecipes::detail
