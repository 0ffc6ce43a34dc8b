#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/presence.hpp>
#include <zkrecipes/service_instance.hpp>
#include <zkrecipes/service_provider.hpp>

namespace zkrecipes {

namespace detail {
class RegisteredNode;
struct DirectorySpec;
}  // namespace detail

struct DirectoryOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// When another session has an instance's node. A registrar of a fixed or permanent instance does not wait for it:
  /// that call ends with node_exists.
  Conflict conflict = Conflict::wait;
};

/// That an instance is registered. A dynamic one stays registered for as long as the object lives: across broken
/// connections, and with the next session after one that was lost; deleted by hand, it comes back at once. A fixed one
/// does not come back if an operator deletes it. The destructor unregisters both without waiting for it, which for a
/// fixed one takes a client that is connected and stays open for that long: unregister() makes sure. A permanent
/// instance stays.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to. In a forked child state() is left, the destructor does nothing, and calls end with Errc::forked.
class ZKRECIPES_API Registration {
 public:
  /// Gets the new state.
  using StateListener = zkclient::UniqueFunction<void(PresenceState state)>;

  Registration(Registration&&) noexcept;
  Registration& operator=(Registration&&) noexcept;
  ~Registration();

  /// The instance's node, `<base>/<service>/<id>`; for a sequential one with 10 digits more.
  const zkclient::Path& node() const noexcept;
  /// As it was registered: with its id and its time. The last update that was asked for is not in it.
  const ServiceInstance& instance() const noexcept;
  /// Of a fixed or permanent instance, once it is registered: present until it is unregistered; nobody looks whether it
  /// still is there. Does not block.
  PresenceState state() const noexcept;
  /// Why state() is not present: node_exists (another session has the name), no_auth, ... nullopt: nothing is wrong.
  /// Does not block.
  std::optional<zkclient::Error> problem() const;
  /// Of a dynamic instance's node that is there, or was there last: grows each time that it is registered anew. Of
  /// others it is the node's that was registered. Does not block.
  FencingToken token() const noexcept;

  /// Calls `listener` with the present state, then with each change of it, on the callback executor, one call at a
  /// time. A slow one may miss a pair of changes that leads back to the state before. None is called after the
  /// destructor. Errors: invalid_argument (no listener), forked.
  zkclient::Subscription on_state(StateListener listener) const;
  /// Waits until it is present, for ever unless `call` has a deadline or a stop token. Errors: deadline_exceeded,
  /// cancelled, closed (also: unregistered), and what the server refuses for good (no_auth, ...): it is tried again
  /// every 30 s all the same.
  void wait_present(const zkclient::CallOptions& call = {}) const;
  void async_wait_present(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {}) const;

  /// Writes the instance anew, and waits until that is in force. The node stays, so readers see `changed`. `instance`
  /// must have the same name, id (or none) and type; without a time it keeps the present one. Of a dynamic instance,
  /// and of one whose begin_register_instance() goes on, it stays wanted when the call fails; unless it is too large: then
  /// the last one in force is wanted again (of a dynamic instance). By default not for longer than the client's
  /// operation_timeout. Errors: invalid_argument (another name, id or type; what cannot be written), foreign_node
  /// (another registrar has put its own node in the place of a fixed or permanent one), closed (unregistered),
  /// deadline_exceeded, cancelled, in_doubt (a fixed or permanent one: the call was given up), too_large (also if another
  /// update that was waiting was the one too large), and what the server refuses (no_auth, ...).
  void update(ServiceInstance instance, const zkclient::CallOptions& call = {});
  void async_update(ServiceInstance instance, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// Takes the instance away, whatever its type, and waits until it is gone, whatever became of connections and
  /// sessions meanwhile. The node of another registrar stays (but for the gap that ServiceDirectory names). Idempotent.
  /// When the call fails, it goes on in the background. Errors: deadline_exceeded, cancelled, closed (the client:
  /// a fixed or permanent instance stays registered, a dynamic one goes with the session); of a fixed or permanent
  /// instance also no_auth (it stays registered; call it again).
  void unregister(const zkclient::CallOptions& call = {});
  void async_unregister(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  Registration(std::shared_ptr<const detail::DirectorySpec> spec, ServiceInstance instance, zkclient::Path path,
               std::shared_ptr<detail::RegisteredNode> node) noexcept;

 private:
  std::string updated(ServiceInstance& instance) const;
  friend class ServiceDirectory;

  std::shared_ptr<const detail::DirectorySpec> spec_;
  ServiceInstance instance_;
  zkclient::Path path_;  // The node's.
  std::shared_ptr<detail::RegisteredNode> node_;
};

/// Services, their instances and how to reach them, on the wire as Apache Curator's x-discovery has them.
/// Not possible: one id for registrars of ours and of Curator's, which deletes the node of the other one.
///
///   base                         container; its children are the services
///    '-- <service>               container
///         '-- <id>               ephemeral (dynamic) or persistent (fixed, permanent); JSON: see ServiceInstance
///   base-presence                container
///    '-- <uuid>                  ephemeral, empty; made and deleted with a dynamic instance: tells its own node from
///                                others
///
/// Invariant: a dynamic instance that is listed has a registrar whose session has not ended. A registrar deletes no
/// node but its own and those that it was told to replace: the dynamic one of another session only with
/// Conflict::replace, the persistent one of a registrar before it (which may have crashed) always. One gap: the former
/// registrar of a fixed or permanent instance that unregisters after its node was replaced and before the event of that
/// has arrived deletes the new node, if neither was ever updated.
///
/// What goes wrong                              What the caller sees
/// -------------------------------------------  ------------------------------------------------------------------
/// register: request or reply lost              nothing: it is looked for, or created again
/// registration begins without a server         joining; registered when there is one, as it was updated last
/// parents missing or removed                   nothing: created (again)
/// connection breaks while registered           nothing: the node is not touched; there is no second one
/// session lost while registered                absent; every dynamic one is back with the next session, as it was
///                                                updated last, in one transaction if the former node is still there
/// dynamic instance deleted by hand             registered again at once
/// another session has the node                 problem() is node_exists; Conflict: it waits, or that node goes
/// update: reply lost                           nothing: written once; there is no moment without the node
/// unregister: reply lost, no connection        nothing: it is gone when the call returns, and does not come back
/// registrar's process dies                     dynamic: listed until its session ends; others: listed
/// node empty or malformed, or unreadable       skipped, and reported with its path and what is wrong
/// instance disabled                            listed, never picked
/// last instance leaves                         an empty list; pick() still offers it for 30 s, not confirmed
/// all sessions end at once                     the same: an empty list; pick() offers those that vanished
/// all instances have errors                    pick() offers the one with the fewest
/// connection of the picker breaks              state() is stale; the list stays, and pick() goes on
/// client closed                                dynamic ones are gone, others stay; calls end with Errc::closed
///
/// What is registered, updated and unregistered is known to the providers of the same directory object when the call
/// returns: it takes a round trip more if there is one of that service. (Unless its deadline passes in that instant: it
/// succeeds all the same, and they follow.)
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to.
class ZKRECIPES_API ServiceDirectory {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (the base is the root).
  ServiceDirectory(zkclient::Client client, zkclient::Path base, DirectoryOptions options = {});
  ~ServiceDirectory();
  ServiceDirectory(ServiceDirectory&&) noexcept;
  ServiceDirectory& operator=(ServiceDirectory&&) noexcept;

  /// Registers `instance`, and waits for it: a dynamic one for ever unless `call` has a deadline or a stop token,
  /// others by default not for longer than the client's operation_timeout. When it fails, nothing stays behind. Errors:
  /// invalid_path (name or id make no name of a node), invalid_argument (what cannot be written: the payload is no
  /// JSON, a text is not UTF-8), node_exists (a dynamic instance has the node of a fixed or permanent one),
  /// deadline_exceeded, cancelled, closed, in_doubt (a fixed or permanent one: the call was given up), too_large, and
  /// what the server refuses for good (no_auth, ...).
  [[nodiscard]] Registration register_instance(ServiceInstance instance, const zkclient::CallOptions& call = {});
  void async_register_instance(ServiceInstance instance, zkclient::Handler<Registration> handler,
                               const zkclient::CallOptions& call = {});
  /// The same without waiting, for a service that starts before its ensemble does: Registration::state(), on_state() and
  /// wait_present() tell what becomes of it. It goes on for as long as the Registration lives, for each type of
  /// instance; what the server refuses (no_auth, ...), and a fixed or permanent instance whose node a dynamic one has
  /// (node_exists), is in problem(), and is tried again every 30 s. A permanent one whose Registration goes before it
  /// is present does not stay. Errors: invalid_path, invalid_argument, too_large (as above), closed, forked.
  [[nodiscard]] Registration begin_register_instance(ServiceInstance instance);

  /// The names of the services, ordered; also of those that have no instance now, as long as their nodes are there.
  /// One round trip.
  std::vector<std::string> services(const zkclient::CallOptions& call = {}) const;
  void async_services(zkclient::Handler<std::vector<std::string>> handler,
                      const zkclient::CallOptions& call = {}) const;
  /// The instances of a service; none if there is no such service. Two round trips for up to 128 nodes. For more than a
  /// look now and then a provider is better. Errors: invalid_path (the name makes no name of a node), and those of reads.
  ServiceListing instances(std::string_view service, const zkclient::CallOptions& call = {}) const;
  void async_instances(std::string_view service, zkclient::Handler<ServiceListing> handler,
                       const zkclient::CallOptions& call = {}) const;

  /// Begins to watch a service, which need not exist yet; returns at once. Errors: invalid_path (as above),
  /// invalid_argument (an option is negative, or HealthOptions::errors below 1), closed.
  [[nodiscard]] ServiceProvider provider(std::string_view service, ProviderOptions options = {}) const;

  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<const detail::DirectorySpec> spec_;
};

}  // namespace zkrecipes
