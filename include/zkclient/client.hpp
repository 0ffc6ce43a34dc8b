#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

#include <zkclient/export.hpp>
#include <zkclient/metrics.hpp>
#include <zkclient/observer.hpp>
#include <zkclient/path.hpp>
#include <zkclient/reconfig.hpp>
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

/// An encrypted connection. Files in PEM format; they are checked when the client is made, and read again by the C
/// client at each connection. It needs all three, also where the server does not ask for a certificate. Who else may
/// vouch for the server, and what is not checked: docs/connection.md. Nothing here may contain a comma.
struct TlsOptions {
  std::string ca_file;              ///< Whom the server's certificate must be signed by.
  std::string certificate_file;     ///< The client's own, with its chain.
  std::string key_file;             ///< That certificate's private key.
  std::string key_passphrase = {};  ///< Of an encrypted key. No error text or log line ever holds it.
};

/// A login by Cyrus SASL, at the beginning of each connection. One that is refused ends the calls that wait with
/// Errc::auth_failed; the client tries again with a new session a second later.
struct SaslOptions {
  std::string mechanisms;             ///< The best of these, separated by spaces: "DIGEST-MD5", "GSSAPI".
  std::string user = {};              ///< Not for GSSAPI, which takes it from the Kerberos ticket.
  std::string password = {};          ///< No error text or log line ever holds it.
  std::string realm = {};             ///< Empty: the server's.
  std::string service = "zookeeper";  ///< The first part of the servers' names in Kerberos.
  /// The server's name: for DIGEST-MD5 the default, for GSSAPI the host name in its Kerberos principal.
  std::string host = "zk-sasl-md5";
};

/// How a client connects, and what its calls do by default.
struct ClientOptions {
  /// Asked for; the server grants what its limits allow (see Session::timeout). At least 100 ms. After it the ephemeral
  /// nodes of a process that died go. With 30 s leases outlive the failover of an ensemble with stock settings, whose
  /// leader's host went silent: that takes 10.4 s, and so 27 s or more (docs/connection.md weighs it).
  std::chrono::milliseconds session_timeout{30'000};
  /// The servers' `tickTime`, if it is known. How long a lease can be trusted depends on it (docs/connection.md), and
  /// no server tells. Without it the longest one that fits is assumed: half the granted timeout, but at least 2 s.
  /// Positive, and at most a day.
  std::optional<std::chrono::milliseconds> server_tick = {};
  /// Deadline of calls that name none of their own. Positive.
  std::chrono::milliseconds operation_timeout{15'000};
  RetryPolicy retry = {};  ///< How reads are repeated.
  /// All paths of this client lie below this one (the "chroot"); it is not created by itself.
  Path prefix = {};
  /// Resume this session instead of opening a new one. If the server no longer has it, it is reported as lost.
  std::optional<SessionCredentials> resume = {};
  /// Encrypt the connection. Errc::unsupported unless features().tls, and together with `sasl`.
  std::optional<TlsOptions> tls = {};
  /// Authenticate by SASL. Errc::unsupported unless features().sasl, and together with `tls`.
  std::optional<SaslOptions> sasl = {};
  /// Counts what the client does and meets. May be shared by clients. None: nothing is counted.
  std::shared_ptr<Metrics> metrics = {};
  /// Is told of calls, leases and heartbeats. It must not own the client, which would never be closed.
  std::shared_ptr<Observer> observer = {};
};

/// One entry of the sequence of states.
struct StateChange {
  ConnectionState state;  ///< The new state.
  Session session;        ///< The one that it is about.
  /// Why, as far as that is known. Of `connecting` and `suspended`: the last trouble with each server, as
  /// Client::trouble() has it; of `lost`: what ended the session.
  std::string reason = {};
};
/// Told of each state; see Client::on_state_change().
using StateListener = UniqueFunction<void(const StateChange&)>;

/// A connection to a ZooKeeper ensemble.
///
/// Every operation has a blocking form, which throws Error, and an asynchronous form whose handler is called exactly
/// once (an empty one is Errc::invalid_argument); most have a third one, which reports through `std::error_code&`.
/// Reads are repeated after a lost connection (RetryPolicy); a write whose reply was lost ends with
/// `ErrorKind::in_doubt` and is never sent twice. Operations wait for a connection until their deadline, so a Client
/// can be made before its server is up.
///
/// Back-pressure: 2,048 requests are on their way to the server at a time, the others wait in the client. Calls that
/// are not done yet, and replies whose handlers have not returned, are limited to 200,000 and to 256 MiB of data; one
/// call more ends with `Errc::overloaded` at once, and nothing was sent. The paths of all watches together are limited
/// to 900 kB (they are renewed in one packet).
///
/// Thread safety: all members, from any thread, also from handlers; close() from a handler waits for no handler.
/// Cheap to copy: copies share the client, which is closed when the last one goes. A Client that was moved from may
/// only be destroyed or assigned to, and so may a recipe.
/// Errors common to all operations, besides what each names: deadline_exceeded, cancelled, closed,
/// session_lost (for calls bound to a session), no_auth, too_large, overloaded.
class ZKRECIPES_API Client {
 public:
  /// `hosts` is "host:port[,host:port...]"; the port may be left out (2181). Names are resolved in the
  /// background. Returns at once. Errors: Errc::invalid_argument for a malformed list or option.
  explicit Client(std::string_view hosts, ClientOptions options = {});
  /// The same, sharing `runtime`, which must outlive nothing: closing it closes this client.
  Client(Runtime& runtime, std::string_view hosts, ClientOptions options = {});

  /// Ends every pending call with Errc::closed (or in_doubt), closes the session at the server, so that its
  /// ephemeral nodes vanish now, and returns within about a second after the server's last word. Idempotent.
  /// After it returned, none of this client's handlers runs; after it returned to a handler, others may still run.
  void close();

  /// The current session; it may still be connecting, or lost and about to be replaced.
  Session session() const;
  /// Waits until a session is connected and returns it.
  Session connect(const CallOptions& call = {}) const;
  void async_connect(Handler<Session> handler, const CallOptions& call = {}) const;

  /// Calls `listener` with the current state and then with every change, in order, none left out.
  Subscription on_state_change(StateListener listener) const;

  /// ClientOptions::prefix.
  const Path& prefix() const noexcept;
  /// The server that the session is connected to now, as "ip:port" ("[ip]:port" for IPv6); nullopt while it is not.
  /// Does not block.
  std::optional<std::string> server() const;
  /// Why there is no connection: what each server did last ("zk1:2181 refused the connection; zk2:2181 has a name that
  /// is not known"). "" while there is one, and before an attempt has failed. Errors for want of a connection carry the
  /// same text. Does not block.
  [[nodiscard]] std::string trouble() const;

  /// Proves an identity to the server ("digest" with "user:password", for instance), now and at the beginning of each
  /// session to come, before anything else is sent there. Identities cannot be taken back. Returns when the server has
  /// accepted it. Errors: auth_failed (refused: unknown scheme, bad credentials; it is not tried again, and the C
  /// client has ended the session with it), invalid_argument. No error text or log line ever holds `credentials`. If a
  /// server refuses later what was accepted before, the identities are dropped, and calls that need them end with
  /// no_auth.
  void add_auth(std::string_view scheme, std::string_view credentials, const CallOptions& call = {}) const;
  void add_auth(std::string_view scheme, std::string_view credentials, const CallOptions& call,
                std::error_code& error) const;
  void async_add_auth(std::string_view scheme, std::string_view credentials, Handler<void> handler,
                      const CallOptions& call = {}) const;

  /// Creates a node. Errors: node_exists, no_node (parent missing), no_children_for_ephemerals, invalid_acl,
  /// unimplemented (TTL nodes switched off), in_doubt.
  Created create(const Path& path, DataView data = "", const CreateOptions& options = {},
                 const CallOptions& call = {}) const;
  Created create(const Path& path, DataView data, const CreateOptions& options, const CallOptions& call,
                 std::error_code& error) const;
  void async_create(const Path& path, DataView data, const CreateOptions& options, Handler<Created> handler,
                    const CallOptions& call = {}) const;

  /// Makes sure that `path` and its parents exist; missing ones are created as containers (or persistent nodes, the
  /// only other choice for `mode`). A lost reply is resolved by trying again. After an error some of them may have been
  /// made.
  void ensure(const Path& path, CreateMode mode = CreateMode::container, const CallOptions& call = {}) const;
  void ensure(const Path& path, CreateMode mode, const CallOptions& call, std::error_code& error) const;
  void async_ensure(const Path& path, CreateMode mode, Handler<void> handler, const CallOptions& call = {}) const;

  /// Reads a node. Errors: no_node.
  NodeData get(const Path& path, const CallOptions& call = {}) const;
  NodeData get(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_get(const Path& path, Handler<NodeData> handler, const CallOptions& call = {}) const;
  /// Reads a node and watches it for a change of its data or its deletion.
  [[nodiscard]] Watched<NodeData> get_and_watch(const Path& path, WatchHandler handler,
                                                const CallOptions& call = {}) const;
  /// The asynchronous forms of the reads that watch: `on_event` is not called before `handler` has returned.
  void async_get_and_watch(const Path& path, WatchHandler on_event, Handler<Watched<NodeData>> handler,
                           const CallOptions& call = {}) const;

  /// Writes a node's data if its version matches. Errors: no_node, bad_version, in_doubt.
  Stat set(const Path& path, DataView data, std::int32_t version = any_version, const CallOptions& call = {}) const;
  Stat set(const Path& path, DataView data, std::int32_t version, const CallOptions& call,
           std::error_code& error) const;
  void async_set(const Path& path, DataView data, std::int32_t version, Handler<Stat> handler,
                 const CallOptions& call = {}) const;

  /// A set whose lost reply is resolved by looking at the node, instead of being in doubt. `expected` is the Stat that
  /// was read with the data to be replaced. `data` must be unique to this call (carry a random id, say): that is how
  /// the write is recognised, the server itself does not record the writer. Success and bad_version are always true;
  /// what cannot be told (the node was written again or replaced meanwhile, the deadline passed) stays in_doubt.
  /// Errors: as `set`; invalid_argument for empty data or a Stat that was never read.
  Stat set_resolving(const Path& path, std::string_view data, const Stat& expected, const CallOptions& call = {}) const;
  Stat set_resolving(const Path& path, std::string_view data, const Stat& expected, const CallOptions& call,
                     std::error_code& error) const;
  void async_set_resolving(const Path& path, std::string_view data, const Stat& expected, Handler<Stat> handler,
                           const CallOptions& call = {}) const;

  /// The node's Stat, or nullopt when there is no such node.
  std::optional<Stat> exists(const Path& path, const CallOptions& call = {}) const;
  std::optional<Stat> exists(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_exists(const Path& path, Handler<std::optional<Stat>> handler, const CallOptions& call = {}) const;
  /// The same, and watches for the node's creation, change or deletion.
  [[nodiscard]] Watched<std::optional<Stat>> exists_and_watch(const Path& path, WatchHandler handler,
                                                              const CallOptions& call = {}) const;
  void async_exists_and_watch(const Path& path, WatchHandler on_event, Handler<Watched<std::optional<Stat>>> handler,
                              const CallOptions& call = {}) const;

  /// Lists a node's children. Errors: no_node.
  Children children(const Path& path, const CallOptions& call = {}) const;
  Children children(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_children(const Path& path, Handler<Children> handler, const CallOptions& call = {}) const;
  /// The same, and watches for a change of the list or the node's deletion.
  [[nodiscard]] Watched<Children> children_and_watch(const Path& path, WatchHandler handler,
                                                     const CallOptions& call = {}) const;
  void async_children_and_watch(const Path& path, WatchHandler on_event, Handler<Watched<Children>> handler,
                                const CallOptions& call = {}) const;

  /// Deletes a node if its version matches. Errors: no_node, bad_version, not_empty, in_doubt.
  void remove(const Path& path, std::int32_t version = any_version, const CallOptions& call = {}) const;
  void remove(const Path& path, std::int32_t version, const CallOptions& call, std::error_code& error) const;
  void async_remove(const Path& path, std::int32_t version, Handler<void> handler, const CallOptions& call = {}) const;
  /// Guaranteed delete: returns at once and tries in the background until the node is gone that is there at the first
  /// look (one that another client makes in its place later stays, unless it came while the delete was on its way).
  /// With a session, only while that session lives (its ephemeral nodes go with it). Throws invalid_argument for a
  /// session of another Client.
  void remove_in_background(const Path& path, std::optional<Session> session = {}) const;

  /// Deletes `path` and all that is below it, from the leaves up, whichever client made it. Not atomic, but safe
  /// against others: nodes that appear meanwhile are deleted, too (until the deadline, if another client goes on
  /// creating them), nodes that vanish are none of its business, and a missing `path` is success. Lost replies are
  /// resolved by trying again. Keeps one list of children per level in memory and 128 deletes in flight.
  /// Errors: invalid_argument ("/", ZooKeeper's own /zookeeper), no_auth (names the node; what was deleted before stays
  /// deleted), in_doubt (ended by the deadline, a stop request or close() after something was deleted).
  void remove_tree(const Path& path, const CallOptions& call = {}) const;
  void remove_tree(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_remove_tree(const Path& path, Handler<void> handler, const CallOptions& call = {}) const;

  /// A node's access control list (digests are masked unless the session may administer it). Errors: no_node, no_auth.
  NodeAcl get_acl(const Path& path, const CallOptions& call = {}) const;
  NodeAcl get_acl(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_get_acl(const Path& path, Handler<NodeAcl> handler, const CallOptions& call = {}) const;
  /// Replaces it if `Stat::acl_version` matches. Errors: no_node, bad_version, invalid_acl, no_auth, in_doubt.
  void set_acl(const Path& path, const AclList& acl, std::int32_t acl_version = any_version,
               const CallOptions& call = {}) const;
  void set_acl(const Path& path, const AclList& acl, std::int32_t acl_version, const CallOptions& call,
               std::error_code& error) const;
  void async_set_acl(const Path& path, const AclList& acl, std::int32_t acl_version, Handler<void> handler,
                     const CallOptions& call = {}) const;

  /// Runs a transaction. Errors: transaction_failed (rolled back: Error::refused() says why), session_lost (a guard's
  /// session is over), in_doubt.
  std::vector<OperationResult> commit(const Transaction& transaction, const CallOptions& call = {}) const;
  std::vector<OperationResult> commit(const Transaction& transaction, const CallOptions& call,
                                      std::error_code& error) const;
  void async_commit(const Transaction& transaction, Handler<std::vector<OperationResult>> handler,
                    const CallOptions& call = {}) const;

  /// Brings the connected server up to date with the leader, so that later reads see what was written before. Not quite
  /// all of it if that server is the leader: it answers before it has applied what it has just told the others to
  /// commit, and if a majority has left it, until it finds out. A transaction that changes nothing
  /// (`commit(Transaction().check("/"))`) before the reads has no such gap; it costs a write.
  void sync(const Path& path = {}, const CallOptions& call = {}) const;
  void sync(const Path& path, const CallOptions& call, std::error_code& error) const;
  void async_sync(const Path& path, Handler<void> handler, const CallOptions& call = {}) const;

  /// The members of the ensemble (the node /zookeeper/config, outside of the prefix). Errors: no_node, no_auth.
  EnsembleConfig get_config(const CallOptions& call = {}) const;
  EnsembleConfig get_config(const CallOptions& call, std::error_code& error) const;
  void async_get_config(Handler<EnsembleConfig> handler, const CallOptions& call = {}) const;
  [[nodiscard]] Watched<EnsembleConfig> get_config_and_watch(WatchHandler handler, const CallOptions& call = {}) const;
  void async_get_config_and_watch(WatchHandler on_event, Handler<Watched<EnsembleConfig>> handler,
                                  const CallOptions& call = {}) const;
  /// Changes the ensemble and returns its new configuration. Needs a super user (add_auth) by default.
  /// Errors: reconfig_disabled, unimplemented (a standalone server), no_auth, bad_version (Reconfig::version),
  /// reconfig_in_progress, new_config_no_quorum, invalid_argument, in_doubt.
  EnsembleConfig reconfig(const Reconfig& change, const CallOptions& call = {}) const;
  EnsembleConfig reconfig(const Reconfig& change, const CallOptions& call, std::error_code& error) const;
  void async_reconfig(const Reconfig& change, Handler<EnsembleConfig> handler, const CallOptions& call = {}) const;

  /// Replaces the list of servers (as in the constructor) while the client is in use, and returns when it is connected
  /// to one of the new ones. The session goes on: same id, ephemeral nodes, leases and watches; what happened to a
  /// watched node meanwhile is told once. Requests that wait for a reply get a moment to be answered; those that are
  /// not end as after any lost connection (reads are repeated, writes in doubt), and listeners see `suspended`, then
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
