#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/error.hpp>

#include "recipes/coherent/coherent_format.hpp"
#include "recipes/coherent/shard_lease.hpp"

namespace zkrecipes::detail {

// --- Reading ------------------------------------------------------------------------------------------------------

/// What a read of one item knows. All of it is of one moment, which is in the read: no earlier than its begin.
struct FillFacts {
  bool lease_valid = false;                 ///< That of the item's shard.
  std::int32_t epoch = 0;                   ///< The lease's.
  bool cached = false;                      ///< The item, under this epoch.
  std::optional<std::int32_t> fetch_epoch;  ///< A fetch of the item is under way that began under this epoch.
  bool grant_under_way = false;             ///< Another read of this reader asks for a lease of the shard.
  std::optional<Gate> gate;                 ///< As this read has read it, before it read the item.
  bool tried = false;                       ///< A registration was refused or not answered, of this read or of one
                                            ///< that it waited for.
};

enum class FillStep {
  hit,       ///< Answer from the cache.
  join,      ///< Wait for the fetch that is under way, and answer what it brings.
  fetch,     ///< Read the item: the lease says that nothing newer can be.
  wait,      ///< For the other read's registration; then decide again.
  look,      ///< Read the gate, watch it, and read the item, in one flight and this order.
  enroll,    ///< Register, and check in the same transaction that the gate is what was read.
  uncached,  ///< A transaction of the quorum, and the item behind it, in one flight. Ends the read.
};

/// The next step of a read. At most one `wait`, one `look` and one `enroll` come before a step that ends the read:
/// readers never wait for writers.
FillStep decide_fill(const FillFacts& facts) noexcept;

/// Whether what a fetch has brought, which began under `fetch_epoch`, may be cached.
bool may_cache(std::int32_t fetch_epoch, std::int32_t epoch, bool lease_valid) noexcept;

// --- Writing ------------------------------------------------------------------------------------------------------

/// One call that writes an item.
struct ItemWrite {
  enum Kind { put, create, compare_put, remove, compare_remove };
  Kind kind = put;
  std::string name = {};
  std::string data = {};
  std::int64_t expected = 0;  ///< The revision; 0: no such item.
};

/// What a write does to an item of which the revision is known.
struct ItemChange {
  enum Kind { make, set, remove, refuse };
  Kind kind = refuse;
  zkclient::Errc why = zkclient::Errc::bad_version;  ///< Of refuse.

  friend bool operator==(const ItemChange&, const ItemChange&) = default;
};
ItemChange decide_change(const ItemWrite& write, std::int64_t revision) noexcept;

/// What the writer of an item knows of its shard.
struct WriteFacts {
  using TimePoint = ShardLease::TimePoint;

  Gate gate;
  bool closer_alive = false;                   ///< The node of the writer that has closed the gate is there.
  std::optional<std::int32_t> closed_version;  ///< That this writer's closing has led to.
  TimePoint closed_at{};                       ///< When that was acknowledged.
  bool readers_there = false;            ///< A write without a closing was refused because readers are registered.
  std::vector<Registration> registered;  ///< As listed after the closing.
  /// Of those that were there at an earlier closing of this writer, the name, and when that was acknowledged: none of
  /// them was renewed since.
  std::map<std::string, TimePoint> barred;
  TimePoint now{};
};

struct WriteStep {
  enum Kind {
    write,         ///< One transaction: nobody is registered, the gate is what was read, the item.
    close,         ///< Close the gate: no lease is granted or renewed afterwards.
    wait_readers,  ///< Until `until`, or until the registrations have changed.
    commit,        ///< One transaction: the item, the gate opened, and what is registered still is removed.
    wait_writer,   ///< Until the gate changes, or its writer is gone.
    reopen,        ///< The writer that has closed the gate is gone.
  };
  Kind kind = write;
  ShardLease::TimePoint until{};  ///< Of wait_readers.

  friend bool operator==(const WriteStep&, const WriteStep&) = default;
};

/// The next step of a write.
WriteStep decide_write(const WriteFacts& facts);

/// Whether a write was applied whose answer was lost together with its session.
enum class Verdict { applied, not_applied, unknown };

/// `gate`: as the leader has it, read after the old session's slot was removed, so that nothing of that session can
/// be applied any more. `expected`: the version of the gate that the write checked.
Verdict decide_verdict(const Gate& gate, std::string_view write_id, std::int32_t expected) noexcept;

}  // namespace zkrecipes::detail
