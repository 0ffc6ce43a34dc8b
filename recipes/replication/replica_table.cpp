#include "recipes/replication/replica_table.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace zkrecipes::detail {
namespace {

constexpr std::size_t nowhere = std::numeric_limits<std::size_t>::max();

/// The finaliser of splitmix64.
constexpr std::uint64_t scatter(std::uint64_t bits) noexcept {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

}  // namespace

// The network: hosts, then a place for each partition and rack, then the partitions.
//   host -> place        it gives its replica up
//   place -> host        another host of the rack takes it
//   place -> partition   another rack shall have it
//   partition -> place   a rack that has room
ReplicaTable::ReplicaTable(std::vector<std::uint64_t> partitions, std::vector<Host> hosts, FairShares shares)
    : partitions_(std::move(partitions)), hosts_(std::move(hosts)), shares_(std::move(shares)) {
  for (const Host& host : hosts_)
    racks_ = std::max(racks_, host.rack + 1);
  hosts_of_.resize(partitions_.size());
  partitions_of_.resize(hosts_.size());
  reached_.resize(hosts_.size() + partitions_.size() * (racks_ + 1));
}

bool ReplicaTable::has(std::size_t partition, std::size_t host) const {
  return partitions_of_[host].contains(partition);
}
std::size_t ReplicaTable::on_rack(std::size_t partition, std::size_t rack) const {
  const Nodes& hosts = hosts_of_[partition];
  return static_cast<std::size_t>(
      std::count_if(hosts.begin(), hosts.end(), [&](std::size_t host) { return hosts_[host].rack == rack; }));
}
bool ReplicaTable::rack_has_room(std::size_t partition, std::size_t rack) const {
  return on_rack(partition, rack) < shares_.per_rack;
}
std::uint64_t ReplicaTable::luck(std::size_t partition, std::size_t host) const {
  return scatter(partitions_[partition] ^ scatter(hosts_[host].hash));
}
void ReplicaTable::take(std::size_t partition, std::size_t host) {
  hosts_of_[partition].push_back(host);
  partitions_of_[host].insert(partition);
}
void ReplicaTable::drop(std::size_t partition, std::size_t host) {
  std::erase(hosts_of_[partition], host);
  partitions_of_[host].erase(partition);
}

void ReplicaTable::keep(std::size_t partition, std::size_t host) {
  if (!has(partition, host)) take(partition, host);
}

void ReplicaTable::settle() {
  if (hosts_.empty()) return;
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition)
    drop_too_many(partition);
  for (std::size_t partition = 0; partition < partitions_.size(); ++partition)
    fill(partition);
  balance();
}

/// Of those that there may not be, the host goes that has most beyond its share.
void ReplicaTable::drop_too_many(std::size_t partition) {
  const auto surplus = [&](std::size_t host) {
    const auto beyond =
        static_cast<std::int64_t>(partitions_of_[host].size()) - static_cast<std::int64_t>(shares_.of[host].low);
    return std::tuple(beyond, luck(partition, host), host);
  };
  for (;;) {
    const bool too_many = hosts_of_[partition].size() > shares_.replicas;
    std::size_t worst = nowhere;
    for (const std::size_t host : hosts_of_[partition]) {
      if (!too_many && on_rack(partition, hosts_[host].rack) <= shares_.per_rack) continue;
      if (worst == nowhere || surplus(host) > surplus(worst)) worst = host;
    }
    if (worst == nowhere) return;
    drop(partition, worst);
  }
}

void ReplicaTable::fill(std::size_t partition) {
  const auto lack = [&](std::size_t host) {
    const auto missing =
        static_cast<std::int64_t>(shares_.of[host].low) - static_cast<std::int64_t>(partitions_of_[host].size());
    return std::tuple(missing, luck(partition, host), host);
  };
  const auto has_room = [&](std::size_t host) { return partitions_of_[host].size() < shares_.of[host].high; };
  while (hosts_of_[partition].size() < shares_.replicas) {
    std::size_t best = nowhere;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (!has_room(host) || has(partition, host) || !rack_has_room(partition, hosts_[host].rack)) continue;
      if (best == nowhere || lack(host) > lack(best)) best = host;
    }
    if (best != nowhere) {
      take(partition, best);
    } else if (!move_along({partition_node(partition)}, has_room)) {
      return;
    }
  }
}

void ReplicaTable::balance() {
  const auto load = [&](std::size_t host) { return partitions_of_[host].size(); };
  const auto has_room = [&](std::size_t host) { return load(host) < shares_.of[host].high; };
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    while (load(host) > shares_.of[host].high && move_along({host}, has_room)) {
    }
  }
  for (std::size_t host = 0; host < hosts_.size(); ++host) {
    const auto is_it = [host](std::size_t reached) { return reached == host; };
    for (bool moved = true; moved && load(host) < shares_.of[host].low;) {
      Nodes rich;
      for (std::size_t other = 0; other < hosts_.size(); ++other) {
        if (load(other) > shares_.of[other].low) rich.push_back(other);
      }
      moved = move_along(rich, is_it);
    }
  }
}

// --- Chains ----------------------------------------------------------------------------------------------------------

std::size_t ReplicaTable::place_node(std::size_t partition, std::size_t rack) const {
  return hosts_.size() + partition * racks_ + rack;
}
std::size_t ReplicaTable::partition_node(std::size_t partition) const {
  return hosts_.size() + partitions_.size() * racks_ + partition;
}

bool ReplicaTable::move_along(const Nodes& sources, const std::function<bool(std::size_t host)>& takes) {
  ++search_;
  queue_.clear();
  for (const std::size_t source : sources)
    reach(source, nowhere);
  for (std::size_t i = 0; i < queue_.size(); ++i) {
    const std::size_t node = queue_[i];
    if (node < hosts_.size() && reached_[node].from != nowhere && takes(node)) {
      follow(node);
      return true;
    }
    look_around(node);
  }
  return false;
}

void ReplicaTable::reach(std::size_t node, std::size_t from) {
  if (reached_[node].search == search_) return;
  reached_[node] = {search_, from};
  queue_.push_back(node);
}

void ReplicaTable::look_around(std::size_t node) {
  if (node < hosts_.size()) {
    for (const std::size_t partition : partitions_of_[node])
      reach(place_node(partition, hosts_[node].rack), node);
  } else if (node < partition_node(0)) {
    const std::size_t partition = (node - hosts_.size()) / racks_;
    const std::size_t rack = (node - hosts_.size()) % racks_;
    for (std::size_t host = 0; host < hosts_.size(); ++host) {
      if (hosts_[host].rack == rack && !has(partition, host)) reach(host, node);
    }
    reach(partition_node(partition), node);
  } else {
    const std::size_t partition = node - partition_node(0);
    for (std::size_t rack = 0; rack < racks_; ++rack) {
      if (rack_has_room(partition, rack)) reach(place_node(partition, rack), node);
    }
  }
}

/// Backwards from the last taker: each host on the way takes from the place before it, and gives to the one behind it.
void ReplicaTable::follow(std::size_t node) {
  const auto partition_at = [this](std::size_t place) { return (place - hosts_.size()) / racks_; };
  std::vector<std::pair<std::size_t, std::size_t>> given;
  std::vector<std::pair<std::size_t, std::size_t>> taken;
  for (std::size_t from = reached_[node].from; from != nowhere; node = from, from = reached_[node].from) {
    if (node < hosts_.size()) taken.emplace_back(partition_at(from), node);
    if (from < hosts_.size()) given.emplace_back(partition_at(node), from);
  }
  for (const auto& [partition, host] : given)
    drop(partition, host);
  for (const auto& [partition, host] : taken)
    take(partition, host);
}

}  // namespace zkrecipes::detail
