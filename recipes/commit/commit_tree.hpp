#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/commit/commit_record.hpp"
#include "zkclient/detail/recipe_api.hpp"

/// What coordinators and participants of a two-phase commit do with nodes. On the loop thread only.
namespace zkrecipes::detail {

namespace zk = zkclient::detail;
using LoopTime = std::chrono::steady_clock::time_point;

/// Where everything is. All paths are full ones.
struct CommitTree {
  CommitTree(std::shared_ptr<zk::ClientCore> core, const zkclient::Path& where, zkclient::AclList list);

  std::string presence(std::string_view name) const;
  std::string inbox(std::string_view name) const;
  std::string inbox_entry(std::string_view name, std::string_view id) const;
  std::string transaction(std::string_view id) const;
  std::string child(std::string_view id, std::string_view name) const;
  std::string child(std::string_view id, std::string_view prefix, std::string_view name) const;
  std::string shown(std::string_view id) const;  ///< The transaction as the user knows it.

  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< As the user wrote it.
  std::string participants;
  std::string inboxes;
  std::string transactions;
  zkclient::AclList acl;
};
using TreePtr = std::shared_ptr<const CommitTree>;

/// Creates the persistent nodes above, and what else is wanted.
zk::Awaitable<zk::Reply> ensure_tree(TreePtr tree, std::vector<std::string> wanted, zk::Call call);
/// Whether a node exists, of which no server may lag behind: ok, no_node, or a failure.
zk::Awaitable<zk::Reply> certain(TreePtr tree, std::string path, zk::Call call);
/// The index and code of the operation at which a transaction has failed because somebody else was faster. Any other
/// reason (access rights, a quota) becomes the reply's error.
struct FailedOperation {
  std::size_t index = 0;
  int code = 0;
};
std::optional<FailedOperation> failed_operation(zk::Reply& reply);

/// What a coroutine waits with: a signal, watches that set it, and the end of the session, which sets it too.
class Wake {
 public:
  explicit Wake(std::shared_ptr<zk::ClientCore> client)
      : client_(std::move(client)), signal_(std::make_shared<zk::Signal>(client_->events())) {}

  struct NodeWatch {
    std::optional<zkclient::WatchEventType> event = {};
    std::shared_ptr<zk::LoopWatch> watch = {};  ///< For the read that arms it.
  };
  using WatchPtr = std::shared_ptr<NodeWatch>;
  WatchPtr watch(zk::WatchRegistry::Kind kind = zk::WatchRegistry::Kind::data) const;

  const std::shared_ptr<zk::Signal>& signal() const noexcept { return signal_; }
  void clear() const noexcept { signal_->clear(); }
  /// Until the signal is set, the session is over, the deadline has passed, or the client is closing.
  zk::Awaitable<void> wait(std::optional<LoopTime> deadline) const;

 private:
  const std::shared_ptr<zk::ClientCore> client_;
  const std::shared_ptr<zk::Signal> signal_;
};

/// Follows the votes (or acknowledgements) of a transaction with one watch at a time: on one, chosen at random, of those
/// that are missing. When it comes, about half of the others are there as well. So n of them take about 2 log2(n)
/// requests, and not n.
class VoteTally {
 public:
  VoteTally(TreePtr tree, const Wake& wake, std::string id, std::string_view prefix,
            const std::vector<std::string>& names);

  const std::set<std::string, std::less<>>& seen() const noexcept { return seen_; }
  bool complete() const noexcept { return missing_.empty(); }
  /// The list of the transaction's children, read for whatever reason.
  void note(const Ballot& ballot);
  /// Looks again at the next advance().
  void list_next() noexcept { list_ = true; }
  /// Takes in what has happened, and has one missing name watched (or there are none). no_node: the transaction is gone.
  zk::Awaitable<zk::Reply> advance(zk::Call call);

 private:
  void mark(const std::string& name);
  zk::Awaitable<zk::Reply> list(zk::Call call);

  const TreePtr tree_;
  const Wake& wake_;
  const std::string id_;
  const std::string prefix_;
  std::set<std::string, std::less<>> seen_;
  std::vector<std::string> missing_;  // The last one is watched next.
  Wake::WatchPtr watch_;
  bool list_ = false;
};

/// Who serves, and since when those who do not have been gone. One watch for all transactions of one object.
class Roster : public std::enable_shared_from_this<Roster> {
 public:
  Roster(TreePtr tree, std::chrono::milliseconds grace);
  ~Roster();
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  /// From the first call on, the list is followed.
  void follow();
  /// Somebody of `names`, not in `voted`, who has been gone for the grace time; `next`: when somebody will have been.
  struct Absence {
    std::optional<std::string> gone;
    std::optional<LoopTime> next;
  };
  Absence absence(const std::vector<std::string>& names, const std::set<std::string, std::less<>>& voted) const;
  /// Sets the signal at every change, while somebody has it.
  void tell(const std::shared_ptr<zk::Signal>& signal);

 private:
  struct State;
  static zk::Awaitable<void> watch(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

/// A decision that was read or made. `gone`: there is no such transaction. Without either it is open, or `failure` says
/// why nothing is known.
struct DecisionFound {
  std::optional<Decision> decision = {};
  bool gone = false;
  zk::Reply failure = {};
};
zk::Awaitable<DecisionFound> read_decision(TreePtr tree, std::string id, zk::Call call);
/// Creates the decision, if it is still open. A commit is refused (open) if a vote is missing or to abort.
zk::Awaitable<DecisionFound> make_decision(TreePtr tree, std::string id, std::vector<std::string> participants,
                                           Decision wanted, zk::Call call);

}  // namespace zkrecipes::detail
