#pragma once

#include <chrono>
#include <cstdint>
#include <memory>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/wait_options.hpp>

namespace zkrecipes {

struct LatchOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  /// Which use of the path the object takes part in. All programs that share this use give the same number: 1 for the
  /// first use, 2 for the next one; no number is left out.
  std::int64_t generation = 1;
  /// Each count is exactly once although the session is lost in its very instant: see CounterOptions::durable, which
  /// costs the same here. All objects of a path may differ in this.
  bool durable = false;
  /// As CounterOptions::max_marker_age.
  std::chrono::milliseconds max_marker_age = std::chrono::hours(1);
};

/// A gate that opens when it was counted down to zero, and stays open: std::latch for many processes. Source: CountDownLatch
/// of Java. No other client has such a recipe, so it shares its path with nobody. Costs: each change wakes every
/// waiter, so N counts and W waiters take N times W reads.
///
///   parent (container, if it was missing)
///    |-- <path>                persistent; data: "generation=1 count=3 left=2"
///    |-- _c_writes (container) ephemeral nodes that make writes happen once: exactly_once.md
///    '-- _c_markers (container, `durable`)
///         '-- <uuid>           persistent: its version counts the changes of one object
///
/// The first count of a generation writes the node; until then, all of its count is left. A generation begins with its
/// first count, but only when the one before is open; the first one is 1. So a waiter that finds a later generation knows
/// that its own was open, and passes. An operator who has deleted the node, and wants to go on with generation 5, writes
/// "generation=4 count=1 left=0".
///
/// Invariant: each count is one transaction that expects the version of the node that it was worked out from; `left` only
/// falls while the generation stays, and the generation only grows by 1, when `left` is 0.
///
/// Guaranteed: a waiter passes only after the count was reached; late comers pass; each count_down() that returns was
/// counted once, and none is counted in another generation than its own.
/// Not guaranteed: anything across a deletion of the node by hand; that those who should count are alive. A generation
/// whose counters have died is opened by a client that counts down what is left.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// count_down: request or reply lost        nothing: it is counted once
/// first count: request or reply lost       nothing: the node is made, and it is counted once
/// another client counts meanwhile          nothing: worked out again from the new number; one round trip more
/// more is counted than is left             nothing: the latch is open, and 0 is left
/// count of a generation that is over       nothing: 0 is left of it, and the later one does not change
/// the generation before is not open        count_down: not_available, which says how many are left, or that it has not
///                                          begun; wait: it waits
/// objects differ in their count            invalid_argument, which names both; nothing was counted
/// session lost during a count              in_doubt if it was sent and not answered; else nothing: it goes on with the
///                                          next session
/// durable: session lost during a count     nothing: the marker tells whether it was counted; if not, it is sent again
/// deadline, stop request during a count    in_doubt if it was sent and not answered; else deadline_exceeded, cancelled,
///                                          and nothing was counted
/// connection breaks while waiting          nothing: it is looked at again, however often
/// session lost while waiting               nothing: it goes on with the next session
/// deadline, stop request while waiting     deadline_exceeded (or false), cancelled, which say how many are left
/// the node holds no latch                  foreign_node; an empty one is a latch that nobody has counted down
/// node deleted by hand                     nobody has counted: waiters stay, the next count of generation 1 makes the node
/// the node's version is -1                 bad_version: no count can be conditional
/// quota of the servers full                a latch that is begun is counted down; the first count: quota_exceeded, and
///                                          nothing was counted. See docs/quotas.md
/// client closed                            calls end with closed, or in_doubt likewise
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to.
class ZKRECIPES_API Latch {
 public:
  /// `count`: how many counts open a generation. No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument
  /// (`count`, the generation or `max_marker_age` is not positive, the path is the root).
  Latch(zkclient::Client client, zkclient::Path path, std::int64_t count, LatchOptions options = {});
  ~Latch();
  Latch(Latch&&) noexcept;
  Latch& operator=(Latch&&) noexcept;

  /// Counts down by `by`; returns how many are left of this generation. Blocks for one round trip, as Counter::add().
  /// Errors: see the table, invalid_argument (`by` is not positive), and those common to all operations of Client.
  std::int64_t count_down(std::int64_t by = 1, const zkclient::CallOptions& call = {});
  void async_count_down(std::int64_t by, zkclient::Handler<std::int64_t> handler,
                        const zkclient::CallOptions& call = {});

  /// Waits until it is open, for ever unless `call` has a deadline or a stop token. An open one takes one round trip.
  /// Errors: see the table, and those common to all operations of Client.
  void wait(const zkclient::CallOptions& call = {}) const;
  /// Waits for at most `timeout`, or until `deadline`; false when that passed. A time that is over means one look.
  /// Errors: as wait(), without deadline_exceeded.
  [[nodiscard]] bool wait_for(Timeout timeout, WaitOptions options = {}) const;
  [[nodiscard]] bool wait_until(std::chrono::steady_clock::time_point deadline, WaitOptions options = {}) const;
  void async_wait(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {}) const;

  /// How many are left of this generation, as the connected server knows it; 0: it is open. Blocks for one round trip.
  /// Errors: foreign_node, invalid_argument (see the table), and those common to all operations of Client.
  std::int64_t left(const zkclient::CallOptions& call = {}) const;
  void async_left(zkclient::Handler<std::int64_t> handler, const zkclient::CallOptions& call = {}) const;

  /// LatchOptions::generation. No I/O.
  std::int64_t generation() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
