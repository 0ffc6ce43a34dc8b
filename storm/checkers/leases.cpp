#include <algorithm>
#include <limits>
#include <map>
#include <utility>

#include <fmt/format.h>

#include "storm/checkers/checkers.hpp"

namespace storm {
namespace {

/// From the acquisition to the last time at which it was known to be valid.
struct Holding {
  std::string who;
  std::int64_t token = 0;
  bool shared = false;
  Nanos acquired{};
  Nanos last_valid{};
};

std::vector<Holding> holdings_of(const History& history) {
  std::vector<Holding> holdings;
  std::map<std::pair<std::string, std::int64_t>, std::size_t> current;
  for (const Entry& entry : history.entries()) {
    const auto key = std::pair(entry.who, entry.a);
    if (entry.what == "acquired") {
      current[key] = holdings.size();
      holdings.push_back({entry.who, entry.a, entry.b == 1, entry.at, entry.at});
    } else if (entry.what == "valid" && current.contains(key)) {
      Holding& holding = holdings[current[key]];
      holding.last_valid = std::max(holding.last_valid, entry.at);
    }
  }
  std::stable_sort(holdings.begin(), holdings.end(),
                   [](const Holding& a, const Holding& b) { return a.acquired < b.acquired; });
  return holdings;
}

std::string to_string(const Holding& holding) {
  return fmt::format("{} with token {} from {} to {} us", holding.who, holding.token, holding.acquired.count() / 1000,
                     holding.last_valid.count() / 1000);
}

/// How many that conflict with `holding` are valid when it begins, itself included.
std::vector<const Holding*> valid_beside(const std::vector<Holding>& holdings, const Holding& holding) {
  std::vector<const Holding*> beside;
  for (const Holding& other : holdings) {
    const bool conflict = !holding.shared || !other.shared;
    if (&other != &holding && conflict && other.acquired <= holding.acquired && holding.acquired < other.last_valid)
      beside.push_back(&other);
  }
  return beside;
}

Faults check_overlaps(const std::vector<Holding>& holdings, std::size_t most) {
  Faults faults;
  for (const Holding& holding : holdings) {
    const auto beside = valid_beside(holdings, holding);
    if (beside.size() + 1 > most)
      faults.push_back("valid at once: " + to_string(holding) + ", and " + to_string(*beside.front()));
  }
  return faults;
}

}  // namespace

Faults check_leases(const History& history, int most) {
  const std::vector<Holding> holdings = holdings_of(history);
  Faults faults = check_overlaps(holdings, static_cast<std::size_t>(most));
  if (most != 1) return faults;
  for (std::size_t i = 1; i < holdings.size(); ++i) {
    if (holdings[i].token <= holdings[i - 1].token)
      faults.push_back("a token that does not grow: " + to_string(holdings[i - 1]) + ", then " +
                       to_string(holdings[i]));
  }
  return faults;
}

Faults check_shared_leases(const History& history) { return check_overlaps(holdings_of(history), 1); }

}  // namespace storm
