#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/lease.hpp>

#include "recipes/kernel/held_nodes.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The owner of one holder's node, from the grant until the node is gone. Facts are read by any thread; what happens,
/// happens on the loop thread.
class LeaseCore : public std::enable_shared_from_this<LeaseCore> {
 public:
  struct Grant {
    std::shared_ptr<zk::ClientCore> client;
    std::shared_ptr<zk::SessionState> session;
    std::shared_ptr<zk::LeaseKeeper> keeper;
    std::string path;  ///< Full. The name of this node is this holding's alone.
    std::int64_t czxid = 0;
    FencingToken token = {};  ///< Of the lease, if that began with another node; default: czxid.
    /// A second node, made in the same transaction, whose name others use as well: what single_node.hpp contends for.
    /// It is watched instead of the first one, and removed together with that.
    std::string companion = {};
    std::string data = {};  ///< The new data of the watched node.
    std::stop_source lost = {};
    std::stop_source revoke = {};
    /// For the recipe, on the loop thread: when the lease is lost, before the holder is told.
    std::function<void()> on_lost = {};
    /// Likewise, when the holder knows that it is lost, and the session goes on: removes what is left, in place of a
    /// removal of the nodes. For a `path` that is not this holding's alone.
    std::function<void()> clear_up = {};
    /// Watch the holder's node from the start, so that an operator's delete is seen at once; otherwise only when the
    /// lease has been held for a while: short critical sections are over before, and do not pay.
    bool watch_at_once = false;
    /// False: the data of the watched node is the user's, and means nothing to us: no text in it is a request to
    /// give the lease back, and nothing is written back there.
    bool revocable = true;
    /// Not the user's, but a step on the way to a lease: it is not counted, and nobody is told of it.
    bool internal = false;
    /// Of a holder with many contenders behind it: see HeldNodes.
    std::string record = {};
    std::int32_t record_version = 0;
  };
  explicit LeaseCore(Grant grant);
  ~LeaseCore();
  LeaseCore(const LeaseCore&) = delete;
  LeaseCore& operator=(const LeaseCore&) = delete;

  // --- From any thread ---
  FencingToken token() const noexcept {
    return grant_.token != FencingToken() ? grant_.token : FencingToken{grant_.czxid};
  }
  LeaseState state() const noexcept;
  std::stop_token lost() const noexcept { return grant_.lost.get_token(); }
  std::stop_token revoke_requested() const noexcept { return grant_.revoke.get_token(); }
  const std::shared_ptr<zk::SessionState>& session() const noexcept { return grant_.session; }
  const std::shared_ptr<zk::ClientCore>& client() const noexcept { return grant_.client; }
  std::string node() const { return grant_.client->stripped(grant_.path); }
  /// Gives the lease back without waiting; the node is removed in the background.
  void drop() noexcept;
  /// Ends the holding at once; false when there was nothing to end (lost, or given back already).
  bool begin_release() noexcept;

  // --- On the loop thread ---
  /// From here on heartbeats keep the session's clock going and look after the node.
  void begin();
  /// Deletes the node, once; removed() tells when it is gone or the session is dead.
  void remove_node();
  zk::Awaitable<void> removed(zk::Call call);
  /// Waits until nothing is held any more. Returns no error for a loss, not_held for a release; or why the wait ended.
  zk::Awaitable<zkclient::Errc> over(zk::Call call);
  bool node_gone() const noexcept { return gone_; }
  /// Loses what is held, for this reason, and tells the holder. Then `left` is removed.
  void lose(std::string_view cause, std::vector<HeldNodes> left);
  /// The same; what is left is whatever the session still has of its nodes.
  void lose_node(std::string_view cause);
  /// Of a lease that is about to be forgotten: if its clock has run out, and the timer has not said so yet, it is lost
  /// here, and what is left is removed.
  void notice_end();
  /// Before the node is replaced by another one, or removed: false when nothing is held. Then either resume(), if it
  /// was not, or replaced(): this one is over without a word; false when it was given back or lost meanwhile. After
  /// pause() nothing is looked after; after pause_node() the session is, and its end is a loss as ever.
  bool pause();
  bool pause_node();
  void resume();
  bool replaced();
  /// Tells the holder that another client asks for the lease.
  void request_revocation();
  const Grant& grant() const noexcept { return grant_; }

 private:
  enum class Status { held, lost, releasing, released };

  bool leave(Status next, std::string_view cause = {}) noexcept;
  void probe_end(bool lost, std::string_view cause) const noexcept;
  void meter_end(bool lost, std::string_view cause) const;

  HeldNodes nodes() const { return {grant_.path, grant_.companion, grant_.czxid}; }
  HeldNodes nodes_to_hand_over() const {
    return {grant_.path, grant_.companion, grant_.czxid, grant_.record, grant_.record_version};
  }
  void lose_deleted_node();
  void end(std::string_view cause, std::function<void(std::shared_ptr<zk::CancelScope> told)> clear_up);
  zk::LeaseKeeper::Holder make_holder();
  void detach();
  void tell_over();
  void watch_own_node();
  zk::Awaitable<void> look_at_own_node(std::shared_ptr<zk::LoopWatch> watch, zk::Call call);
  void look_at(const zk::Reply& own_node);
  zk::Awaitable<void> restore_words(std::int32_t version, zk::Call call);
  bool watching(const std::shared_ptr<zk::LoopWatch>& watch) const { return attached_ && own_watch_ == watch; }
  zk::Call bound_call() const;

  Grant grant_;
  std::optional<zk::SpanBegin> begin_;  // If somebody counts, or is told.
  std::atomic<Status> status_{Status::held};

  // Loop thread only.
  bool attached_ = false;
  bool node_paused_ = false;
  bool removing_ = false;
  bool gone_ = false;
  zk::LeaseKeeper::HoldId hold_ = 0;
  zk::SessionState::ObserverId observer_;
  std::shared_ptr<zk::LoopWatch> own_watch_;
  std::shared_ptr<zk::CancelScope> ended_ = std::make_shared<zk::CancelScope>();
  std::shared_ptr<zk::CancelScope> removed_ = std::make_shared<zk::CancelScope>();
  std::shared_ptr<zk::CancelScope> over_ = std::make_shared<zk::CancelScope>();  // Lost, released or replaced.
};

}  // namespace zkrecipes::detail
