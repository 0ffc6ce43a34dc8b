#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

struct DoubleBarrierOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the member's node.
  /// What becomes of one who comes when N others are ahead: false: it waits for the next round; true: enter() throws
  /// Errc::overloaded.
  bool refuse_extra = false;
};

/// One round, the same for all its members.
struct Round {
  std::int64_t number = 0;           ///< Grows from round to round of one path.
  std::vector<std::string> members;  ///< Their nodes' names, in the order in which they came.

  friend bool operator==(const Round&, const Round&) = default;
};

/// N members begin a computation together and end it together, round after round. An object is one member.
/// Source: "Double Barriers" in ZooKeeper's recipes, without its errors (it counts its own `ready` node, never deletes
/// it, and lets extra members in); docs/barriers.md says more. Does not share a path with Curator's or kazoo's.
///
///   path (container)                      data: the nodes of the newest round's members
///    |-- _c_<uuid>-member-0000000007      ephemeral: a member, or one that wants to come in; data: its name
///    '-- _c_<uuid>-member-0000000008
///
/// Invariant: a round is begun by one transaction that checks that the N members' nodes exist and writes their names
/// into `path`, on condition of its version, when no node of the round before is left. Names are never used twice, so a
/// record of a round that is over cannot be taken for one that is not.
///
/// Guaranteed: exactly the N members of the record are in a round, each in one at a time; enter() returns the same
/// Round to all of them; leave() returns when every other one has left, crashed, or lost its session; first come, first
/// in. Not guaranteed: that all N are alive when enter() returns (one may crash right after); anything about the
/// rounds, if another client writes the record while one goes on.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// create: request or reply lost            nothing: the node is found by its id, or created again
/// begin of the round: reply lost           nothing: it is read
/// begin refused: access rights, a quota    that error, and the node is withdrawn; the others wait for another member
/// parent missing or removed                nothing: created again
/// connection breaks while waiting          nothing: the place is kept
/// session lost while entering              enter throws session_lost; the others wait for another member
/// session lost while inside                lost() fires; the others leave without us; leave throws session_lost
/// leave: request or reply lost             nothing: it is out
/// session lost while leaving               nothing: it is out, and goes on waiting with the next session
/// member crashes while entering            its place is free again when its session ends
/// member crashes inside                    the others leave when its session ends
/// own node deleted by hand while entering  nothing: queued again, at the end
/// own node deleted by hand while inside    lost() fires; leave throws not_held
/// more than N come                         see DoubleBarrierOptions::refuse_extra
/// deadline, stop request while entering    deadline_exceeded (or nullopt), cancelled; the node is withdrawn. If the
///                                          round begins in the same instant, enter returns it
/// the same, and no connection              the same; the others may find us in their round, as if we had crashed there
/// deadline, stop request while leaving     deadline_exceeded (or false), cancelled: we are out, others are in still
/// foreign data or children at the path     overwritten, ignored (also a node `ready`)
/// record overwritten while a round goes on those inside notice nothing; one of them may be counted into the next
///                                          round as well, which sees it leave. No member waits for ever
/// client closed                            closed; the node vanishes, as if we had crashed
///
/// Thread safety: all members; a second enter() while the first one runs, or inside, is an error (would_deadlock). The
/// object keeps its client open.
class ZKRECIPES_API DoubleBarrier {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (members < 1 or > 1000, the path is the root).
  DoubleBarrier(zkclient::Client client, zkclient::Path path, int members, DoubleBarrierOptions options = {});
  /// Leaves, or withdraws, without waiting; an async_enter() that runs ends with `cancelled`.
  ~DoubleBarrier();
  DoubleBarrier(DoubleBarrier&&) noexcept;
  DoubleBarrier& operator=(DoubleBarrier&&) noexcept;

  /// Waits until N members are there, for ever unless `call` has a deadline or a stop token. Errors, which say how many
  /// there were last: see the table, would_deadlock (it is inside, or entering, already), overloaded (an extra member),
  /// and those common to all operations of Client.
  Round enter(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`; nullopt when that passed. Zero means one try: inside if the other N-1 are waiting.
  [[nodiscard]] std::optional<Round> try_enter_for(Timeout timeout, WaitOptions options = {});
  void async_enter(zkclient::Handler<Round> handler, const zkclient::CallOptions& call = {});

  /// Leaves, and waits until all others have left; from the call on this member is out, whatever happens then. Errors:
  /// see the table, not_held (it is not inside), and those common to all operations of Client.
  void leave(const zkclient::CallOptions& call = {});
  /// Waits for at most `timeout`; false when that passed. Zero means one look whether the others have left.
  [[nodiscard]] bool try_leave_for(Timeout timeout, WaitOptions options = {});
  void async_leave(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// Whether this member is in a round, by its own clock; no round trip.
  bool inside() const noexcept;
  /// Fires once if this member is lost to the round it is in, before the others can leave without it; see
  /// Lease::lost().
  std::stop_token lost() const;

  const zkclient::Path& path() const noexcept;

 private:
  Round enter(bool once, const zkclient::CallOptions& call);
  void leave(bool once, const zkclient::CallOptions& call);
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zkrecipes
