#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

namespace zkrecipes {

struct CoherentCacheOptions {
  /// For every node that the recipe creates.
  zkclient::AclList acl = zkclient::open_acl();
  /// Items share gates by a hash of their names: more shards, fewer leases that a write ends, more nodes to renew. Of
  /// the first one to use the directory: all later ones take what is written there. 1 to 65536.
  std::uint32_t shards = 64;
  /// For how long a lease lasts without a renewal, and so for how long a write waits at most for a reader that does not
  /// answer. At most 7/12 of the session timeout. 0: that, or half of the client's operation_timeout if that is less.
  std::chrono::milliseconds lease_term{0};
  /// Of the items in memory: names, data and what belongs to them. Those that were not used for long go first.
  std::size_t max_bytes = std::size_t{64} * 1024 * 1024;
};

/// What an item was at one moment. Immutable.
struct CoherentItem {
  bool exists = false;        ///< Whether there was such a name.
  std::string data;           ///< "" if it does not exist.
  std::int64_t revision = 0;  ///< Of the last write to it: grows, and is never used again. 0: it does not exist.
};
using CoherentItemPtr = std::shared_ptr<const CoherentItem>;

/// Since the object was made, but for the last three, which say what is there now.
struct CoherentCacheStatistics {
  std::uint64_t hits = 0;       ///< Reads that were answered from memory.
  std::uint64_t misses = 0;     ///< Reads that were not.
  std::uint64_t fills = 0;      ///< Items that were put into memory.
  std::uint64_t evictions = 0;  ///< Items that left it for want of room.
  std::uint64_t closings = 0;   ///< Writes of this object that had to ask readers to let go.
  std::size_t leases = 0;       ///< Shards whose items may be answered from memory.
  std::size_t items = 0;        ///< In memory, whether or not a lease covers them.
  std::size_t bytes = 0;        ///< What the items take of `max_bytes`.
};

/// Named values with cached reads that are linearizable: a read that begins after a write has returned sees it, in
/// whichever process, although most reads ask nobody. For what is read much more often than it is written.
///
///   <path>              persistent; data: "coherent 1 shards=64"
///    |-- items/<name>   persistent; data: the value
///    |-- gates/<s>      persistent; "open ..." or "closed ..."; its version is the epoch of shard s
///    |-- holders/<s>/   readers that may have items of s in memory, ephemeral: <uuid>-<term in ms>
///    |-- writers/<s>    ephemeral; the writer that has closed the gate of s
///    '-- _c_writes      (container) ephemeral nodes that make writes happen once: exactly_once.md
///
/// A reader that registers for a shard checks in the same transaction that the gate still is what it was when the item
/// was read. Its lease is renewed by transactions that check the gate's version, and by nothing else. A write changes the
/// gate. If readers are registered, it closes the gate first: then no lease begins or is renewed, the readers let go, or
/// their leases run out.
///
/// Invariant: an item changes only while no lease of its shard is valid.
///
/// Guaranteed: reads and writes of each item are linearizable, also across processes, lost messages, crashes, and
/// followers that were cut off, as long as the clocks of two machines differ in speed by less than a thousandth, and the
/// session lives as long as lease.hpp says. Reads never wait for writes. A write waits for readers for a lease's term
/// (and a thousandth, and 10 ms) at most, whatever they do.
/// Not guaranteed: order among several items; progress of one writer while others keep writing to its shard. A write that
/// has to wait for a term needs a deadline beyond it, as the default one is.
///
/// What goes wrong                          What the caller sees
/// ---------------------------------------  ---------------------------------------------------------------------
/// reader stopped, cut off or killed        a write to one of its shards takes a lease's term more, once; the reader
///                                          answers nothing from memory after its lease, and not before it has asked
///                                          again
/// server of a reader is cut off            the same: it loses its leases before any write that it does not know of
/// reads while a write is pending           the value before or after it, not put into memory; no waiting
/// reader's farewell is lost                nothing: it is repeated
/// put: request or reply lost               nothing: it is written once
/// get: request or reply lost               nothing: asked again
/// writer dies after it closed a gate       reads are not put into memory until the next read or write of the shard
///                                          has opened the gate; nothing was written
/// session lost during a write              nothing, if the gate tells what became of it; else in_doubt, if it was sent
/// deadline, stop request during a write    in_doubt if it was sent and not answered; else deadline_exceeded, cancelled,
///                                          and nothing was written
/// another writer writes to the shard       nothing: asked again; one or two round trips more
/// session lost between reads               nothing: the next reads ask again
/// answers are too slow for leases          nothing is put into memory; each read is two round trips
/// more data than max_bytes                 the least recently used items leave memory
/// quota of the servers full                what frees or replaces works while no other process reads the shard; else
///                                          quota_exceeded, which names it, and nothing was written. See docs/quotas.md
/// the directory is another recipe's        foreign_node; also where a node that is to be removed has children
/// writer gives up before a reader's term   the next write of that object waits for the rest of the term only
/// a slot deleted by hand                   nothing: what it would have told is found out from the gate; in_doubt if an answer
///                                          is missing just then and the gate cannot tell
/// item changed by hand                     a reader with a lease does not see it until this recipe writes to the shard;
///                                          what compares (compare_put, update) finds it out, put() overwrites it. Not
///                                          found out: an item that was removed and made again by hand after it was
///                                          read, and has been set as often as before
/// directory removed and made again         nothing of the former one is answered from memory once the event has come
/// cache or client closed                   calls end with closed, a write perhaps with in_doubt
///
/// Nothing but this recipe may write below `path`; the table says what becomes of it. A directory that is made again
/// must have as many shards as before, or caches that were open then have to be closed before.
///
/// A hit takes no I/O and well below a microsecond. A miss takes two round trips, or one if another item of the shard is
/// in memory. A write takes one or two round trips if no other process reads the shard, else about four.
/// The object renews its leases four times per term, by one transaction for 128 shards.
///
/// Thread safety: all members. The object keeps its client open. A moved-from object may only be destroyed or assigned
/// to.
class ZKRECIPES_API CoherentCache {
 public:
  /// Gets the item, returns the data that is to replace it, or nullopt: it shall stay. May be called several times.
  using Function = std::function<std::optional<std::string>(const CoherentItem&)>;

  /// No I/O. Errors: invalid_acl (see acl_defect()), invalid_argument (`path` is the root; shards, lease_term, or
  /// max_bytes are out of range).
  CoherentCache(zkclient::Client client, zkclient::Path path, CoherentCacheOptions options = {});
  /// As close().
  ~CoherentCache();
  CoherentCache(CoherentCache&&) noexcept;
  CoherentCache& operator=(CoherentCache&&) noexcept;

  // `name`: one component of a path.

  /// The item; that it does not exist is an answer, and is remembered, too. Never null. Blocks only if the answer is not
  /// in memory. Errors: foreign_node, closed, invalid_argument (the name), and those common to all operations of Client.
  CoherentItemPtr get(std::string_view name, const zkclient::CallOptions& call = {});
  void async_get(std::string_view name, zkclient::Handler<CoherentItemPtr> handler,
                 const zkclient::CallOptions& call = {});

  /// What is in memory, without any I/O: it may be old by writes of other objects, never by those of this one that have
  /// returned, also with in_doubt. Null if nothing is.
  CoherentItemPtr peek(std::string_view name) const;

  /// Writes the item, whatever it was. Blocks for the round trips that the class says, and for readers that do not
  /// answer. Errors: as get(), in_doubt, too_large.
  void put(std::string_view name, std::string_view data, const zkclient::CallOptions& call = {});
  void async_put(std::string_view name, std::string_view data, zkclient::Handler<void> handler,
                 const zkclient::CallOptions& call = {});

  /// The same for an item that does not exist. Errors: node_exists, and as put().
  void create(std::string_view name, std::string_view data, const zkclient::CallOptions& call = {});
  void async_create(std::string_view name, std::string_view data, zkclient::Handler<void> handler,
                    const zkclient::CallOptions& call = {});

  /// Writes the item if it still has the revision `expected` (0: it does not exist); false if it has not, which is
  /// certain. Blocks and fails as put().
  [[nodiscard]] bool compare_put(std::string_view name, std::int64_t expected, std::string_view data,
                                 const zkclient::CallOptions& call = {});
  void async_compare_put(std::string_view name, std::int64_t expected, std::string_view data,
                         zkclient::Handler<bool> handler, const zkclient::CallOptions& call = {});

  /// Removes the item. Errors: no_node, and as put().
  void remove(std::string_view name, const zkclient::CallOptions& call = {});
  void async_remove(std::string_view name, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// Removes the item if it still has the revision `expected`; false if it has not. Blocks and fails as put().
  [[nodiscard]] bool compare_remove(std::string_view name, std::int64_t expected,
                                    const zkclient::CallOptions& call = {});
  void async_compare_remove(std::string_view name, std::int64_t expected, zkclient::Handler<bool> handler,
                            const zkclient::CallOptions& call = {});

  /// Replaces the item by what the function makes of it, again if another client was faster. Returns the data that is
  /// there now; nullopt if the function declined. The function runs in the calling thread, or, for the asynchronous
  /// form, on the callback executor. Errors: as put(); what the function throws (in the asynchronous form an Error;
  /// anything else is invalid_argument with its message), and nothing was written.
  std::optional<std::string> update(std::string_view name, const Function& function,
                                    const zkclient::CallOptions& call = {});
  void async_update(std::string_view name, Function function, zkclient::Handler<std::optional<std::string>> handler,
                    const zkclient::CallOptions& call = {});

  /// Ends the leases: no call answers from memory afterwards, and all end with closed, those under way as well. Does not
  /// block.
  void close();

  /// What it has done since it was made. Does not block.
  CoherentCacheStatistics statistics() const;
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::unique_ptr<State> state_;
};

}  // namespace zkrecipes
