#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/group.hpp>
#include <zkrecipes/lease.hpp>

/// Primaries that are chosen by what members can do, and not by who came first: nodes that report their status, and a
/// monitor that says who shall have which role. See Partitioner for roles that need no judgement.
namespace zkrecipes {

namespace detail {
class PrimaryNodeCore;
class PrimaryMonitorCore;
}  // namespace detail

/// A role that this process has: its lease, and its name. Act while valid(); when revoke_requested() fires, finish, and
/// give it back; when lost() fires, it is over. See Lease for all of that.
class ZKRECIPES_API [[nodiscard]] Primary : public Lease {
 public:
  Primary() noexcept = default;
  Primary(std::string role, Lease lease) noexcept : Lease(std::move(lease)), role_(std::move(role)) {}

  /// "" of an empty one. Stays when it was given back.
  const std::string& role() const noexcept { return role_; }

 private:
  std::string role_;
};

struct PrimaryNodeOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};      ///< This member's name, a name that a node can have; default "host:pid".
  std::string status = {};  ///< What the monitor's choose() is shown as Member::payload; see update_status().
  std::string data = {};    ///< For routers: see PartitionOwner::data. A PartitionMap of the path tells the primaries.
  /// Within this time a primary gives back what was asked for; then it is lost.
  std::chrono::milliseconds grace{10'000};
};

/// A member that can be primary of roles.
///
///   path
///    |-- members               a Group with leases (see group.hpp): ephemeral <id>, data: the status
///    |-- monitor               a LeaderElection of the monitors
///    |-- roles                 persistent
///    |    '-- <role>           persistent, data: the id of the member that shall have the role, or nothing; written by
///    |                         the monitor that leads, in a transaction with its guard, and by move()
///    '-- owners
///         '-- <role>/owner     ephemeral: its creator is the primary; made in one transaction with checks of the own
///                              member node and of the version of roles/<role>
///
/// Invariant: owners/<role>/owner exists at most once, and the lease of it ends before the next one is made. So there are
/// never two primaries by their own clocks, whatever monitors decide: a switch waits for the release, or for the end of
/// the lease. After an outage that cost the session, a member waits for the end of its own former session, which its
/// client closes as soon as it is connected again.
///
/// What goes wrong                               What happens
/// --------------------------------------------  -----------------------------------------------------------------
/// primary dies, is cut off, loses its session   lost() first; when its session has ended, the monitor gives the role
///                                                 to another member
/// primary's connection breaks, session goes on  nothing; its heartbeats to anybody else do not matter
/// another member is named                       the primary is asked to give back; after `grace` it is lost(); then the
///                                                 next one has it
/// no monitor                                    all stay what they are
/// monitor dies, is cut off                      the next one goes on
/// a deposed monitor writes                      its guard is refused
/// monitor's server lags behind                  it reads behind a sync; its decision is refused if it is late
/// a role is named twice at once                 one transaction wins, the other one decides anew
/// a role has nobody who could have it           it has no primary, until a member comes
/// named member is not there                     the role stays free, until the monitor names another one
/// two members with one id                       the second one waits, problem() is node_exists
/// a member's or role's node cannot be read      all stay what they are, and a role whose primary dies meanwhile stays
///                                                 free; problem() of the monitor says so
/// client closed                                 all is lost(); finished
///
/// Thread safety: all members, also from on_primary. The object keeps its client open. In a forked child nothing is held,
/// and calls end with Errc::forked.
class ZKRECIPES_API PrimaryNode {
 public:
  /// Gets each role that this member has taken, on the callback executor, one call at a time. What is not kept is given
  /// back.
  using OnPrimary = zkclient::UniqueFunction<void(Primary primary)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_path (the id makes no name of a node), invalid_argument (no
  /// function, a negative time).
  PrimaryNode(zkclient::Client client, zkclient::Path path, OnPrimary on_primary, PrimaryNodeOptions options = {});
  /// As stop(), but does not wait for the server. When it returns, on_primary has returned, unless that calls it.
  ~PrimaryNode();
  PrimaryNode(const PrimaryNode&) = delete;
  PrimaryNode& operator=(const PrimaryNode&) = delete;

  /// Becomes a member. Returns at once, whether a server is there or not. Again: nothing. Errors: closed (also after
  /// leave() or stop()), forked.
  void start();
  /// Shows the monitor another status, and waits until it is in force. After start(). Errors: as Membership::update();
  /// not_held (it was not started, or has left).
  void update_status(std::string status, const zkclient::CallOptions& call = {});
  void async_update_status(std::string status, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  /// As Partitioner::leave() and stop().
  void leave(const zkclient::CallOptions& call = {});
  void async_leave(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  void stop(const zkclient::CallOptions& call = {});
  void async_stop(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// The roles whose leases are valid now, ordered. Does not block.
  std::vector<std::string> held() const;
  /// Why this is no member, or cannot read or take what it shall have. nullopt: nothing is wrong. Does not block.
  std::optional<zkclient::Error> problem() const;

  const std::string& id() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<detail::PrimaryNodeCore> core_;
};

/// A role, for a decision.
struct RoleState {
  std::string role;        ///< Its name.
  std::string named = {};  ///< Who shall have it so far; "": nobody.
};

/// Who shall have a role: the id of one of the members, or "" for nobody. A pure function: called again and again, by
/// each monitor that leads, on a thread of the library's. `members` are ordered by id.
using ChoosePrimary = std::function<std::string(const RoleState& state, const std::vector<Member>& members)>;

/// Keeps who is named as long as it is a member. Else shares the roles out by their names, as assign() does without
/// limit.
ZKRECIPES_API std::string keep_primary(const RoleState& state, const std::vector<Member>& members);

struct PrimaryMonitorOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< This monitor's name; default "host:pid".
  ChoosePrimary choose = keep_primary;           ///< Called at each change of the members or of their status.
};

/// Says who shall have which role. Several processes may have one; the one that leads decides, whenever members or their
/// status change, and at least every 30 s. It is a member of nothing, and need not run where members do. See PrimaryNode
/// for the nodes, and for what goes wrong.
///
/// Cost: a thread, and a view of the members and of the roles.
///
/// Thread safety: all members, also from `choose`, which must not close the monitor.
class ZKRECIPES_API PrimaryMonitor {
 public:
  /// No I/O. `roles`: names that nodes can have. Errors: invalid_acl, invalid_argument (no choose, a role that no node can
  /// be named after, or twice).
  PrimaryMonitor(zkclient::Client client, zkclient::Path path, std::vector<std::string> roles,
                 PrimaryMonitorOptions options = {});
  /// As LeaderSelector's: waits until the thread has ended.
  ~PrimaryMonitor();
  PrimaryMonitor(const PrimaryMonitor&) = delete;
  PrimaryMonitor& operator=(const PrimaryMonitor&) = delete;

  /// Stands for election. Returns at once. Again: nothing. Errors: closed, forked.
  void start();
  /// Whether this monitor decides, right now.
  bool leads() const noexcept;
  /// Names a member for a role: a planned hand-over. It need not lead, nor be started. What choose() says of it stands
  /// afterwards, as the one who is named now; keep_primary() keeps it, unless the monitor that leads does not see the member
  /// yet, and names another one. Errors: those of Client::set(); no_node (no monitor
  /// has known this role yet), in_doubt.
  void move(const std::string& role, const std::string& member, const zkclient::CallOptions& call = {});
  void async_move(const std::string& role, const std::string& member, zkclient::Handler<void> handler,
                  const zkclient::CallOptions& call = {});
  /// Why a decision could not be written, the last time, or not be made (a member's or role's node cannot be read: see
  /// Group::problem()); or what `choose` threw (in_doubt). nullopt: nothing is wrong.
  std::optional<zkclient::Error> problem() const;

  const zkclient::Path& path() const noexcept;

 private:
  std::shared_ptr<detail::PrimaryMonitorCore> core_;
};

}  // namespace zkrecipes
