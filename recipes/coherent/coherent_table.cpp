#include "recipes/coherent/coherent_table.hpp"

#include <utility>

#include <zkclient/types.hpp>

#include "recipes/coherent/coherent_decider.hpp"
#include "recipes/coherent/coherent_format.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::size_t bytes_of_entry = 176;  // What an item takes besides its name and data, roughly.

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
  found->second.used = true;
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

void CoherentTable::outdate(std::string_view name, const CoherentItemPtr& item) {
  const std::uint32_t count = known_shards_.load(std::memory_order_acquire);
  if (count == 0) return;
  const std::uint64_t hash = item_hash(name);
  Shard& shard = shards_[hash % count];
  const std::lock_guard lock(shard.mutex);
  const auto found = shard.items.find(Probe{hash, name});
  // No lease has that epoch.
  if (found != shard.items.end() && found->second.item == item) found->second.epoch = zkclient::any_version;
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

void CoherentTable::grant(std::uint32_t shard, std::int64_t gate, const ShardLease& lease,
                          std::shared_ptr<zk::SessionState> session) {
  Shard& granted = shards_[shard];
  const std::lock_guard lock(granted.mutex);
  if (closed()) return;
  if (std::exchange(granted.gate, gate) != gate) {  // Its versions began again.
    for (auto& [key, entry] : granted.items)
      entry.epoch = zkclient::any_version;
  }
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
    const auto [place, added] = into.items.try_emplace(Key{item_hash(name), name});
    bytes_ += bytes - place->second.bytes;
    place->second = Entry{std::move(item), epoch, true, bytes};
    if (added) clock_.push_back(Place{&into, &*place});
  }
  ++fills_;
  evict();
}

void CoherentTable::rewrite(std::uint32_t shard, const std::string& name, CoherentItemPtr item) {
  {
    Shard& into = shards_[shard];
    const std::lock_guard lock(into.mutex);
    const auto found = into.items.find(Probe{item_hash(name), name});
    if (found == into.items.end()) return;
    Entry& entry = found->second;
    const std::size_t bytes = bytes_of_entry + name.size() + (item == nullptr ? 0 : item->data.size());
    bytes_ += bytes - entry.bytes;
    entry.item = std::move(item);
    entry.epoch = zkclient::any_version;  // No lease has it: a hit asks for the value first.
    entry.bytes = bytes;
  }
  evict();
}

// The clock algorithm: what was used since the hand came by gets another round. Each use is paid for once, so an eviction
// takes the same time however many items there are.
void CoherentTable::evict() {
  while (bytes_ > max_bytes_) {
    const Place place = clock_.front();
    clock_.pop_front();
    const std::lock_guard lock(place.shard->mutex);
    Entry& entry = place.item->second;
    if (std::exchange(entry.used, false)) {
      clock_.push_back(place);
      continue;
    }
    bytes_ -= entry.bytes;
    place.shard->items.erase(place.shard->items.find(Probe{place.item->first.hash, place.item->first.name}));
    ++evictions_;
  }
}

}  // namespace zkrecipes::detail
