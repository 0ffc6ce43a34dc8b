#include "storm/checkers/placements.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "storm/checkers/agreements.hpp"

namespace storm {
namespace {

constexpr const char* of_partitions[] = {"acquired", "valid", "took over", "acknowledged"};

/// The histories of all partitions, in which their names are left out.
std::map<std::string, History> partitions_of(const History& history) {
  std::map<std::string, History> all;
  for (const Entry& entry : history.entries()) {
    if (std::ranges::count(of_partitions, entry.what) > 0) all[entry.text.substr(0, entry.text.find(' '))];
  }
  for (Entry entry : history.entries()) {
    if (std::ranges::count(of_partitions, entry.what) > 0) {
      const std::size_t end = entry.text.find(' ');
      const std::string name = entry.text.substr(0, end);
      entry.text = end == std::string::npos ? "" : entry.text.substr(end + 1);
      all[name].add(entry);
    } else if (entry.what == "calm" || entry.what == "killed") {
      for (auto& [name, one] : all)
        one.add(entry);
    }
  }
  return all;
}

void judge_settled(const Entry& entry, const PlacementPromises& promises, Faults& faults) {
  std::istringstream text(entry.text);
  std::string partition;
  std::set<std::string> hosts;
  std::set<std::string> racks;
  text >> partition;
  for (std::string replica; text >> replica;) {
    hosts.insert(replica.substr(0, replica.find(':')));
    racks.insert(replica.substr(replica.find(':') + 1));
  }
  const auto wanted = static_cast<std::size_t>(std::min(promises.replicas, entry.a));
  if (hosts.size() != wanted)
    faults.push_back(fmt::format("partition {} ends with replicas on {} hosts, and {} are wanted: {}", partition,
                                 hosts.size(), wanted, entry.text));
  if (racks.size() < std::min(wanted, static_cast<std::size_t>(entry.b)))
    faults.push_back(
        fmt::format("partition {} has two replicas on one rack of {}: {}", partition, entry.b, entry.text));
}

}  // namespace

Faults check_placements(const History& history, const PlacementPromises& promises) {
  Faults faults;
  bool settled = false;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "given up" && entry.a < promises.minimum)
      faults.push_back(fmt::format("{} gives a replica of partition {} up, and {} others have all its writes",
                                   entry.who, entry.text, entry.a));
    if (entry.what == "given up" && entry.b < promises.least_in_sync)
      faults.push_back(
          fmt::format("{} gives a replica of partition {} up, and {} others have all that was acknowledged", entry.who,
                      entry.text, entry.b));
    if (entry.what == "not settled") faults.push_back(fmt::format("{} sees at the end: {}", entry.who, entry.text));
    if (entry.what != "settled") continue;
    settled = true;
    judge_settled(entry, promises, faults);
  }
  if (!settled) faults.emplace_back("nobody has seen where the replicas are in the end");
  for (const auto& [name, one] : partitions_of(history)) {
    for (const std::string& fault :
         all_of({check_leases(one, 1), check_replicas(one), check_progress(one, "acknowledged")}))
      faults.push_back(fmt::format("{} of partition {}", fault, name));
  }
  return faults;
}

}  // namespace storm
