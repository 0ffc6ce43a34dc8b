#pragma once

#include <memory>
#include <optional>
#include <string>

#include "recipes/commit/transaction_view.hpp"
#include "recipes/commit/vote_count.hpp"

namespace zkrecipes::detail {

/// The first phase of one transaction at a participant: prepare, and vote.
class ParticipantVote {
 public:
  ParticipantVote(ParticipantStatePtr state, OpenTransactionPtr transaction, TransactionView& view)
      : state_(std::move(state)), open_(std::move(transaction)), view_(view) {}

  /// Calls prepare(), and votes against the transaction if it says so.
  zk::Awaitable<void> prepare();
  /// Votes to commit. In an all-to-all transaction the count begins.
  zk::Awaitable<void> vote();
  /// Null unless the transaction is an all-to-all one, and we have voted.
  VoteCount* count() const noexcept { return count_.get(); }

 private:
  zk::Request vote_request() const;
  void begin_count(const std::optional<zk::Reply>& listed);
  zk::Awaitable<bool> own_vote();
  zk::Awaitable<void> find_refusal();
  zk::Request refusal_request(const Decision& decision) const;
  zk::Awaitable<void> vote_against();

  const ParticipantStatePtr state_;
  const OpenTransactionPtr open_;
  TransactionView& view_;
  std::unique_ptr<VoteCount> count_;
};

}  // namespace zkrecipes::detail
