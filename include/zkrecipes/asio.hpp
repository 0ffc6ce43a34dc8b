#pragma once

#include <zkclient/asio.hpp>

#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/mutex.hpp>

/// The asynchronous forms of the recipes with Boost.Asio's completion tokens; see <zkclient/asio.hpp>.
///
///   zkrecipes::Lease lease = co_await zkrecipes::async_acquire(mutex, asio::use_awaitable);
///   ...
///   co_await zkrecipes::async_release(lease, asio::use_awaitable);
///
/// A cancelled acquisition or campaign leaves no node behind and accepts every type of cancellation; a cancelled release
/// goes on in the background and accepts partial and terminal. A lease that came too late for its handler (the
/// coroutine is gone) is given back by its destructor.
namespace zkrecipes {

inline constexpr zkclient::Operation<zkclient::cancel_read, &Mutex::async_acquire> async_acquire;
inline constexpr zkclient::Operation<zkclient::cancel_read, &LeaderElection::async_campaign> async_campaign;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Lease::async_release> async_release;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Mutex::async_try_acquire> async_try_acquire;

}  // namespace zkrecipes
