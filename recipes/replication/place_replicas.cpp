#include <algorithm>
#include <numeric>
#include <string_view>
#include <utility>

#include <zkclient/error.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/place_replicas.hpp>

#include "recipes/replication/replica_table.hpp"

namespace zkrecipes {
namespace {

using zkclient::Errc;

constexpr const char* placing = "place_replicas";

[[noreturn]] void refuse_placement(std::string_view why, std::string_view which = {}) {
  throw zkclient::Error(Errc::invalid_argument, placing, which, why);
}

/// Names in an order of their own, which has nothing to do with that of the list.
std::vector<std::string_view> sorted_names(const std::vector<std::string>& names) {
  std::vector<std::string_view> sorted(names.begin(), names.end());
  std::sort(sorted.begin(), sorted.end());
  const auto twice = std::adjacent_find(sorted.begin(), sorted.end());
  if (twice != sorted.end()) refuse_placement("two partitions have one name", *twice);
  return sorted;
}

/// Those with weight, ordered by id.
std::vector<const ReplicaHost*> able_hosts(const std::vector<ReplicaHost>& hosts) {
  std::vector<const ReplicaHost*> sorted;
  for (const ReplicaHost& host : hosts) {
    if (host.weight > max_weight) refuse_placement("the weight is too large", host.id);
    sorted.push_back(&host);
  }
  std::sort(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->id < b->id; });
  const auto twice =
      std::adjacent_find(sorted.begin(), sorted.end(), [](const auto* a, const auto* b) { return a->id == b->id; });
  if (twice != sorted.end()) refuse_placement("two hosts have one id", (*twice)->id);
  std::erase_if(sorted, [](const auto* host) { return host->weight == 0; });
  return sorted;
}

std::vector<std::size_t> racks_of(const std::vector<const ReplicaHost*>& hosts) {
  std::map<std::pair<bool, std::string_view>, std::size_t> numbers;
  std::vector<std::size_t> racks;
  for (const ReplicaHost* host : hosts) {
    const bool own = host->rack.empty();
    racks.push_back(numbers.try_emplace({own, own ? host->id : host->rack}, numbers.size()).first->second);
  }
  return racks;
}

}  // namespace

Placement place_replicas(const std::vector<std::string>& partitions, const std::vector<ReplicaHost>& hosts,
                         std::size_t replicas, const Placement& before) {
  if (replicas == 0 || replicas > max_replicas) refuse_placement("the number of replicas must be from 1 to 64");
  const std::vector<std::string_view> names = sorted_names(partitions);
  const std::vector<const ReplicaHost*> able = able_hosts(hosts);
  const std::vector<std::size_t> racks = racks_of(able);

  std::vector<detail::ShareTaker> takers;
  std::vector<detail::ReplicaTable::Host> columns;
  std::map<std::string_view, std::size_t> numbers;
  for (std::size_t i = 0; i < able.size(); ++i) {
    takers.push_back({able[i]->weight, racks[i]});
    columns.push_back({racks[i], hash_of(able[i]->id)});
    numbers.emplace(able[i]->id, i);
  }
  std::vector<std::uint64_t> rows;
  for (const std::string_view name : names)
    rows.push_back(hash_of(name));
  detail::ReplicaTable table(std::move(rows), std::move(columns), detail::fair_shares(names.size(), replicas, takers));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const auto placed = before.find(names[i]);
    if (placed == before.end()) continue;
    for (const std::string& id : placed->second) {
      if (const auto host = numbers.find(id); host != numbers.end()) table.keep(i, host->second);
    }
  }
  table.settle();

  Placement result;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<std::string>& ids = result[std::string(names[i])];
    for (const std::size_t host : table.hosts_of(i))
      ids.push_back(able[host]->id);
    std::sort(ids.begin(), ids.end());
  }
  return result;
}

}  // namespace zkrecipes
