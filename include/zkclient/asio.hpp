#pragma once

#include <exception>
#include <system_error>

#include <boost/asio/cancellation_type.hpp>

#include <zkclient/asio/initiate.hpp>
#include <zkclient/asio/operation.hpp>
#include <zkclient/asio/watch_event.hpp>
#include <zkclient/client.hpp>

/// The asynchronous operations with Boost.Asio's completion tokens (Boost 1.81 or newer): callbacks, `use_future`,
/// `use_awaitable`, `deferred`, `detached`, and whatever adapts them. Opt-in: only programs that include this header
/// need Boost (CMake: `find_package(zkrecipes COMPONENTS asio)`, link `zkrecipes::asio`).
///
///   zkclient::NodeData node = co_await zkclient::async_get(client, "/config", asio::use_awaitable);
///   co_await zkclient::async_set(client, "/config", "new", node.stat.version, {.deadline = soon}, asio::use_awaitable);
///
/// Arguments: the object, those of its async_x member without the handler, optionally CallOptions, the token.
///
/// Signature: `void(std::exception_ptr, T)`, or `void(std::exception_ptr)` where there is no value. The exception is a
/// zkclient::Error with its operation and path, which `use_awaitable` and `use_future` throw; T is then a value that
/// means nothing. A callback that wants a Result uses the member function itself. Bad arguments: a Path throws when it
/// is made; everything else arrives as the operation's error.
///
/// Where handlers run: on their associated executor, which is kept busy (a work guard) until then. One that has none
/// runs where the members' handlers do, on the callback executor. An executor must outlive what is pending on it: close
/// the client (which ends everything) before destroying an io_context that was stopped early. When a handler runs, the
/// library has nothing left of its executor.
///
/// Cancellation: the slot of the token ends the call as a request on CallOptions::stop does. Reads accept total,
/// partial and terminal cancellation (Errc::cancelled; nothing happened). Writes accept partial and terminal: one that
/// was sent cannot be taken back and ends with Errc::in_doubt. A cancellation that comes too late changes nothing.
///
/// Lifetimes: a Client is copied; other objects (Mutex, Lease, ...) must stay until the operation was started, which
/// `use_awaitable` and `deferred` do when they are awaited or called. Nothing keeps a client open that its last owner
/// lets go meanwhile. Text and other arguments are copied.
/// g++ 12: it copies the members of what is built in braces inside a co_await expression byte by byte, and destroys
/// them twice. The options of these operations withstand that; aggregates of your own and the
/// options of recipes' constructors do not, and need names. It refuses a lambda
/// that owns what it captures (a static assertion says what to write), and a list of access control entries in braces
/// ("array used as initializer"): make these variables first. It does not refuse, and breaks, such a lambda inside of
/// `WatchHandler(...)` in the expression, and co_await in the braces of a variable (`CallOptions call{.stop = co_await
/// ...}`): these need variables of their own, too.
/// Thread safety: as the members. Signals must be emitted on the handler's executor, as everywhere in Asio.
namespace zkclient {

/// What a cancelled call of a kind may be told to have done: see above.
inline constexpr auto cancel_read = boost::asio::cancellation_type::all;
/// The same of a call that writes.
inline constexpr auto cancel_write = boost::asio::cancellation_type::terminal | boost::asio::cancellation_type::partial;

// The operations of Client, one line each.
inline constexpr Operation<cancel_write, &Client::async_add_auth> async_add_auth;
inline constexpr Operation<cancel_read, &Client::async_children> async_children;
inline constexpr Operation<cancel_read, &Client::async_children_and_watch> async_children_and_watch;
inline constexpr Operation<cancel_write, &Client::async_commit> async_commit;
inline constexpr Operation<cancel_read, &Client::async_connect> async_connect;
inline constexpr Operation<cancel_write, &Client::async_create> async_create;
inline constexpr Operation<cancel_write, &Client::async_ensure> async_ensure;
inline constexpr Operation<cancel_read, &Client::async_exists> async_exists;
inline constexpr Operation<cancel_read, &Client::async_exists_and_watch> async_exists_and_watch;
inline constexpr Operation<cancel_read, &Client::async_get> async_get;
inline constexpr Operation<cancel_read, &Client::async_get_acl> async_get_acl;
inline constexpr Operation<cancel_read, &Client::async_get_and_watch> async_get_and_watch;
inline constexpr Operation<cancel_read, &Client::async_get_config> async_get_config;
inline constexpr Operation<cancel_read, &Client::async_get_config_and_watch> async_get_config_and_watch;
inline constexpr Operation<cancel_write, &Client::async_reconfig> async_reconfig;
inline constexpr Operation<cancel_write, &Client::async_remove> async_remove;
inline constexpr Operation<cancel_write, &Client::async_remove_tree> async_remove_tree;
inline constexpr Operation<cancel_write, &Client::async_set> async_set;
inline constexpr Operation<cancel_write, &Client::async_set_acl> async_set_acl;
inline constexpr Operation<cancel_write, &Client::async_set_resolving> async_set_resolving;
inline constexpr Operation<cancel_read, &Client::async_sync> async_sync;
inline constexpr Operation<cancel_write, &Client::async_update_servers> async_update_servers;

/// The code of what an operation ended with: none for a null pointer. Rethrows what is not a std::system_error.
inline std::error_code code_of(const std::exception_ptr& error) {
  if (error == nullptr) return {};
  try {
    std::rethrow_exception(error);
  } catch (const std::system_error& system) {
    return system.code();
  }
}

}  // namespace zkclient
