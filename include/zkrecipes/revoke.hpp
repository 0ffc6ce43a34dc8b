#pragma once

#include <chrono>
#include <optional>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

/// Asking others to give a lock back. Source: "Revocable Shared Locks" in ZooKeeper's recipes; the request is written
/// as Apache Curator's Revoker does it, so that its holders understand it, and holders of this library understand both.
///
///   path of a Mutex, RecursiveMutex, SharedMutex       path of an UnfairMutex
///    |-- _c_<uuid>-lock-0000000007  <- "__REVOKE__"     |-- lock  <- "__REVOKE__"; "unlock" is understood as well
///    '-- _c_<uuid>-lock-0000000008                      '-- _c_<uuid>-lock  checked: only while this one holds
///
/// Invariant: nothing but the data of the contender that was meant is ever written, and no node but its own deleted.
///
/// Guaranteed: a contender of this library that holds learns it by Lease::revoke_requested(), and decides; who broke it
/// is told so only after the node has gone; session, age and token of the contender stay to be listed. Its own words in
/// the node are overwritten by the request, and written back as soon as it holds and has seen it. Not guaranteed: that
/// it complies; that a waiter does before it holds; that what it protects is at rest when it was broken. That nobody
/// holds is said only after a majority of the servers has agreed: one that lags behind hides no holder.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// request or its reply lost                nothing: it is repeated (what broke it may then be told as released)
/// nobody holds, or not any more            released
/// holder does not react                    requested; with break_after: broken, and the holder's lost() fires
/// holder releases while it is broken       released or broken; its successor is untouched in any case
/// deadline, stop request                   deadline_exceeded, cancelled; the request may stand
/// no access to the node                    no_auth
/// node is not ephemeral                    revoke: invalid_argument, the node is unchanged
namespace zkrecipes {

/// What became of a request to give way.
enum class RevokeOutcome {
  requested,  ///< The request stands; the caller did not wait.
  released,   ///< The holder has given it back, or had done so before.
  broken,     ///< The grace time passed, and the node was deleted.
};

ZKRECIPES_API const char* to_string(RevokeOutcome outcome) noexcept;

struct RevokeOptions {
  /// Waits for that long, and then deletes the node: its holder loses the lease (Lease::lost()), whatever it is doing.
  /// It may be paused and not know it yet, so what the lock protects must check tokens or guards. A time that no clock
  /// reaches, such as milliseconds::max(): waits, and never deletes. Default: only ask.
  std::optional<std::chrono::milliseconds> break_after = {};
};

/// Asks the contender with this node (Contender::node below the recipe's path, Lease::node()), whether it holds or
/// waits. A contender's node is ephemeral; no other one, such as the directory of a lock, is written to or deleted.
/// Blocks for a few round trips, and for up to break_after. Any client may ask. Errors: see the table, invalid_argument
/// (a negative time, not a contender's node), and those common to all operations of Client.
/// Thread safety: this and all below may be called from any thread.
ZKRECIPES_API RevokeOutcome revoke(const zkclient::Client& client, const zkclient::Path& node,
                                   const RevokeOptions& options = {}, const zkclient::CallOptions& call = {});
/// The same; `handler` is called exactly once, on the callback executor.
ZKRECIPES_API void async_revoke(const zkclient::Client& client, const zkclient::Path& node,
                                const RevokeOptions& options, zkclient::Handler<RevokeOutcome> handler,
                                const zkclient::CallOptions& call = {});

/// Asks all holders at the path of a Mutex, UnfairMutex, RecursiveMutex or SharedMutex now (of a Semaphore: at its path
/// followed by "/leases"; the next waiter may be among them). The mildest outcome that is true of all of them;
/// `released` when there is no holder. Children that are not ephemeral are passed over: `lock` may be the directory of
/// another lock.
ZKRECIPES_API RevokeOutcome revoke_holders(const zkclient::Client& client, const zkclient::Path& path,
                                           const RevokeOptions& options = {}, const zkclient::CallOptions& call = {});
ZKRECIPES_API void async_revoke_holders(const zkclient::Client& client, const zkclient::Path& path,
                                        const RevokeOptions& options, zkclient::Handler<RevokeOutcome> handler,
                                        const zkclient::CallOptions& call = {});

}  // namespace zkrecipes
