#pragma once

#include <cstdint>

#include "storm/checkers/checkers.hpp"

/// Judges of many partitions whose replicas are placed on hosts.
namespace storm {

/// What a placement promises.
struct PlacementPromises {
  std::int64_t replicas = 3;       ///< Of each partition, in the end.
  std::int64_t minimum = 1;        ///< So many others have what a replica had that is given up.
  std::int64_t least_in_sync = 1;  ///< So many have what is acknowledged, at any time.
};

/// Each entry that tells of a partition has its name first in its text, then a space, perhaps, and what else it tells.
/// Of each partition: leases ("acquired", "valid": a is the epoch) are never valid twice, a new primary ("took over") has
/// each write that was "acknowledged", as check_replicas() says, and it goes on after the last fault. A replica is "given up"
/// (a: how many others have all writes that were acknowledged before it was known to be needed for the last time; b: how
/// many have all that was acknowledged since, too) only while `minimum`, and `least_in_sync`, others are there. At the end
/// each process sees each partition "settled" (a: how many hosts there are, b: on how many racks; text: the partition, and
/// for each replica, behind a space, "<host>:<rack>"): with all its replicas, as far as there are hosts, on different racks,
/// as far as there are racks. "not settled" (text) is what else it sees: a copy that should have been erased, say.
Faults check_placements(const History& history, const PlacementPromises& promises);

}  // namespace storm
