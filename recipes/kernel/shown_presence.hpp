#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>

#include <zkclient/client.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/presence.hpp>

#include "recipes/kernel/listener_set.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// One node of a kept node's owner, from the look that found it until it is gone.
struct Incarnation {
  std::shared_ptr<zk::SessionState> session;
  FencingToken token;
  std::string node = {};  ///< Its full path.
  std::stop_source lost = {};
  std::atomic<bool> over{false};
  std::shared_ptr<zk::LeaseKeeper> keeper = {};  ///< Null: it has no lease (yet). Guarded by its ShownPresence.
  zk::LeaseKeeper::HoldId hold = 0;
};
using IncarnationPtr = std::shared_ptr<Incarnation>;

/// What the owner of a kept node may know: asked by any thread, written by the loop thread. In a forked child it has left.
class ShownPresence {
 public:
  using StateListener = StateBacklog<PresenceState>::Listener;
  struct Problem {
    zkclient::Errc code;
    std::string detail;
    bool definite = false;  ///< The server refuses it; no event will tell when that changes.
  };

  explicit ShownPresence(bool lease) : lease_(lease) {}

  // --- Any thread ---

  bool forked() const noexcept { return process_.forked(); }
  PresenceState state() const;
  /// Of the node that is there, or was there last; zero before the first one.
  FencingToken token() const;
  /// Its full path; "": there was none yet.
  std::string node() const;
  /// The same node's.
  std::stop_token lost() const;
  bool valid() const;
  /// Present, and with its lease if it shall have one.
  bool complete() const;
  std::optional<Problem> problem() const;
  /// In no forked child.
  zkclient::Subscription on_state(const std::shared_ptr<zk::CallbackGroup>& executor, StateListener listener);
  /// No listener is called afterwards, and those that run have returned, unless one of them calls this.
  void end_listeners();

  // --- Loop thread ---

  /// False: it was shown already.
  bool show(PresenceState state);
  void show_problem(Problem problem);
  void clear_problem();
  /// Null: there was none yet. The last one may be over.
  IncarnationPtr incarnation() const;
  void begin(IncarnationPtr incarnation);
  void begin_lease(Incarnation& incarnation, std::shared_ptr<zk::LeaseKeeper> keeper, zk::LeaseKeeper::HoldId hold);

 private:
  const bool lease_;
  const zk::ProcessGeneration process_;
  const std::shared_ptr<ListenerSet<StateBacklog<PresenceState>>> listeners_ =
      std::make_shared<ListenerSet<StateBacklog<PresenceState>>>(PresenceState::joining);
  mutable std::mutex mutex_;
  // Guarded by mutex_.
  PresenceState state_ = PresenceState::joining;
  IncarnationPtr incarnation_;
  std::optional<Problem> problem_;
};

}  // namespace zkrecipes::detail
