#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

namespace zkrecipes {

/// How the number is written into the node. All programs that share a path must use the same one. A node that is
/// missing or empty counts as 0 in each of them, but for an empty one in Curator's SharedCount, which fails.
enum class CounterEncoding {
  curator_int64,  ///< Eight bytes, big-endian: Curator's DistributedAtomicLong.
  curator_int32,  ///< Four bytes, big-endian: Curator's DistributedAtomicInteger and SharedCount, kazoo's Counter with
                  ///< support_curator.
  kazoo,  ///< Decimal digits: kazoo's Counter as it is made by default, with a default value that is an integer.
};

struct CounterOptions {
  /// For every node that the recipe creates.
  zkclient::AclList acl = zkclient::open_acl();
  CounterEncoding encoding = CounterEncoding::curator_int64;  ///< How the number is written.
  /// Each change is exactly once although the session is lost in its very instant: a persistent node, the marker, tells
  /// what became of it. Costs one more operation in each transaction, and a round trip before the first change. All
  /// objects of a path may differ in this.
  bool durable = false;
  /// A marker that was written for the last time so long ago is one of a writer that is gone. The next durable writer that
  /// begins removes it. Longer than any outage that a change should survive.
  std::chrono::milliseconds max_marker_age = std::chrono::hours(1);
};

/// What one call has done: nobody else's change came between the two.
struct CounterChange {
  std::int64_t before = 0;  ///< The number right before the change.
  std::int64_t after = 0;   ///< The number right after it.

  bool operator==(const CounterChange&) const = default;
};

/// A number that many clients change, each change exactly once. Interoperates with Curator's DistributedAtomicLong and
/// DistributedAtomicInteger, and with kazoo's Counter, which themselves may count twice when a reply is lost. Not possible:
/// one path for Curator and kazoo in another encoding than curator_int32, and kazoo's fractions.
///
///   parent (container, if it was missing)
///    |-- <path>                persistent; data: the number (CounterEncoding)
///    |-- _c_writes (container) ephemeral nodes that make writes happen once: exactly_once.md
///    '-- _c_markers (container, `durable`)
///         '-- <uuid>           persistent: its version counts the changes of one object
///
/// Invariant: each change is one transaction that expects the version of the node that it was worked out from.
///
/// Guaranteed: the changes of all clients have one order, in which each one that succeeded is there once, with the
/// `before` and `after` that its caller got; it lies between the call and its return. No write is applied twice, or
/// reported as failed although it was applied.
/// Not guaranteed: progress of one caller while others keep changing the number (one of them always succeeds; callers
/// that are refused again and again take turns, see docs/values.md, and no pause is longer than 250 ms); that get() knows
/// of a change that another client has just made; anything across a deletion of the node by hand.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// add: request or reply lost               nothing: it is counted once
/// first add: request or reply lost         nothing: the node is made, and it is counted once
/// compare_set: request or reply lost       nothing: true if it was ours, although the number is another one now
/// set: request or reply lost               nothing: it is written once, and never over what came after it
/// update: request or reply lost            nothing: it is written once
/// another client changes it meanwhile      nothing: worked out again from the new number; one round trip more
/// session lost during a change             in_doubt if it was sent and not answered; else nothing: it goes on with the
///                                          next session
/// durable: session lost during a change    nothing: the marker tells whether it was applied; if not, it is sent again
/// durable: marker deleted by hand          nothing; in_doubt if the session is lost just then
/// durable: writer dies                     its marker stays, until another durable writer begins after max_marker_age
/// deadline, stop request during a change   in_doubt if it was sent and not answered: if it shared its transaction with
///                                          other calls, it may be applied for as long as these wait; else
///                                          deadline_exceeded, cancelled, and nothing was done
/// the result is beyond the encoding        invalid_argument; the number stays as it is
/// the node holds no number                 foreign_node; set() overwrites it
/// node deleted by hand                     the number is 0 again, and the next change makes the node
/// node deleted and made again              the new number counts; if that happens in the very instant of a change, or
///                                          within 10 ms after the object's last one, a change that may have hit the
///                                          new node ends with foreign_node, or with in_doubt if its reply was lost, too
/// node written by another program          the new number counts
/// the node's version is about to be -1     nothing: -1 means any version, so it is skipped
/// the node's version is -1                 bad_version: no change can be conditional; set() writes it, and ends that
/// a slot deleted by hand                   nothing; in_doubt if a reply is missing just then
/// client closed                            calls end with closed, or in_doubt likewise
///
/// Calls of one object that come while one of its transactions is on its way share the next one: a thousand concurrent
/// adds take a few round trips. So share the object, and do not make one for each call.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to.
class ZKRECIPES_API Counter {
 public:
  /// Gets the number, returns the one that is to replace it, or nullopt: it shall stay. May be called several times.
  using Function = std::function<std::optional<std::int64_t>(std::int64_t)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (`path` is the root, `max_marker_age` is not
  /// positive).
  Counter(zkclient::Client client, zkclient::Path path, CounterOptions options = {});
  ~Counter();
  Counter(Counter&&) noexcept;
  Counter& operator=(Counter&&) noexcept;

  /// Adds `delta`, which may be negative or 0. Blocks for one round trip; for two if another client has changed the
  /// number since this object's last change; for longer while others change it all the time; up to three more for
  /// the first change of a session (if durable, five for the first one of the object). Errors: see the table, and those common to all operations of Client.
  CounterChange add(std::int64_t delta, const zkclient::CallOptions& call = {});
  void async_add(std::int64_t delta, zkclient::Handler<CounterChange> handler, const zkclient::CallOptions& call = {});

  /// The number, as the connected server knows it: not older than what a call of this object returned before in the
  /// same session. (What the leader knows: add(0).) Blocks for one round trip. Errors: foreign_node (it is no number),
  /// and those common to all operations of Client.
  std::int64_t get(const zkclient::CallOptions& call = {}) const;
  void async_get(zkclient::Handler<std::int64_t> handler, const zkclient::CallOptions& call = {}) const;

  /// Makes it `value`, whatever it was. Blocks as add(). Errors: as add(); invalid_argument if the encoding has no such
  /// number.
  void set(std::int64_t value, const zkclient::CallOptions& call = {});
  void async_set(std::int64_t value, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// Makes it `desired` if it is `expected`; false if it is not, by the word of the leader. Blocks as add(). Errors: as
  /// set().
  [[nodiscard]] bool compare_set(std::int64_t expected, std::int64_t desired, const zkclient::CallOptions& call = {});
  void async_compare_set(std::int64_t expected, std::int64_t desired, zkclient::Handler<bool> handler,
                         const zkclient::CallOptions& call = {});

  /// Replaces it by function(number), again if another client was faster. If the function declines, `after` is
  /// `before`. Blocks as add(). The function runs in the calling thread, or, for the asynchronous form, on the callback
  /// executor. Errors: as add(); what the function throws (in the asynchronous form an Error; anything else is
  /// invalid_argument with its message), and nothing was changed.
  CounterChange update(const Function& function, const zkclient::CallOptions& call = {});
  void async_update(Function function, zkclient::Handler<CounterChange> handler,
                    const zkclient::CallOptions& call = {});

  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
