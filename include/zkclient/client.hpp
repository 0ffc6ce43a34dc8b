#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <zkclient/path.hpp>
#include <zkclient/result.hpp>
#include <zkclient/retry.hpp>
#include <zkclient/runtime.hpp>
#include <zkclient/session.hpp>
#include <zkclient/transaction.hpp>
#include <zkclient/types.hpp>
#include <zkclient/watch.hpp>

namespace zkclient {

namespace detail {
class ClientCore;
}

/// Files in PEM format.
struct TlsOptions {
  std::string ca_file;           ///< Whom the server's certificate must be signed by.
  std::string certificate_file;  ///< The client's own, with its chain.
  std::string key_file;
  std::string key_passphrase = {};
};

struct SaslOptions {
  std::string mechanism;  ///< "DIGEST-MD5", "GSSAPI".
  std::string user;
  std::string password = {};
};

struct ClientOptions {
  /// Asked for; the server grants what its limits allow (see Session::timeout). At least 100 ms.
  std::chrono::milliseconds session_timeout{10'000};
  /// Deadline of calls that name none of their own. Positive.
  std::chrono::milliseconds operation_timeout{15'000};
  RetryPolicy retry = {};
  /// All paths of this client lie below this one (the "chroot"); it is not created by itself.
  Path prefix = {};
  /// Resume this session instead of opening a new one. If the server no longer has it, it is reported as lost.
  std::optional<SessionCredentials> resume = {};
  /// Encrypt the connection. Errc::unsupported unless features().tls.
  std::optional<TlsOptions> tls = {};
  /// Authenticate by SASL. Errc::unsupported unless features().sasl.
  std::optional<SaslOptions> sasl = {};
};

/// One entry of the sequence of states; `session` tells which session it is about.
struct StateChange {
  ConnectionState state;
  Session session;
};
using StateListener = UniqueFunction<void(const StateChange&)>;

/// A connection to a ZooKeeper ensemble.
///
/// Every operation has a blocking form, which throws Error, one that reports through `std::error_code&` instead,
/// and an asynchronous form whose handler is called exactly once. Reads are repeated after a lost connection
/// (RetryPolicy); a write whose reply was lost ends with `ErrorKind::in_doubt` and is never sent twice.
/// Operations wait for a connection until their deadline, so a Client can be made before its server is up.
///
/// Thread safety: all members, from any thread, also from handlers; close() from a handler does not wait for
/// that handler. Cheap to copy: copies share the client, which is closed when the last one goes.
/// Errors common to all operations, besides what each names: deadline_exceeded, cancelled, closed,
/// session_lost (for calls bound to a session), no_auth, too_large, overloaded.
class Client {
 public:
  /// `hosts` is "host:port[,host:port...]"; the port may be left out (2181). Names are resolved in the
  /// background. Returns at once. Errors: Errc::invalid_argument for a malformed list or option.
  explicit Client(std::string_view hosts, ClientOptions options = {});
  /// The same, sharing `runtime`, which must outlive nothing: closing it closes this client.
  Client(Runtime& runtime, std::string_view hosts, ClientOptions options = {});

  /// Ends every pending call with Errc::closed (or in_doubt), closes the session at the server, so that its
  /// ephemeral nodes vanish now, and returns within about a second after the server's last word. Idempotent.
  /// After it returned, none of this client's handlers runs, apart from the one that called it.
  void close();

  /// The current session; it may still be connecting, or lost and about to be replaced.
  Session session() const;
  /// Waits until a session is connected and returns it.
  Session connect(const CallOptions& call = {}) const;
  void async_connect(Handler<Session> handler, const CallOptions& call = {}) const;

  /// Calls `listener` with the current state and then with every change, in order, none left out.
  Subscription on_state_change(StateListener listener) const;

  const Path& prefix() const noexcept;

  /// Creates a node. Errors: node_exists, no_node (parent missing), no_children_for_ephemerals, invalid_acl,
  /// unimplemented (TTL nodes switched off), in_doubt.
  Created create(const Path& path, DataView data = "", const CreateOptions& options = {},
                 const CallOptions& call = {}) const;
  Created create(const Path& path, DataView data, const CreateOptions& options, const CallOptions& call,
                 std::error_code& error) const;
  void async_create(const Path& path, DataView data, const CreateOptions& options, Handler<Created> handler,
                    const CallOptions& call = {}) const;

  /// Makes sure that `path` and its parents exist; missing ones are created as containers (or `mode`).
  void ensure(const Path& path, CreateMode mode = CreateMode::container, const CallOptions& call = {}) const;

  /// Reads a node. Errors: no_node.
  NodeData get(const Path& path, const CallOptions& call = {}) const;
  NodeData get(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_get(const Path& path, Handler<NodeData> handler, const CallOptions& call = {}) const;
  /// Reads a node and watches it for a change of its data or its deletion.
  Watched<NodeData> get_and_watch(const Path& path, WatchHandler handler, const CallOptions& call = {}) const;

  /// Writes a node's data if its version matches. Errors: no_node, bad_version, in_doubt.
  Stat set(const Path& path, DataView data, std::int32_t version = any_version, const CallOptions& call = {}) const;
  Stat set(const Path& path, DataView data, std::int32_t version, const CallOptions& call,
           std::error_code& error) const;
  void async_set(const Path& path, DataView data, std::int32_t version, Handler<Stat> handler,
                 const CallOptions& call = {}) const;

  /// The node's Stat, or nullopt when there is no such node.
  std::optional<Stat> exists(const Path& path, const CallOptions& call = {}) const;
  std::optional<Stat> exists(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_exists(const Path& path, Handler<std::optional<Stat>> handler, const CallOptions& call = {}) const;
  /// The same, and watches for the node's creation, change or deletion.
  Watched<std::optional<Stat>> exists_and_watch(const Path& path, WatchHandler handler,
                                                const CallOptions& call = {}) const;

  /// Lists a node's children. Errors: no_node.
  Children children(const Path& path, const CallOptions& call = {}) const;
  Children children(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_children(const Path& path, Handler<Children> handler, const CallOptions& call = {}) const;
  /// The same, and watches for a change of the list or the node's deletion.
  Watched<Children> children_and_watch(const Path& path, WatchHandler handler, const CallOptions& call = {}) const;

  /// Deletes a node if its version matches. Errors: no_node, bad_version, not_empty, in_doubt.
  void remove(const Path& path, std::int32_t version = any_version, const CallOptions& call = {}) const;
  void remove(const Path& path, std::int32_t version, const CallOptions& call, std::error_code& error) const;
  void async_remove(const Path& path, std::int32_t version, Handler<void> handler, const CallOptions& call = {}) const;
  /// Guaranteed delete: returns at once and tries in the background until the node is gone. With a session, only
  /// while that session lives (its ephemeral nodes go with it).
  void remove_in_background(const Path& path, std::optional<Session> session = {}) const;

  /// Runs a transaction. Errors: transaction_failed (rolled back; names the operation and why), session_lost (a
  /// guard's session is over), in_doubt.
  std::vector<OperationResult> commit(const Transaction& transaction, const CallOptions& call = {}) const;
  std::vector<OperationResult> commit(const Transaction& transaction, const CallOptions& call,
                                      std::error_code& error) const;
  void async_commit(const Transaction& transaction, Handler<std::vector<OperationResult>> handler,
                    const CallOptions& call = {}) const;

  /// Brings the connected server up to date with the leader, so that later reads see all that was written before.
  void sync(const Path& path = {}, const CallOptions& call = {}) const;

  /// Replaces the list of servers (as in the constructor) while the client is in use, and returns when it is connected
  /// to one of the new ones. The session goes on: same id, ephemeral nodes, leases and watches; what happened to a
  /// watched node meanwhile is told once. Requests that wait for a reply get a moment to be answered; those that are not
  /// end as after any lost connection (reads are repeated, writes in doubt), and listeners see `suspended`, then
  /// `connected`. The same servers again change nothing. Names that cannot be resolved yet are tried again, while the
  /// old servers stay in use. Errors: invalid_argument for a malformed list, before anything is changed;
  /// deadline_exceeded and cancelled: the new list stays in force all the same.
  void update_servers(std::string_view hosts, const CallOptions& call = {}) const;
  void async_update_servers(std::string_view hosts, Handler<void> handler, const CallOptions& call = {}) const;

  const std::shared_ptr<detail::ClientCore>& impl() const noexcept;  ///< For recipes.

 private:
  struct Handle;
  std::shared_ptr<Handle> handle_;
};

}  // namespace zkclient
