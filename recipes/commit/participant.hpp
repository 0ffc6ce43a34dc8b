#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recipes/commit/handler_executor.hpp"
#include "recipes/commit/transaction_driver.hpp"

namespace zkrecipes::detail {

/// What a participant is in doubt about, for any thread to read, and what operators have said about it.
class InDoubtBoard {
 public:
  void put(InDoubtTransaction transaction);
  void set_problem(const std::string& id, std::string problem, bool resolvable);
  void remove(const std::string& id);
  std::vector<InDoubtTransaction> list() const;
  /// False: nobody asked.
  bool resolve(const std::string& id, bool commit);
  std::optional<bool> resolution(const std::string& id) const;

 private:
  struct Entry {
    InDoubtTransaction transaction;
    bool resolvable = false;
    std::optional<bool> resolved = {};
  };
  mutable std::mutex mutex_;
  std::map<std::string, Entry> entries_;
};

struct CommitServerSetup {
  TreePtr tree;
  std::string name;
  std::shared_ptr<ParticipantLog> log;
  std::string identity;  ///< Of the log.
  std::chrono::milliseconds absence_grace{0};
  std::chrono::milliseconds sweep_interval{0};
  std::shared_ptr<InDoubtBoard> board;
};

/// A participant while it serves: one coroutine for its presence and its inbox, one for each transaction. On the loop
/// thread only, but for what the runner does.
class CommitServer : public std::enable_shared_from_this<CommitServer> {
 public:
  /// It is destroyed on the loop, whoever lets go of it last.
  static std::shared_ptr<CommitServer> make(CommitServerSetup setup, CommitHandlers handlers);

  /// Serves until `call` ends it; `done` is called on the callback executor when nothing runs any more.
  static zk::Awaitable<void> serve(std::shared_ptr<CommitServer> self, zk::Call call,
                                   std::vector<LoggedTransaction> open,
                                   zkclient::UniqueFunction<void(zkclient::Result<void>)> done);
  /// An operator has spoken.
  void wake_up(const std::string& id);

 private:
  CommitServer(CommitServerSetup setup, CommitHandlers handlers);

  struct Served;
  class Handling;
  using ServedPtr = std::shared_ptr<Served>;

  bool ended() const;
  void end();
  void take_up(const std::string& id, std::optional<LoggedTransaction> logged = {});
  static zk::Awaitable<void> handle(std::shared_ptr<CommitServer> self, ServedPtr served);

  zk::Awaitable<void> attend();
  zk::Awaitable<zk::Reply> be_present();
  zk::Awaitable<zk::Reply> claim_presence(zk::Reply found);
  zk::Awaitable<void> wait_until_made_again();
  zk::Awaitable<zk::Reply> read_inbox();
  zk::Awaitable<void> wind_up();
  static zk::Awaitable<void> sweep(std::shared_ptr<CommitServer> self);

  CommitServerSetup setup_;
  const TreePtr tree_;
  const std::shared_ptr<HandlerExecutor> runner_;
  const std::shared_ptr<TransactionDriver>
      driver_;  // Of transactions that others have left; its roster is for our own, too.
  const Wake wake_;
  std::optional<LoopTime> deadline_;
  std::shared_ptr<zk::CancelScope> stop_;  // The caller's.
  zk::Call call_;                          // Of everything that ends with this.
  std::map<std::string, ServedPtr> served_;
  std::optional<zkclient::Error> failure_;
  bool ending_ = false;

  std::shared_ptr<zk::SessionState> session_;  // In which we are present; null while we are not.
  std::shared_ptr<zk::SessionState> greeted_;  // The session that was brought up to date.
  std::int64_t tree_czxid_ = 0;
  Wake::WatchPtr presence_;
  Wake::WatchPtr inbox_;
  std::int64_t inbox_czxid_ = 0;
  std::int32_t inbox_version_ = -1;
  std::optional<LoopTime> next_sweep_;
  std::set<std::string> swept_;  // What the last sweep has seen.
  bool sweeping_ = false;
};

}  // namespace zkrecipes::detail
