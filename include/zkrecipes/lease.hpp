#pragma once

#include <compare>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>

#include <zkclient/clock.hpp>
#include <zkclient/export.hpp>
#include <zkclient/path.hpp>
#include <zkclient/result.hpp>
#include <zkclient/session.hpp>
#include <zkclient/transaction.hpp>
#include <zkclient/types.hpp>

namespace zkrecipes {

namespace detail {
class LeaseCore;
}

/// Grows from holder to holder of one path, also after the path was removed and made again. Hand it to the resource
/// that the lock protects, and let that refuse every token lower than the highest it has seen: the only protection
/// against a process that was paused past its lease and does not know it yet. (The czxid of the node it began with.)
///
/// An ensemble that was rebuilt without its data starts low again, and what has seen higher tokens would refuse every
/// holder for ever. The cure is an epoch of the deployment's own, raised whenever that happens and set by the program:
///
///   zkrecipes::FencingToken token = lease.token();
///   token.epoch = config.ensemble_epoch;
struct FencingToken {
  std::int64_t value = 0;  ///< Grows from holder to holder.
  std::int64_t epoch = 0;  ///< Compared first. No recipe sets it.

  friend bool operator==(const FencingToken&, const FencingToken&) = default;
  friend std::strong_ordering operator<=>(const FencingToken& a, const FencingToken& b) noexcept {
    const std::strong_ordering by_epoch = a.epoch <=> b.epoch;
    return by_epoch != 0 ? by_epoch : a.value <=> b.value;
  }
};

/// held       ours, proven until valid_until()
/// uncertain  still ours until valid_until(), but the connection is broken
/// lost       not ours any more: session over, lease clock run out, node deleted by another client
/// releasing  given back; the node's deletion is on its way
/// released   given back; the node is gone
enum class LeaseState { held, uncertain, lost, releasing, released };

ZKRECIPES_API const char* to_string(LeaseState state) noexcept;

/// What every exclusive recipe returns: proof of a holding, and the signal of its loss. Move-only; the destructor
/// gives it back without waiting and never throws.
///
/// It does not keep its client open: it is lost when the last Client, or the last recipe that was given one, goes.
///
/// A lease is a promise about time. **A process that is paused for long enough can outlive any lease** and act on
/// it before it notices: give token() to what you protect, or put guard() into your transactions.
///
/// Thread safety: const members from any thread; moving and releasing like any other object.
class ZKRECIPES_API [[nodiscard]] Lease {
 public:
  /// An empty lease, also what was moved from: state() is released, every other query fails closed.
  Lease() noexcept = default;
  explicit Lease(std::shared_ptr<detail::LeaseCore> core) noexcept : core_(std::move(core)) {}
  Lease(Lease&&) noexcept = default;
  Lease& operator=(Lease&& other) noexcept;
  ~Lease();

  FencingToken token() const noexcept;
  /// Exact at the instant of the call, without a round trip; `lost` also before any handler was told.
  LeaseState state() const noexcept;
  /// True while state() is held or uncertain.
  bool valid() const noexcept;
  /// Fires once, when the lease is lost, before another client can hold what it stood for; except when an operator
  /// deleted the node by hand (then as soon as that is seen), or when this process did not run at the time (then after
  /// it was resumed; valid() and state() tell the truth at once). Stop callbacks run on the callback executor, if that
  /// is your own when it gets to them. Never fires for a release.
  std::stop_token lost() const noexcept;
  /// Fires once, when another client has asked for this lease (see revoke.hpp; also Curator's revocation): finish, and
  /// give it back. Nothing happens to a holder that does not, unless the asking client breaks the lease, which is a
  /// loss. Seen about 20 ms after the grant at the earliest. Stop callbacks run on the callback executor.
  std::stop_token revoke_requested() const noexcept;
  /// Until when the lease is certain; in the past when it is not valid.
  zkclient::BootClock::time_point valid_until() const noexcept;

  /// A condition for a transaction of yours, which then fails unless this lease is still held. Throws Error
  /// (not_held) for an empty lease.
  zkclient::Check guard() const;
  /// A transaction that begins with guard(): it is applied only if this lease is still held when the server gets it.
  /// Errors: not_held, for an empty lease.
  zkclient::Transaction transaction() const;
  /// Waits until this lease is lost: the form of lost() for coroutines. `handler` is called exactly once, on the
  /// callback executor: without an error when the lease is lost (also if it was before), with not_held if it is given
  /// back instead, or with deadline_exceeded or cancelled. The object may be moved meanwhile. Errors: not_held, for an
  /// empty lease.
  void async_lost(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {}) const;
  /// The holder's node (without the client's prefix); "" for an empty lease.
  std::string node() const;
  /// The session that holds it; nullopt for an empty lease.
  std::optional<zkclient::Session> session() const;

  /// Gives the lease back and waits until its node is gone or its session is dead. The holding ends at the call,
  /// whatever happens then. Errors: not_held (it was lost before), deadline_exceeded and cancelled (the deletion
  /// goes on in the background).
  void release(const zkclient::CallOptions& call = {});
  void release(const zkclient::CallOptions& call, std::error_code& error);
  /// The same; `handler` is called once, on the callback executor.
  void async_release(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  const std::shared_ptr<detail::LeaseCore>& impl() const noexcept { return core_; }  ///< For recipes.

 private:
  std::shared_ptr<detail::LeaseCore> core_;
};

}  // namespace zkrecipes
