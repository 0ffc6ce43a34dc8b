#pragma once

#include <memory>

#include "recipes/commit/commit_decider.hpp"
#include "recipes/commit/participant_state.hpp"
#include "recipes/commit/participant_vote.hpp"
#include "recipes/commit/transaction_view.hpp"

namespace zkrecipes::detail {

/// Takes one transaction from the state in which it is found to its acknowledgement, or leaves it in the log:
///
///   loop:  look (transaction, decision) -> decide_participant -> do it
class ParticipantTransaction {
 public:
  ParticipantTransaction(ParticipantStatePtr state, OpenTransactionPtr transaction)
      : state_(std::move(state)), open_(std::move(transaction)), view_(state_, open_), vote_(state_, open_, view_) {}
  ParticipantTransaction(const ParticipantTransaction&) = delete;
  ParticipantTransaction& operator=(const ParticipantTransaction&) = delete;

  zk::Awaitable<void> run();

 private:
  ParticipantFacts facts() const;
  zk::Awaitable<void> act(ParticipantStep step);
  zk::Awaitable<void> wait();
  zk::Awaitable<void> apply(bool commit);
  zk::Awaitable<void> acknowledge();
  zk::Awaitable<void> forget();
  zk::Awaitable<void> close();
  zk::Awaitable<void> ask_operator();

  const ParticipantStatePtr state_;
  const OpenTransactionPtr open_;
  TransactionView view_;
  ParticipantVote vote_;
};

}  // namespace zkrecipes::detail
