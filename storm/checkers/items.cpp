#include <algorithm>
#include <map>
#include <set>

#include <fmt/format.h>

#include "storm/checkers/checkers.hpp"

namespace storm {

Faults check_queue(const History& history, bool in_order) {
  Faults faults;
  std::set<std::int64_t> pushed;
  std::set<std::int64_t> maybe_pushed;
  std::map<std::int64_t, int> popped;
  std::map<std::int64_t, std::int64_t> last_of_producer;  // Items count up by producer: number % 1000.
  int pops_in_doubt = 0;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "pushed") pushed.insert(entry.a);
    if (entry.what == "pushing") maybe_pushed.insert(entry.a);
    if (entry.what == "pop in doubt") ++pops_in_doubt;
    if (entry.what != "popped") continue;
    if (!maybe_pushed.contains(entry.a)) faults.push_back(fmt::format("item {} was never pushed", entry.a));
    if (++popped[entry.a] > 1) faults.push_back(fmt::format("item {} was popped twice", entry.a));
    std::int64_t& last = last_of_producer[entry.a % 1000];
    if (in_order && entry.a < last) faults.push_back(fmt::format("item {} came after {}", entry.a, last));
    last = std::max(last, entry.a);
  }
  std::int64_t missing = 0;
  for (const std::int64_t item : pushed) {
    if (!popped.contains(item)) ++missing;
  }
  if (missing > pops_in_doubt)
    faults.push_back(fmt::format("{} items were lost, and {} pops are in doubt", missing, pops_in_doubt));
  return faults;
}

Faults check_counter(const History& history) {
  Faults faults;
  std::map<std::int64_t, const Entry*> steps;  // By what they began with.
  std::map<std::string, std::int64_t> floors;  // What the count had reached when an addition was asked for.
  std::int64_t reached = 0;
  std::int64_t sum = 0;
  std::int64_t doubtful = 0;
  const Entry* total = nullptr;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "adding") {
      ++doubtful;  // Until it is known to be added, or not.
      floors[entry.who] = reached;
    }
    if (entry.what == "not added") --doubtful;
    if (entry.what == "total") total = &entry;
    if (entry.what != "added") continue;
    --doubtful;
    sum += entry.b - entry.a;
    reached = std::max(reached, entry.b);
    if (entry.a < floors[entry.who])
      faults.push_back(
          fmt::format("{} began with {}, though {} had been reached", entry.who, entry.a, floors[entry.who]));
    const auto [step, first] = steps.emplace(entry.a, &entry);
    if (!first)
      faults.push_back(fmt::format("two additions began with {}: {} and {}", entry.a, step->second->who, entry.who));
  }
  if (total == nullptr) {
    faults.push_back("nobody has read the total");
  } else if (total->a < sum || total->a > sum + doubtful) {
    faults.push_back(fmt::format("the total is {}, {} were added and {} are in doubt", total->a, sum, doubtful));
  }
  return faults;
}

Faults check_progress(const History& history, const std::string& what) {
  bool calm = false;
  bool done = false;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "calm") calm = true;
    if (calm && entry.what == what && entry.who != "end") done = true;
  }
  if (calm && !done) return {"after the last fault nobody has " + what + " anything"};
  return {};
}

}  // namespace storm
