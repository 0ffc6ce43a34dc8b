#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

struct BarrierOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data.
};

/// How a barrier ends whose raiser dies.
enum class BarrierLife {
  persistent,  ///< It stays up until a client lowers it.
  ephemeral,   ///< It falls when the raiser's session ends.
};

/// A barrier that is up.
struct BarrierState {
  std::string data;                             ///< The raiser, its host, and since when.
  std::chrono::system_clock::time_point since;  ///< By the server's clock.
  std::optional<std::int64_t> session_id;       ///< Of the raiser, if it falls with that session.
};

/// A gate: all clients wait while it is up. Source: "Barriers" in ZooKeeper's recipes; nodes as in Apache Curator's
/// DistributedBarrier and kazoo's Barrier.
///
///   path    persistent or ephemeral, as the raiser chose; data: its name
///
/// Invariant: the barrier is up if and only if the node exists.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// raise: request or reply lost             nothing: it is up. If it is lowered before the lost reply is noticed, it
///                                          may be raised a second time, or another client's gate be found: `true`
///                                          always says that this call raised it, `false` that it is up
/// lower: request or reply lost             nothing: it is down; one that was raised after it is left alone
/// parent missing                           nothing: created
/// connection breaks while waiting          nothing: it is looked at again
/// session lost while waiting               nothing: it goes on with the next session
/// session lost while raising ephemerally   session_lost: it is not up, or falls at once
/// raiser's process dies                    BarrierLife: it stays, or falls when the session ends
/// deadline, stop request while waiting     deadline_exceeded (or false), cancelled
/// the same while raising or lowering       in_doubt if an attempt was sent and not answered; else the same, and nothing
///                                          was done
/// client closed                            closed (raise, lower: or in_doubt); what was raised ephemerally falls
///
/// A barrier that is lowered and raised again at once may let a waiter through, or not.
///
/// Thread safety: all members. The object keeps its client open.
class ZKRECIPES_API Barrier {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (the path is the root).
  Barrier(zkclient::Client client, zkclient::Path path, BarrierOptions options = {});
  ~Barrier();
  Barrier(Barrier&&) noexcept;
  Barrier& operator=(Barrier&&) noexcept;

  /// Puts it up; false if it was up before. Errors: see the table, and those common to all operations of Client.
  bool raise(BarrierLife life = BarrierLife::persistent, const zkclient::CallOptions& call = {});
  void async_raise(BarrierLife life, zkclient::Handler<bool> handler, const zkclient::CallOptions& call = {});
  /// Takes it down, whichever client raised it. Nothing happens if it is down. Errors: as raise(); not_empty (there are
  /// nodes below it, so it is no barrier).
  void lower(const zkclient::CallOptions& call = {});
  void async_lower(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// Waits until it is down, for ever unless `call` has a deadline or a stop token. An error says that it was up. A barrier
  /// whose raise() had returned before, at whichever server, is up: to know that costs a write that changes nothing.
  void wait(const zkclient::CallOptions& call = {}) const;
  /// Waits for at most `timeout`, or until `deadline`; false when that passed. A time that is over means one look.
  [[nodiscard]] bool wait_for(Timeout timeout, WaitOptions options = {}) const;
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point deadline, WaitOptions options = {}) const;
  void async_wait(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {}) const;

  /// nullopt: it is down, as far as the server has heard that answers. One round trip, a read.
  std::optional<BarrierState> state(const zkclient::CallOptions& call = {}) const;
  void async_state(zkclient::Handler<std::optional<BarrierState>> handler,
                   const zkclient::CallOptions& call = {}) const;

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
