#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// What every attempt to get a lease does on the loop thread, whatever decides about it: it belongs to one session,
/// waits for nodes to go, ends when the caller, the deadline, the session or the client does, and proves before a claim
/// that its session is alive. Must not move: its wake-ups know its address.
class Waiter {
 public:
  Waiter(std::shared_ptr<zk::ClientCore> client, zk::Call call);
  ~Waiter();
  Waiter(const Waiter&) = delete;
  Waiter& operator=(const Waiter&) = delete;

  /// Waits for a connected session, which everything after that is bound to.
  zk::Awaitable<zk::Reply> enter();
  /// The same for an attempt to get a lease: fails when the session's timeout is too short for that.
  zk::Awaitable<zk::Reply> enter_to_hold();
  /// From here on heartbeats prove the session, so that the lease that is waited for begins with a proof as good as it
  /// gets. They check `path`, which is there. Fails when answers are too slow for any lease.
  zk::Awaitable<zk::Reply> stay_proven(std::string path);
  const zk::Call& call() const noexcept { return call_; }
  const std::shared_ptr<zk::SessionState>& session() const noexcept { return session_; }
  const std::shared_ptr<zk::LeaseKeeper>& keeper() const noexcept { return keeper_; }

  /// A watch that wakes this waiter; dropping it removes it.
  struct NodeWatch {
    std::optional<zkclient::WatchEventType> event = {};
    zk::Reply node = {};  ///< What the read that armed it has found, if the caller has kept it here.
    std::shared_ptr<zk::LoopWatch> watch = {};  ///< For the read that arms it.
  };
  std::shared_ptr<NodeWatch> make_watch(zk::WatchRegistry::Kind kind = zk::WatchRegistry::Kind::data);
  /// Waits until an armed watch has fired; fails when the wait must end.
  zk::Awaitable<zk::Reply> fired(std::shared_ptr<NodeWatch> watch);
  /// The same for the first of several.
  zk::Awaitable<zk::Reply> any_fired(std::vector<std::shared_ptr<NodeWatch>> watches);
  /// Waits until there is no node at `path` (with `watch`, armed before, or one of its own). If the caller gives
  /// up before that, the reply's detail says whose node it is: "`relation` id=a host=b ... since ... (node)".
  zk::Awaitable<zk::Reply> wait_until_gone(std::string path, std::string_view relation,
                                           std::shared_ptr<NodeWatch> armed = nullptr);

  /// Asks a quorum whether the nodes that `check`, a transaction of checks, names are there: no_node when one is not.
  zk::Awaitable<zk::Reply> check(zk::Request check);
  /// The same for a check that was launched before.
  zk::Awaitable<zk::Reply> checked(zk::Request check, zk::Reply reply);
  /// Before the claim: the session is alive by the word of a quorum, lately enough. Mostly the create has proven it.
  zk::Awaitable<zk::Reply> prove(zk::Request check);
  /// Why the wait must end, if it must.
  zk::Reply state() const;
  /// Why no lease can live on this session, if that is so, by what was measured so far.
  zk::Reply obstacle() const;

 private:
  const std::shared_ptr<zk::ClientCore> client_;
  zk::Call call_;
  zk::Signal wake_;
  std::shared_ptr<zk::SessionState> session_;
  std::shared_ptr<zk::LeaseKeeper> keeper_;  // Of that session.
  zk::SessionState::ObserverId observer_;
  bool observing_ = false;
  std::optional<zk::LeaseKeeper::HoldId> proving_;
  zk::CancelScope::Guard cancelled_;
};

/// Why no lease can live on the session that `call` is bound to, if that is so: what was measured before is measured
/// again.
zk::Awaitable<zk::Reply> find_obstacle(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::LeaseKeeper> keeper,
                                       zk::Call call);

/// Whose node it is, for a person: what its owner wrote there, and since when it is there.
std::string describe_node(const std::string& path, const zk::Reply& node);
/// A transaction that checks the existence of a node, and of a second one unless it is "".
zk::Request existence_check(const std::string& path, const std::string& second = "");

}  // namespace zkrecipes::detail
