#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <zkrecipes/coherent_cache.hpp>

#include "recipes/coherent/shard_lease.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The items that a reader has, and the leases under which it may answer with them. A hit takes a short lock of one
/// shard, and neither the loop nor the network. The loop writes, all threads read.
class CoherentTable {
 public:
  using TimePoint = ShardLease::TimePoint;

  explicit CoherentTable(std::size_t max_bytes) : max_bytes_(max_bytes) {}
  CoherentTable(const CoherentTable&) = delete;
  CoherentTable& operator=(const CoherentTable&) = delete;

  // --- Any thread ---

  /// What is in force now; null if that is not known.
  CoherentItemPtr find(std::string_view name);
  /// What was in force when it was asked last, and may be still; null if it never was, or was evicted.
  CoherentItemPtr peek(std::string_view name) const;
  /// No hit brings `item` any more: it was not what is in force.
  void outdate(std::string_view name, const CoherentItemPtr& item);
  /// No hit begins afterwards.
  void close();
  bool closed() const noexcept { return closed_.load(std::memory_order_acquire); }
  void count_miss() noexcept { ++misses_; }
  void count_closing() noexcept { ++closings_; }
  CoherentCacheStatistics statistics() const;

  // --- The loop ---

  /// Before everything else here; once.
  void set_shards(std::uint32_t shards);
  /// `gate`: the czxid of the shard's gate. What was stored under another one is of a directory that is no more.
  void grant(std::uint32_t shard, std::int64_t gate, const ShardLease& lease,
             std::shared_ptr<zk::SessionState> session);
  void revoke(std::uint32_t shard);
  void renew(std::uint32_t shard, std::int32_t epoch, TimePoint sent, TimePoint now);
  bool valid(std::uint32_t shard, TimePoint now) const;
  std::int32_t epoch(std::uint32_t shard) const;
  /// Keeps an item that was read under the lease's epoch, and lets others go if it must, the least recently used ones
  /// first.
  void store(std::uint32_t shard, std::int32_t epoch, const std::string& name, CoherentItemPtr item);
  /// This process has written `item`: what it had in memory before is not shown any more. Null: what is there now is not
  /// known.
  void rewrite(std::uint32_t shard, const std::string& name, CoherentItemPtr item);

 private:
  /// An item's name with its hash, which is worked out once.
  struct Key {
    std::uint64_t hash;
    std::string name;
  };
  struct Probe {
    std::uint64_t hash;
    std::string_view name;
  };
  struct Hash {
    using is_transparent = void;
    std::size_t operator()(const Key& key) const noexcept { return key.hash; }
    std::size_t operator()(const Probe& key) const noexcept { return key.hash; }
  };
  struct Equal {
    using is_transparent = void;
    template <typename One, typename Other>
    bool operator()(const One& one, const Other& other) const noexcept {
      return one.name == other.name;
    }
  };
  struct Entry {
    CoherentItemPtr item;
    std::int32_t epoch = 0;
    bool used = true;  // Since the clock's hand has passed it.
    std::size_t bytes = 0;
  };
  using Items = std::unordered_map<Key, Entry, Hash, Equal>;
  struct Shard {
    mutable std::mutex mutex;
    ShardLease lease;
    bool leased = false;
    std::shared_ptr<zk::SessionState> session;
    std::int64_t gate = 0;
    Items items;
    std::uint64_t hits = 0;

    bool valid(TimePoint now) const { return leased && lease.valid(now, session->valid_until()); }
  };

  /// An item's place on the clock. Only eviction removes items, so the pointer is good.
  struct Place {
    Shard* shard;
    Items::value_type* item;
  };

  void evict();

  const std::size_t max_bytes_;
  std::vector<Shard> shards_;
  std::deque<Place> clock_;                     // All items; its hand is at the front. The loop's.
  std::atomic<std::uint32_t> known_shards_{0};  // 0 until shards_ may be read.
  std::atomic<bool> closed_{false};
  std::atomic<std::size_t> bytes_{0};
  std::atomic<std::uint64_t> misses_{0};
  std::atomic<std::uint64_t> fills_{0};
  std::atomic<std::uint64_t> evictions_{0};
  std::atomic<std::uint64_t> closings_{0};
};

}  // namespace zkrecipes::detail
