#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include <zkrecipes/lease.hpp>
#include <zkrecipes/presence.hpp>

#include "recipes/kernel/owned_node.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

// For error texts.
inline constexpr const char* registering_instance = "register instance";
inline constexpr const char* unregistering_instance = "unregister instance";

/// A persistent node that one registrar writes, and takes away in the end. It knows its own node by the czxid. A lost
/// reply is resolved by a look: the data, which names an id and a time, tells whether the write was applied. What shall
/// go with its owner's session is a KeptNode: that proves its node by a second one, which this, without a session,
/// cannot have.
///
/// ZooKeeper has no condition on a czxid, only on a version, which begins anew with each node. So the node is watched:
/// only if nothing was heard of it since it was read, on a connection that held, is its version believed without another
/// look. One gap is left: another registrar has replaced the node, and the event has not arrived yet. The new node's
/// version is 0, so a removal that expects 0 deletes it.
class StandingNode : public OwnedNode, public std::enable_shared_from_this<StandingNode> {
 public:
  /// Any thread. It is destroyed on the loop, wherever the last call that needs it ends.
  static std::shared_ptr<StandingNode> make(OwnedNodeSpec spec);
  explicit StandingNode(OwnedNodeSpec spec) : OwnedNode(spec_, false), spec_(std::move(spec)) {}

  // --- Any thread ---

  const OwnedNodeSpec& spec() const noexcept { return spec_; }
  FencingToken token() const noexcept { return FencingToken{token_.load(std::memory_order_relaxed)}; }
  /// In place of the first put(): goes on until it is there, is taken away, or the client is closed; problem() says why
  /// it is not there yet. Errors: as the loop refuses work (closed, forked).
  static void begin(const std::shared_ptr<StandingNode>& self, std::string data);
  /// Takes it away, without waiting for it; goes on while the client is open.
  static void drop(const std::shared_ptr<StandingNode>& self) noexcept;

  // --- Calls ---

  /// The first one puts a new node there, in the place of a former registrar's; later ones write into that.
  static zk::Awaitable<zkclient::Result<void>> put(std::shared_ptr<StandingNode> self, std::string data, zk::Call call);
  static zk::Awaitable<zkclient::Result<void>> wait_present(std::shared_ptr<StandingNode> self, zk::Call call);
  static zk::Awaitable<zkclient::Result<void>> remove(std::shared_ptr<StandingNode> self, zk::Call call);

 private:
  /// What one look has found, and whether anything was heard of the node since. Each look has a watch of its own, so
  /// that calls that overlap do not believe what another one has asked and not yet been told.
  struct Sight {
    /// Spoils the sight at each change of the session's state.
    class Doubt {
     public:
      Doubt(std::shared_ptr<zk::SessionState> session, Sight& sight)
          : session_(std::move(session)), id_(session_->observe([&sight] { sight.heard = true; })) {}
      ~Doubt() { session_->forget(id_); }
      Doubt(const Doubt&) = delete;
      Doubt& operator=(const Doubt&) = delete;

      bool is_of(const std::shared_ptr<zk::SessionState>& session) const noexcept { return session_ == session; }

     private:
      const std::shared_ptr<zk::SessionState> session_;
      const zk::SessionState::ObserverId id_;
    };

    bool ours = false;           // It was answered, and the node was ours.
    bool heard = false;          // Something has happened since it was sent.
    std::uint64_t removals = 0;  // That had been sent before it.
    std::int32_t version = 0;
    std::shared_ptr<zk::LoopWatch> watch;
    std::unique_ptr<Doubt> doubt;
  };
  using SightPtr = std::shared_ptr<Sight>;

  static zk::Awaitable<void> put_in_background(std::shared_ptr<StandingNode> self);
  static zk::Awaitable<zkclient::Result<void>> until_put(std::shared_ptr<StandingNode> self, std::string data,
                                                         zk::Call call);
  static zk::Awaitable<void> remove_in_background(std::shared_ptr<StandingNode> self);
  zk::Awaitable<zkclient::Result<void>> write(std::string data, zk::Call call);
  zk::Awaitable<zkclient::Result<void>> take_away(zk::Call call);
  zk::Awaitable<std::optional<zkclient::Errc>> end_beginning(zk::Call call);
  zk::PendingReply launch_look(const zk::Call& call, SightPtr& sight);
  zk::Awaitable<zk::Reply> look(zk::Call call, SightPtr& sight);
  zk::Awaitable<zk::Reply> settle(zk::Call call);
  zk::Awaitable<void> rest(zk::Call call, std::chrono::milliseconds time);
  zkclient::Result<zk::Request> request_for(const zk::Reply& seen, const std::string& data) const;
  bool is_ours(const zk::Reply& seen) const;
  bool is_sure(const SightPtr& sight) const;
  void judge(Sight& sight, const zk::Reply& seen) const;
  void know(const zk::Reply& seen);
  void begin_create(const zk::Reply& seen, const std::string& data);
  void end_create(const zk::Reply& reply, const std::string& data);
  void gone();
  zkclient::Error error(const zk::Reply& reply, const char* operation) const;

  const OwnedNodeSpec spec_;
  std::atomic<std::int64_t> token_{0};  // Of the node that was ours last. Written on the loop only.
  std::int64_t czxid_ = 0;              // Of our node; 0: not known.
  std::int64_t former_ = 0;             // Of the last node that a create of ours was to replace.
  std::map<std::string, int> creates_;  // Data of creates that may have been applied since our node was known.
  std::string data_;                    // As it was wanted last.
  bool registered_ = false;             // Our node was seen once: others are not to be replaced any more.
  bool leaving_ = false;
  bool begun_ = false;  // put_in_background() goes on,
  std::string wanted_;  // with this,
  const std::shared_ptr<zk::CancelScope> beginning_ = std::make_shared<zk::CancelScope>();  // until this is requested.
  std::shared_ptr<zk::CancelScope> resting_;  // Before it tries again; requested when there is a reason to.
  std::uint64_t doubts_ = 0;                  // How often the server turned out to lag behind, perhaps.
  std::uint64_t settled_ = 0;                 // The last one of them that a sync, or a majority, has settled.
  std::uint64_t removals_ = 0;                // Sent so far.
  SightPtr sight_;                            // Of the look that was sent last.
};

}  // namespace zkrecipes::detail
