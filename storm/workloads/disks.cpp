#include "storm/workloads/disks.hpp"

#include <algorithm>
#include <set>
#include <utility>

namespace storm {

std::string numbers_of(const Writes& writes) {
  std::string text;
  for (const std::int64_t write : writes)
    text += (text.empty() ? "" : ",") + std::to_string(write);
  return text;
}

Disks& Disks::of(Place& place) {
  static std::mutex mutex;
  static std::map<const History*, Disks> all;
  const std::lock_guard lock(mutex);
  return all[&place.history()];
}

bool Disks::append(const zkrecipes::InSyncReplica& to, std::int64_t epoch, std::int64_t write) {
  const std::lock_guard lock(mutex_);
  if (to.storage != storage_of(to.id) || !takes(to.id, epoch)) return false;
  disks_[to.id].writes.push_back(write);
  return true;
}

bool Disks::replace(const zkrecipes::InSyncReplica& at, std::int64_t epoch, Writes writes) {
  const std::lock_guard lock(mutex_);
  if (at.storage != storage_of(at.id) || !takes(at.id, epoch)) return false;
  disks_[at.id].writes = std::move(writes);
  return true;
}

void Disks::see(const std::string& id, std::int64_t epoch) {
  const std::lock_guard lock(mutex_);
  static_cast<void>(takes(id, epoch));
}

void Disks::empty(const std::string& id) {
  const std::lock_guard lock(mutex_);
  disks_[id] = {.storage = disks_[id].storage + 1, .epoch = 0, .writes = {}};
}

std::string Disks::storage(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return storage_of(id);
}

bool Disks::is_empty(const std::string& id) {
  const std::lock_guard lock(mutex_);
  const Disk& disk = disks_[id];
  return disk.epoch == 0 && disk.writes.empty();
}

Writes Disks::read(const std::string& id) {
  const std::lock_guard lock(mutex_);
  return disks_[id].writes;
}

std::int64_t Disks::copies(const std::string& prefix, const std::string& id, const Writes& writes) {
  const std::lock_guard lock(mutex_);
  std::int64_t count = 0;
  for (const auto& [other, disk] : disks_) {
    if (other == id || !other.starts_with(prefix)) continue;
    const std::set<std::int64_t> has(disk.writes.begin(), disk.writes.end());
    const bool all = std::ranges::all_of(writes, [&](std::int64_t write) { return has.contains(write); });
    count += all ? 1 : 0;
  }
  return count;
}

std::int64_t Disks::next_number() {
  const std::lock_guard lock(mutex_);
  return ++last_number_;
}

std::string Disks::storage_of(const std::string& id) {
  return "disk-" + std::to_string(disks_[id].storage) + "-of-" + id;
}

bool Disks::takes(const std::string& id, std::int64_t epoch) {
  Disk& disk = disks_[id];
  if (epoch < disk.epoch) return false;
  disk.epoch = epoch;
  return true;
}

}  // namespace storm
