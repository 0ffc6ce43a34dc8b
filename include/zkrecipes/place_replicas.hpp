#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <zkclient/export.hpp>

/// Which hosts shall have which replicas, worked out: pure, so without I/O and without state. A Placer (placement.hpp) does
/// what comes out; it is good for itself, too.
namespace zkrecipes {

/// A process that can have replicas.
struct ReplicaHost {
  std::string id;            ///< No other host of the list has it.
  std::string rack = {};     ///< Hosts that fail together have the same one. "": a rack of its own.
  std::uint32_t weight = 1;  ///< Its share of the sum of all weights. 0: it gets nothing. At most max_weight.

  friend bool operator==(const ReplicaHost&, const ReplicaHost&) = default;
};

/// By the names of partitions: the ids of the hosts that have a replica, ordered.
using Placement = std::map<std::string, std::vector<std::string>, std::less<>>;

/// The most replicas that a partition can have.
inline constexpr std::size_t max_replicas = 64;

/// Where the replicas of each partition shall be.
///
/// Each partition gets `replicas` of them, on different hosts; fewer if fewer hosts have weight. If there are that many
/// racks, no two replicas of a partition are on one rack; else each rack has as few of a partition as possible.
///
/// Balance: a host's share is proportional to its weight, as far as hosts and racks can have that much: a host has each
/// partition once at most. A host gets its share, rounded up or down.
///
/// `before`: where they are now. What can stay stays: with the same hosts nothing moves. Hosts and partitions that are
/// not in the lists count for nothing. Measured, with 3 replicas of 1,024 partitions and a host that joins ten others:
/// it gets its share, and nothing else moves.
///
/// The result does not depend on the order of the lists, and is the same on every machine. Time: at least P * M for P
/// partitions and M hosts. Errors: invalid_argument (`replicas` is 0 or above max_replicas, a weight above max_weight,
/// two hosts with one id, or two partitions of one name). Throws std::bad_alloc.
ZKRECIPES_API Placement place_replicas(const std::vector<std::string>& partitions,
                                       const std::vector<ReplicaHost>& hosts, std::size_t replicas,
                                       const Placement& before = {});

}  // namespace zkrecipes
