#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>
#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

struct NamingOptions {
  /// For every node that the recipe creates. A client that rebinds or unbinds a name must also be allowed to create and
  /// remove nodes below it.
  zkclient::AclList acl = zkclient::open_acl();
  std::string id = {};  ///< Shown to operators beside a bound name; default: host and pid only.
};

/// A name that is bound, as it was when it was read.
struct Binding {
  std::string name;          ///< Of its node.
  std::string data;          ///< What it is bound to.
  std::int32_t version = 0;  ///< For rebind() and unbind(). It counts the changes of this binding, and begins at 0.
  FencingToken token;        ///< Of this binding: grows from binding to binding of one name.
  bool permanent = false;    ///< No lease: it stays until unbind().
};

/// Names for things, such as the address of a service, in one directory. A name has one binding at a time: that of a
/// holder, which ends with its lease, or a permanent one. Any client resolves a name by reading a node.
/// Source: "Name Service" in ZooKeeper's recipes; the exclusive binding is UnfairMutex with a name.
///
///   directory (container)
///    |-- <name>                ephemeral (bind, make_unique) or persistent (bind_permanent); data: the caller's
///    |-- _c_<uuid>-<name>      ephemeral, made and deleted together with a holder's <name>: this holding's alone;
///    |                         data: the holder, its host, since when
///    '-- _c_writes (container) ephemeral nodes that make writes of permanent bindings happen once: exactly_once.md
///
/// Invariant: a name is bound as long as its node exists; the holder is the one whose session created it.
///
/// Guaranteed: at any time at most one lease of a name is valid(), as told by its own clock, and none is while the name
/// is bound permanently, unless nodes are deleted by hand. rebind() and unbind() never touch a holder's binding. No
/// write is applied twice, or reported as failed although it was applied. No text in a name's data means anything to
/// the recipe: it is no request to give the lease back (see revoke.hpp).
/// Not guaranteed: any order among those who wait for a name; that a holder that was paused stops in time (use
/// Lease::token() or guard()); that resolve() and list() know of a write that another client has just made. A version
/// tells one change from another, but not a permanent binding from one that came after unbind().
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// bind: request or reply lost              nothing: the node is found by its id, or created again
/// bind_permanent: request or reply lost    nothing: it is bound once, and no false node_exists
/// rebind: request or reply lost            nothing: it is written once, and no false bad_version
/// unbind: request or reply lost            nothing: it is unbound once, and no false no_node
/// session lost during such a write         in_doubt if an attempt was sent and not answered; else nothing: it goes on
///                                          with the next session
/// deadline, stop request during one        in_doubt likewise, and when bind_permanent has bound the name and looks once
///                                          more; else deadline_exceeded, cancelled, and nothing was done
/// directory missing or removed             nothing: created again; rebind, unbind: no_node; resolve, list: empty
/// name held by another                     bind waits, the timed forms for that long; bind_permanent: node_exists;
///                                          rebind, unbind: foreign_node
/// name bound permanently                   bind waits until it is unbound; bind_permanent: node_exists
/// connection breaks while waiting          nothing
/// session lost while waiting               bind throws session_lost
/// deadline, stop request while waiting     deadline_exceeded (or an empty result), cancelled; nothing stays behind
/// session lost while bound                 Lease::lost() fires, state() is lost; permanent bindings stay
/// quota of the servers full                bind, bind_permanent, rebind, unbind: quota_exceeded, and nothing was changed;
///                                          releases work. See docs/quotas.md
/// node deleted by hand while bound         Lease::lost() fires as soon as that is seen, state() is lost
/// release after the node was deleted       the binding that came after it stays
/// connection breaks while bound            state() is uncertain, then held again, or lost at valid_until(), before
///                                          another client can bind
/// release: request or reply lost           nothing: the deletion is repeated until the nodes are gone
/// data written by another client           the lease stays; resolve() shows what was written
/// client closed                            calls end with closed; leases are lost; permanent bindings stay
/// foreign node in the directory            list() names it, resolve() shows it, bind() waits for it; rebind() and
///                                          unbind() take it for a permanent binding
///
/// A name is one component of a path, and does not begin with `_c_`. Bad names are refused at the call, in all forms:
/// invalid_argument. A directory belongs to Naming alone.
///
/// A holder changes the data of its name in a transaction, which fails if the lease is over:
///
///   client.commit(lease.transaction().set(naming.path() / "printer", "10.0.0.8:631"));
///
/// Thread safety: all members. The object keeps its client open; a Lease does not. A moved-from object may only be
/// destroyed or assigned to.
class ZKRECIPES_API Naming {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()).
  Naming(zkclient::Client client, zkclient::Path directory, NamingOptions options = {});
  ~Naming();
  Naming(Naming&&) noexcept;
  Naming& operator=(Naming&&) noexcept;

  /// Binds `name` to `data` until the lease ends. Waits while the name is bound, for ever unless `call` has a deadline
  /// or a stop token. Errors: see the table, invalid_argument (the name), and those common to all operations of Client.
  Lease bind(std::string_view name, std::string_view data, const zkclient::CallOptions& call = {});
  void async_bind(std::string_view name, std::string_view data, zkclient::Handler<Lease> handler,
                  const zkclient::CallOptions& call = {});
  /// Binds it if it is free now; nullopt when it is not. That takes a few round trips, and waits for a connection like
  /// any operation. Errors: as bind().
  [[nodiscard]] std::optional<Lease> try_bind(std::string_view name, std::string_view data,
                                              const zkclient::CallOptions& call = {});
  void async_try_bind(std::string_view name, std::string_view data, zkclient::Handler<std::optional<Lease>> handler,
                      const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`, or until `deadline`; nullopt when that passed. A time that is over already means one
  /// try. Errors: as bind(), without deadline_exceeded.
  [[nodiscard]] std::optional<Lease> try_bind_for(std::string_view name, std::string_view data, Timeout timeout,
                                                  WaitOptions options = {});
  [[nodiscard]] std::optional<Lease> try_bind_until(std::string_view name, std::string_view data,
                                                    std::chrono::steady_clock::time_point deadline,
                                                    WaitOptions options = {});
  /// Binds a name that no other client has or can have: `prefix` and a UUID. name_of() tells it. Errors: as bind().
  Lease make_unique(std::string_view prefix, std::string_view data, const zkclient::CallOptions& call = {});
  void async_make_unique(std::string_view prefix, std::string_view data, zkclient::Handler<Lease> handler,
                         const zkclient::CallOptions& call = {});
  /// The name that a lease of bind() or make_unique() stands for; "" for an empty one. No I/O.
  static std::string name_of(const Lease& lease);

  /// Binds `name` to `data` until unbind(). Blocks for three round trips (the first such write of a session: up to six).
  /// Errors: node_exists (it is bound), in_doubt (see the table; also if it was bound, and was gone again before this
  /// returned), invalid_argument (the name), and those common to all operations of Client.
  void bind_permanent(std::string_view name, std::string_view data, const zkclient::CallOptions& call = {});
  void async_bind_permanent(std::string_view name, std::string_view data, zkclient::Handler<void> handler,
                            const zkclient::CallOptions& call = {});
  /// Changes the data of a permanent binding that still has `expected_version`; returns the new version. With
  /// any_version it overwrites any change. Blocks for one round trip (any_version: two). Errors: bad_version (it
  /// was changed), no_node (it is not bound), foreign_node (a holder has it), invalid_argument (the name), and those
  /// common to all operations of Client.
  std::int32_t rebind(std::string_view name, std::string_view data, std::int32_t expected_version,
                      const zkclient::CallOptions& call = {});
  void async_rebind(std::string_view name, std::string_view data, std::int32_t expected_version,
                    zkclient::Handler<std::int32_t> handler, const zkclient::CallOptions& call = {});
  /// Ends a permanent binding that still has `expected_version`, or any version. Blocks for one round trip. Errors: as
  /// rebind(), and not_empty (there are nodes below it, so it is no name).
  void unbind(std::string_view name, std::int32_t expected_version, const zkclient::CallOptions& call = {});
  void async_unbind(std::string_view name, std::int32_t expected_version, zkclient::Handler<void> handler,
                    const zkclient::CallOptions& call = {});

  /// nullopt: it is not bound. One round trip to the connected server. Errors: invalid_argument (the name), and those
  /// common to all operations of Client.
  std::optional<Binding> resolve(std::string_view name, const zkclient::CallOptions& call = {}) const;
  void async_resolve(std::string_view name, zkclient::Handler<std::optional<Binding>> handler,
                     const zkclient::CallOptions& call = {}) const;
  /// All names that are bound, sorted. One round trip to the connected server. Errors: those common to all operations
  /// of Client.
  std::vector<std::string> list(const zkclient::CallOptions& call = {}) const;
  void async_list(zkclient::Handler<std::vector<std::string>> handler, const zkclient::CallOptions& call = {}) const;

  /// The directory.
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
