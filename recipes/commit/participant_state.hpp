#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>

#include "recipes/commit/handler_executor.hpp"
#include "recipes/commit/in_doubt_board.hpp"
#include "recipes/commit/node_events.hpp"
#include "recipes/commit/transaction_driver.hpp"

/// The facts that the parts of one participant share. On the loop thread only.
namespace zkrecipes::detail {

/// An open transaction as its participant knows it.
struct OpenTransaction {
  explicit OpenTransaction(std::shared_ptr<zk::ClientCore> client) : events(std::move(client)) {}

  CommitTransaction transaction;
  LogState logged = LogState::none;
  std::int64_t tree = 0;  ///< In which it was begun.
  std::optional<TransactionHeader> header = {};
  bool exists = true;
  bool same_tree = true;
  bool voted = false;
  bool foreign_vote = false;   ///< The vote in our name is that of another log.
  bool vote_there = false;     ///< There is, or may be, a vote in our name, whose ever it is.
  bool entry_missing = false;  ///< From our inbox: an operator has removed it, or we have, to make room.
  std::string no_room = {};    ///< Which quota had none for our vote, the last time.
  std::string refused = {};    ///< Why we vote against it.
  std::optional<Decision> decision = {};
  std::optional<LoopTime> deadline = {};
  bool over = false;  ///< Nothing is left to do.
  NodeEvents events;
  std::shared_ptr<zk::Signal> ended = {};  ///< Set when its coroutine has ended.
};
using OpenTransactionPtr = std::shared_ptr<OpenTransaction>;

struct ParticipantState {
  bool ended() const { return ending || tree->client->closing(); }
  /// Has every open transaction look at the world again.
  void wake_all() const;

  const TreePtr tree;
  const std::string name;
  const std::string identity;  ///< Of the log.
  const std::shared_ptr<InDoubtBoard> board;
  const std::shared_ptr<HandlerExecutor> executor;
  const std::shared_ptr<TransactionDriver> driver;  ///< Of abandoned transactions; its roster is for our own, too.
  const std::shared_ptr<zk::CancelScope> cancel = std::make_shared<zk::CancelScope>();  ///< Requested when we end.

  std::map<std::string, OpenTransactionPtr> open = {};
  std::shared_ptr<zk::SessionState> session = {};  ///< In which we are present; null while we are not.
  std::int64_t tree_czxid = 0;                     ///< Of the tree that our inbox lies in.
  bool ending = false;
};
using ParticipantStatePtr = std::shared_ptr<ParticipantState>;

/// Runs a handler and writes the log; null when the participant has ended before there was a result.
zk::Awaitable<std::optional<HandlerExecutor::Result>> run_handler(ParticipantStatePtr state,
                                                                  OpenTransactionPtr transaction,
                                                                  HandlerExecutor::Kind kind);

}  // namespace zkrecipes::detail
