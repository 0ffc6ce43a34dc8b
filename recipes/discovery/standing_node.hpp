#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <string>

#include <zkrecipes/lease.hpp>
#include <zkrecipes/presence.hpp>

#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

namespace zk = zkclient::detail;

/// The constants of a standing node. Paths are full ones unless it says otherwise.
struct StandingNodeSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< The node's, as the user knows it.
  std::string node;
  zkclient::AclList acl;
  Conflict conflict = Conflict::wait;
};

/// A persistent node that one registrar writes, and takes away in the end. It knows its own node by the czxid. A lost
/// reply is resolved by a look: the data, which names an id and a time, tells whether the write was applied.
///
/// ZooKeeper has no condition on a czxid, only on a version, which begins anew with each node. So the node is watched:
/// only if nothing was heard of it since it was read, on a connection that held, is its version believed without another
/// look.
class StandingNode : public std::enable_shared_from_this<StandingNode> {
 public:
  /// Any thread. It is destroyed on the loop, wherever the last call that needs it ends.
  static std::shared_ptr<StandingNode> make(StandingNodeSpec spec);
  explicit StandingNode(StandingNodeSpec spec) : spec_(std::move(spec)) {}

  // --- Any thread ---

  const StandingNodeSpec& spec() const noexcept { return spec_; }
  PresenceState state() const noexcept {
    return process_.forked() ? PresenceState::left : state_.load(std::memory_order_relaxed);
  }
  FencingToken token() const noexcept { return FencingToken{czxid_.load(std::memory_order_relaxed)}; }
  /// Takes it away, without waiting for it; goes on while the client is open.
  static void drop(const std::shared_ptr<StandingNode>& self) noexcept;

  // --- Calls ---

  /// The first one puts a new node there, in the place of a former registrar's; later ones write into that.
  static zk::Awaitable<zkclient::Result<void>> put(std::shared_ptr<StandingNode> self, std::string data, zk::Call call);
  static zk::Awaitable<zkclient::Result<void>> remove(std::shared_ptr<StandingNode> self, zk::Call call);

 private:
  /// Forgets what is known at each change of the session's state.
  class Doubt {
   public:
    Doubt(std::shared_ptr<zk::SessionState> session, StandingNode& node)
        : session_(std::move(session)), id_(session_->observe([&node] { node.known_ = false; })) {}
    ~Doubt() { session_->forget(id_); }
    Doubt(const Doubt&) = delete;
    Doubt& operator=(const Doubt&) = delete;

   private:
    const std::shared_ptr<zk::SessionState> session_;
    const zk::SessionState::ObserverId id_;
  };

  static zk::Awaitable<void> remove_in_background(std::shared_ptr<StandingNode> self);
  zk::Awaitable<zkclient::Result<void>> write(std::string data, zk::Call call);
  zk::Awaitable<zkclient::Result<void>> take_away(zk::Call call);
  zk::PendingReply launch_look(zk::Call call);
  zk::Awaitable<zk::Reply> look(zk::Call call);
  zkclient::Result<zk::Request> request_for(const zk::Reply& seen, const std::string& data, bool replacing) const;
  bool is_ours(const zk::Reply& seen) const;
  void judge(const zk::Reply& seen);
  void know(const zk::Reply& seen);
  void gone();
  zkclient::Error error(const zk::Reply& reply, const char* operation) const;

  const StandingNodeSpec spec_;
  const zk::ProcessGeneration process_;
  std::atomic<PresenceState> state_{PresenceState::joining};
  std::atomic<std::int64_t> czxid_{0};  // 0: not known. Written on the loop only.
  std::string data_;                    // As it was written last.
  bool written_ = false;                // It may be there.
  bool leaving_ = false;
  bool stale_ = false;  // The server may lag behind what was refused, or lost.
  std::int32_t version_ = 0;
  bool known_ = false;  // Nothing was heard of our node since it was read.
  std::shared_ptr<zk::LoopWatch> watch_;
  std::unique_ptr<Doubt> doubt_;
};

}  // namespace zkrecipes::detail
