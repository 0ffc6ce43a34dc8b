#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "recipes/replication/fair_shares.hpp"

namespace zkrecipes::detail {

/// Which host has replicas of which partition, while a placement is worked out. Partitions and hosts are numbers here.
/// Pure, and in whole numbers: every machine gets the same.
///
/// Replicas go to those that lack most. What that cannot reach is mended by chains: a host gives one to another, which
/// gives one of another partition to a third, and so on. Chains are ways through a network: by the theory of flows there
/// is one as long as a host lacks its share. The shortest is taken.
class ZKRECIPES_INTERNAL_API ReplicaTable {
 public:
  struct Host {
    std::size_t rack = 0;
    std::uint64_t hash = 0;  ///< Of its id.
  };

  /// `partitions`: the hashes of their names.
  ReplicaTable(std::vector<std::uint64_t> partitions, std::vector<Host> hosts, FairShares shares);

  /// One that is there before.
  void keep(std::size_t partition, std::size_t host);
  /// All that is to be done. Once.
  void settle();
  const std::vector<std::size_t>& hosts_of(std::size_t partition) const { return hosts_of_[partition]; }

 private:
  using Nodes = std::vector<std::size_t>;

  bool has(std::size_t partition, std::size_t host) const;
  std::size_t on_rack(std::size_t partition, std::size_t rack) const;
  bool rack_has_room(std::size_t partition, std::size_t rack) const;
  std::uint64_t luck(std::size_t partition, std::size_t host) const;
  void take(std::size_t partition, std::size_t host);
  void drop(std::size_t partition, std::size_t host);

  void drop_too_many(std::size_t partition);
  void fill(std::size_t partition);
  void balance();

  /// Moves along a shortest way from one of `sources` to a host that `takes`; false: there is none.
  bool move_along(const Nodes& sources, const std::function<bool(std::size_t host)>& takes);
  std::size_t place_node(std::size_t partition, std::size_t rack) const;
  std::size_t partition_node(std::size_t partition) const;
  void look_around(std::size_t node);
  void reach(std::size_t node, std::size_t from);
  void follow(std::size_t node);

  const std::vector<std::uint64_t> partitions_;
  const std::vector<Host> hosts_;
  const FairShares shares_;
  std::size_t racks_ = 0;
  std::vector<Nodes> hosts_of_;
  std::vector<std::set<std::size_t>> partitions_of_;

  // Of the present search.
  struct Reached {
    std::size_t search = 0;
    std::size_t from = 0;
  };
  std::size_t search_ = 0;
  std::vector<Reached> reached_;  // By node.
  Nodes queue_;
};

}  // namespace zkrecipes::detail
