#include "recipes/coherent/coherent_table.hpp"

#include <algorithm>
#include <utility>

#include "recipes/coherent/coherent_decider.hpp"
#include "recipes/coherent/coherent_format.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::size_t bytes_of_entry = 160;  // What an item takes besides its name and data, roughly.

}  // namespace

// The time is read before the lock. The lease that is found under the lock may have begun after that: then what it
// covers was in force when it began, which was during this call.
CoherentItemPtr CoherentTable::find(std::string_view name) {
  const std::uint32_t count = known_shards_.load(std::memory_order_acquire);
  if (count == 0) return nullptr;
  const std::uint64_t hash = item_hash(name);
  Shard& shard = shards_[hash % count];
  const TimePoint now = zkclient::BootClock::now();
  const std::lock_guard lock(shard.mutex);
  if (!shard.valid(now)) return nullptr;
  const auto found = shard.items.find(Probe{hash, name});
  if (found == shard.items.end() || found->second.epoch != shard.lease.epoch()) return nullptr;
  found->second.used = now;
  ++shard.hits;
  return found->second.item;
}

CoherentItemPtr CoherentTable::peek(std::string_view name) const {
  const std::uint32_t count = known_shards_.load(std::memory_order_acquire);
  if (count == 0) return nullptr;
  const std::uint64_t hash = item_hash(name);
  const Shard& shard = shards_[hash % count];
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.items.find(Probe{hash, name});
  return found == shard.items.end() ? nullptr : found->second.item;
}

void CoherentTable::close() {
  closed_.store(true, std::memory_order_release);
  for (std::uint32_t i = 0; i < known_shards_.load(std::memory_order_acquire); ++i)
    revoke(i);
}

CoherentCacheStatistics CoherentTable::statistics() const {
  CoherentCacheStatistics all;
  all.misses = misses_;
  all.fills = fills_;
  all.evictions = evictions_;
  all.closings = closings_;
  all.bytes = bytes_;
  const TimePoint now = zkclient::BootClock::now();
  for (std::uint32_t i = 0; i < known_shards_.load(std::memory_order_acquire); ++i) {
    const std::lock_guard lock(shards_[i].mutex);
    all.hits += shards_[i].hits;
    all.items += shards_[i].items.size();
    if (shards_[i].valid(now)) ++all.leases;
  }
  return all;
}

void CoherentTable::set_shards(std::uint32_t shards) {
  if (known_shards_ != 0) return;
  shards_ = std::vector<Shard>(shards);
  known_shards_.store(shards, std::memory_order_release);
}

void CoherentTable::grant(std::uint32_t shard, const ShardLease& lease, std::shared_ptr<zk::SessionState> session) {
  Shard& granted = shards_[shard];
  const std::lock_guard lock(granted.mutex);
  if (closed()) return;
  granted.lease = lease;
  granted.session = std::move(session);
  granted.leased = true;
}

void CoherentTable::revoke(std::uint32_t shard) {
  const std::lock_guard lock(shards_[shard].mutex);
  shards_[shard].lease.revoke();
}

void CoherentTable::renew(std::uint32_t shard, std::int32_t epoch, TimePoint sent, TimePoint now) {
  const std::lock_guard lock(shards_[shard].mutex);
  shards_[shard].lease.renew(epoch, sent, now);
}

bool CoherentTable::valid(std::uint32_t shard, TimePoint now) const {
  const std::lock_guard lock(shards_[shard].mutex);
  return shards_[shard].valid(now);
}

std::int32_t CoherentTable::epoch(std::uint32_t shard) const {
  const std::lock_guard lock(shards_[shard].mutex);
  return shards_[shard].lease.epoch();
}

void CoherentTable::store(std::uint32_t shard, std::int32_t epoch, const std::string& name, CoherentItemPtr item) {
  const std::size_t bytes = bytes_of_entry + name.size() + item->data.size();
  if (bytes > max_bytes_) return;
  Shard& into = shards_[shard];
  const TimePoint now = zkclient::BootClock::now();
  {
    const std::lock_guard lock(into.mutex);
    if (!may_cache(epoch, into.lease.epoch(), into.valid(now))) return;
    Entry& entry = into.items[Key{item_hash(name), name}];
    bytes_ += bytes - entry.bytes;
    entry = Entry{std::move(item), epoch, now, bytes};
  }
  ++fills_;
  if (bytes_ > max_bytes_) evict();
}

// An eighth more than necessary, so that the next items need no search.
void CoherentTable::evict() {
  struct Candidate {
    TimePoint used;
    Shard* shard;
    Key key;
  };
  std::vector<Candidate> all;
  for (Shard& shard : shards_) {
    const std::lock_guard lock(shard.mutex);
    for (const auto& [key, entry] : shard.items)
      all.push_back(Candidate{entry.used, &shard, key});
  }
  const auto older = [](const Candidate& one, const Candidate& other) { return one.used < other.used; };
  std::sort(all.begin(), all.end(), older);
  const std::size_t enough = max_bytes_ - max_bytes_ / 8;
  for (const Candidate& candidate : all) {
    if (bytes_ <= enough) return;
    const std::lock_guard lock(candidate.shard->mutex);
    const auto found = candidate.shard->items.find(candidate.key);
    bytes_ -= found->second.bytes;
    candidate.shard->items.erase(found);
    ++evictions_;
  }
}

}  // namespace zkrecipes::detail
