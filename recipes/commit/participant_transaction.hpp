#pragma once

#include <memory>
#include <optional>
#include <string>

#include "recipes/commit/participant.hpp"

namespace zkrecipes::detail {

/// One transaction as its participant knows it.
struct CommitServer::Served {
  explicit Served(std::shared_ptr<zk::ClientCore> client) : wake(std::move(client)) {}

  CommitTransaction transaction;
  LogState logged = LogState::none;
  std::int64_t tree = 0;  ///< In which it was begun.
  std::optional<TransactionHeader> header = {};
  bool exists = true;
  bool same_tree = true;
  bool voted = false;
  bool foreign_vote = false;   ///< The vote in our name is that of another log.
  bool entry_missing = false;  ///< Somebody has removed it from our inbox.
  std::string refused = {};    ///< Why we vote against it.
  std::optional<Decision> decision = {};
  std::optional<LoopTime> deadline = {};
  Wake wake;
  std::shared_ptr<zk::Signal> ended = {};  ///< Told when it is not handled any more.
};

/// Takes one transaction from wherever it is to its acknowledgement, or leaves it in the log:
///
///   loop:  look (transaction, decision) -> decide_participant -> do it
class CommitServer::Handling {
 public:
  Handling(CommitServer& server, ServedPtr served);

  zk::Awaitable<void> run();

 private:
  bool ended() const { return server_.ended() || over_; }
  zk::Call bound() const;
  zk::Awaitable<bool> look();
  zk::Awaitable<zk::Reply> find_transaction();
  zk::Awaitable<zk::Reply> find_decision();
  void take(const DecisionFound& found);
  zk::Awaitable<void> handle_removal();
  zk::Awaitable<void> act(ParticipantStep step);
  zk::Awaitable<void> prepare();
  zk::Awaitable<void> vote();
  zk::Awaitable<bool> own_vote(std::string node);
  zk::Awaitable<void> vote_against();
  zk::Awaitable<void> wait();
  zk::Awaitable<void> count_votes();
  zk::Awaitable<void> make(Decision wanted);
  zk::Awaitable<void> apply(bool commit);
  zk::Awaitable<void> acknowledge();
  zk::Awaitable<void> forget();
  zk::Awaitable<void> ask_operator();
  zk::Awaitable<std::optional<HandlerExecutor::Result>> run_job(HandlerExecutor::Kind kind);
  zk::Awaitable<void> failed(zk::Reply reply);

  CommitServer& server_;
  const ServedPtr served_;
  const TreePtr tree_;
  const Wake& wake_;
  std::shared_ptr<zk::SessionState> session_;  // In which we were present when this step began.
  Wake::WatchPtr decision_;
  std::unique_ptr<VoteTally> votes_;  // Of an all-to-all transaction.
  std::optional<LoopTime> count_at_;
  bool over_ = false;
};

}  // namespace zkrecipes::detail
