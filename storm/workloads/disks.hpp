#pragma once

#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include <zkrecipes/replica_group.hpp>

#include "storm/place.hpp"

namespace storm {

using Writes = std::vector<std::int64_t>;

/// "1,2,3", for notes.
std::string numbers_of(const Writes& writes);

/// The disks of the replicas of one history. They outlive processes, and anybody may write to them, as a primary does
/// over the network; but a disk refuses what has a lower epoch than it has seen, and what is meant for the one that it
/// was before it was emptied. Thread-safe.
class Disks {
 public:
  static Disks& of(Place& place);

  bool append(const zkrecipes::InSyncReplica& to, std::int64_t epoch, std::int64_t write);
  /// The whole log, in the place of what is there.
  bool replace(const zkrecipes::InSyncReplica& at, std::int64_t epoch, Writes writes);
  void see(const std::string& id, std::int64_t epoch);
  /// With nothing left, it is another storage, of the same id.
  void empty(const std::string& id);
  std::string storage(const std::string& id);
  /// It has no writes, and has seen no epoch.
  bool is_empty(const std::string& id);
  Writes read(const std::string& id);
  /// How many of those whose ids begin with `prefix` have all of `writes`, without the one of `id`.
  std::int64_t copies(const std::string& prefix, const std::string& id, const Writes& writes);
  /// Numbers of writes, each of them once.
  std::int64_t next_number();

 private:
  struct Disk {
    int storage = 0;
    std::int64_t epoch = 0;
    Writes writes;
  };
  std::string storage_of(const std::string& id);
  bool takes(const std::string& id, std::int64_t epoch);

  std::mutex mutex_;
  std::map<std::string, Disk> disks_;
  std::int64_t last_number_ = 0;
};

}  // namespace storm
