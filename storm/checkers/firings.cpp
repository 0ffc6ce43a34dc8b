#include "storm/checkers/firings.hpp"

#include <set>
#include <utility>

#include <fmt/format.h>

namespace storm {
namespace {

struct Firings {
  std::set<std::pair<std::int64_t, std::int64_t>> begun;
  std::set<std::int64_t> ended;
  std::set<std::int64_t> succeeded;
  std::int64_t settled = 0;
  Faults faults;
};

void note_begin(Firings& all, const Entry& entry, bool at_most_once) {
  const auto [begun, first] = all.begun.emplace(entry.a, entry.b);
  if (!first) all.faults.push_back(fmt::format("attempt {} of firing {} begins twice", entry.b, entry.a));
  if (at_most_once && entry.b > 1) all.faults.push_back(fmt::format("firing {} begins once more", entry.a));
}

void note_success(Firings& all, const Entry& entry) {
  if (!all.succeeded.insert(entry.a).second) all.faults.push_back(fmt::format("firing {} succeeds twice", entry.a));
  if (!all.ended.contains(entry.a)) {
    all.faults.push_back(fmt::format("firing {} succeeds, and has not ended", entry.a));
  }
}

}  // namespace

Faults check_firings(const History& history, bool at_most_once) {
  Firings all;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "begins") note_begin(all, entry, at_most_once);
    if (entry.what == "ended") all.ended.insert(entry.a);
    if (entry.what == "success") note_success(all, entry);
    if (entry.what == "settled") all.settled = entry.a;
  }
  if (at_most_once || all.ended.empty()) return all.faults;
  for (std::int64_t firing = *all.ended.begin(); firing <= all.settled; ++firing) {
    if (!all.ended.contains(firing))
      all.faults.push_back(fmt::format("firing {} is settled, and has not ended", firing));
  }
  return all.faults;
}

}  // namespace storm
