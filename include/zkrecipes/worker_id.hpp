#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/lease.hpp>

namespace zkrecipes {

namespace detail {
class WorkerCore;
}

/// What an id is made of.
struct IdParts {
  std::chrono::system_clock::time_point time;  ///< Of its making, to the millisecond.
  int worker = 0;                              ///< The maker's number.
  int sequence = 0;                            ///< Counts the worker's ids of one millisecond.

  bool operator==(const IdParts&) const = default;
};

/// How an id of 63 bits is divided: milliseconds since `epoch`, worker number, sequence. The default is Twitter's
/// Snowflake: 1,024 workers with 4,096 ids a millisecond, until 2080.
struct ZKRECIPES_API IdLayout {
  int worker_bits = 10;    ///< Positive; at most 22 together with sequence_bits.
  int sequence_bits = 12;  ///< Positive.
  std::chrono::system_clock::time_point epoch{std::chrono::milliseconds(1'288'834'974'657)};  ///< When time begins.

  /// What an id of this layout was made of.
  IdParts parts_of(std::int64_t id) const;
};

struct WorkerIdOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< Shown to operators in the node's data; default: host and pid only.
  /// All programs that share a path must use the same one.
  IdLayout layout = {};
  /// How far ahead of its clock a worker reserves time. Costs a write for each half of it; ids can be made for that
  /// long without a connection. From 100 ms to an hour.
  std::chrono::milliseconds ahead{5'000};
  /// The clock that ids are made by; for tests. Called by any thread, also the library's: it must not block.
  std::function<std::chrono::system_clock::time_point()> clock = std::chrono::system_clock::now;
};

/// A worker number that nobody else has, and the ids made with it. Move-only; the destructor gives the number back
/// without waiting. Made by WorkerIds, whose table says what goes wrong.
///
/// In a forked child next() throws not_held: the number is the parent's.
///
/// Thread safety: number(), next() and lease() from any thread; moving and releasing like any other object.
class ZKRECIPES_API [[nodiscard]] WorkerId {
 public:
  /// An empty one, also what was moved from: next() throws not_held.
  WorkerId() noexcept;
  WorkerId(std::shared_ptr<detail::WorkerCore> core, Lease lease) noexcept;  ///< For the recipe.
  WorkerId(WorkerId&&) noexcept;
  WorkerId& operator=(WorkerId&& other) noexcept;
  ~WorkerId();

  /// From 0; -1 if it is empty.
  int number() const noexcept;
  /// The next id, greater than those before it; unique among all workers of the path. No I/O: does not block. Errors:
  /// not_held (the lease was lost or given back: acquire another number), overloaded (the ids of the time that is
  /// reserved are used up: more than the layout has in a millisecond, for longer than `ahead`).
  std::int64_t next();
  /// The right to the number: valid(), lost(), guard(), token(), async_lost().
  const Lease& lease() const noexcept;

  /// Gives the number back and waits until its node is gone. From the call on next() refuses. Errors: as
  /// Lease::release().
  void release(const zkclient::CallOptions& call = {});
  void async_release(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

 private:
  void close() noexcept;

  std::shared_ptr<detail::WorkerCore> core_;
  Lease lease_;
};

/// Worker numbers for Snowflake ids: each process leases the lowest number that is free, and makes ids of 63 bits from
/// its clock, the number and a sequence, without asking anybody. Source: Twitter's Snowflake, which kept its numbers in
/// ZooKeeper, too.
///
///   path (persistent)
///    |-- held/                      persistent
///    |    |-- <number>              ephemeral; data: the worker, its host, since when
///    |    '-- _c_<uuid>-<number>    ephemeral, made and deleted together with it: this holding's alone
///    '-- times/
///         '-- <number>              persistent; data: the time up to which ids may have been made with this number,
///                                   decimal milliseconds since 1970
///
/// Invariant: no id is of a time later than what `times/<number>` had when the id was made, and its maker's node was
/// still there when that was written. Who gets the number next starts above it. So uniqueness rests on no clock, and
/// on no process that notices the loss of its lease in time.
///
/// Guaranteed: no two ids of a path are equal, as long as nobody changes `times` by hand; ids of one WorkerId grow.
/// Not guaranteed: an order among workers beyond that of their clocks; that the time in an id is that of the clock: it
/// is later after the number was taken over from a worker that was ahead, and earlier while there is no connection.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// acquire: request or reply lost           nothing: the nodes are found, or made again
/// session lost during acquire              nothing: the next session is used
/// another process takes the number first   nothing: another number is taken
/// all numbers are taken                    acquire waits for one; deadline_exceeded, which says so
/// deadline, stop request during acquire    deadline_exceeded, cancelled; no number stays taken
/// parents missing or removed               nothing: created again
/// session lost while holding               lease().lost() fires, next() throws not_held: before the number is given
///                                          to another process
/// node deleted by hand while holding       the same as soon as that is seen; ids of both owners differ all the same
/// process paused beyond its lease          next() throws not_held; an id that it was making is no other worker's
/// connection breaks while holding          nothing: ids go on within the time that is reserved. When that is over
///                                          they stay at it, until its ids are used up (overloaded) or the lease ends
/// reserving: request or reply lost         nothing: reserved again
/// clock steps back                         nothing: ids go on from the last one
/// clock steps forward                      nothing: ids go on from the last one until that time is reserved
/// next owner's clock is behind             nothing: its ids begin above what was reserved
/// ids are made faster than the layout has  nothing for as long as reserved time is left: ids run ahead of the clock;
///                                          then overloaded
/// times/<number> holds no time             acquire throws foreign_node, which names it
/// times/<number> deleted while it is held  nothing: made again
/// times/<number> deleted while it is free  the next owner begins at its clock: ids may come twice if that is behind
/// release: request or reply lost           nothing: the deletion is repeated until the nodes are gone
/// process dies                             its number is free when its session ends
/// client closed                            acquire throws closed; next() throws not_held
///
/// Thread safety: all members. The object keeps its client open; a WorkerId does not. A moved-from object may only be
/// destroyed or assigned to.
class ZKRECIPES_API WorkerIds {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (the layout, `ahead`, no clock).
  WorkerIds(zkclient::Client client, zkclient::Path path, WorkerIdOptions options = {});
  ~WorkerIds();
  WorkerIds(WorkerIds&&) noexcept;
  WorkerIds& operator=(WorkerIds&&) noexcept;

  /// Leases the lowest number that is free; while there is none, waits for one. Blocks for four round trips, and a few
  /// more when other processes start at the same time. Errors: see the table, and those common to all operations of
  /// Client.
  WorkerId acquire(const zkclient::CallOptions& call = {});
  void async_acquire(zkclient::Handler<WorkerId> handler, const zkclient::CallOptions& call = {});

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
