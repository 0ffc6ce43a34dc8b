#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipes/commit/orphan_sweep.hpp"
#include "recipes/commit/participant_inbox.hpp"
#include "recipes/commit/participant_presence.hpp"
#include "recipes/commit/participant_state.hpp"

namespace zkrecipes::detail {

struct ParticipantSetup {
  TreePtr tree;
  std::string name;
  std::shared_ptr<ParticipantLog> log;
  std::string identity;  ///< Of the log.
  std::chrono::milliseconds absence_grace{0};
  std::chrono::milliseconds sweep_interval{0};
  std::shared_ptr<InDoubtBoard> board;
};

/// A participant while it serves: one coroutine keeps its presence and reads its inbox, and each open transaction has
/// one of its own. On the loop thread only; user code runs in its executor.
class Participant : public std::enable_shared_from_this<Participant> {
 public:
  /// It is destroyed on the loop, whichever thread drops the last reference.
  static std::shared_ptr<Participant> make(ParticipantSetup setup, CommitHandlers handlers);

  /// Serves until `call` ends it; `done` is called on the callback executor when nothing runs any more.
  static zk::Awaitable<void> serve(std::shared_ptr<Participant> self, zk::Call call,
                                   std::vector<LoggedTransaction> logged,
                                   zkclient::UniqueFunction<void(zkclient::Result<void>)> done);
  /// An operator has resolved a transaction.
  void note_resolution(const std::string& id) const;

 private:
  Participant(ParticipantSetup setup, CommitHandlers handlers);

  void end();
  bool over() const;
  void take_up(const std::string& id, std::optional<LoggedTransaction> logged = {});
  static zk::Awaitable<void> handle(std::shared_ptr<Participant> self, OpenTransactionPtr transaction);
  zk::Awaitable<void> attend();
  zk::Awaitable<void> wind_up();
  zk::Awaitable<void> end_transactions();
  zk::Awaitable<void> end_handlers();
  zkclient::Result<void> result() const;

  const ParticipantStatePtr state_;
  const NodeEvents events_;  // Of the coroutine that attends.
  ParticipantPresence presence_;
  ParticipantInbox inbox_;
  const std::shared_ptr<OrphanSweep> sweep_;
  std::optional<LoopTime> deadline_;       // The caller's.
  std::shared_ptr<zk::CancelScope> stop_;  // The caller's.
  std::optional<zkclient::Error> failure_;
};

}  // namespace zkrecipes::detail
