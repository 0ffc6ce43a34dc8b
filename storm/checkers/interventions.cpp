#include "storm/checkers/interventions.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>

#include <fmt/format.h>

namespace storm {
namespace {

std::set<std::int64_t> numbers_in(const std::string& text) {
  std::set<std::int64_t> all;
  for (std::size_t at = 0; at < text.size(); at = std::min(text.find(',', at), text.size() - 1) + 1)
    all.insert(std::stoll(text.substr(at)));
  return all;
}

/// When each token was about to be broken, and when it was.
struct Breaks {
  std::map<std::int64_t, Nanos> began;
  std::map<std::int64_t, Nanos> done;
};

Breaks breaks_in(const History& history) {
  Breaks breaks;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "breaking") breaks.began.emplace(entry.a, entry.at);
    if (entry.what == "broken") breaks.done.emplace(entry.a, entry.at);
  }
  return breaks;
}

}  // namespace

Faults check_broken_leases(const History& history, Nanos most) {
  const Breaks breaks = breaks_in(history);
  Faults faults;
  History judged;
  for (const Entry& entry : history.entries()) {
    const auto began = breaks.began.find(entry.a);
    // Its holder may hear of the grant later than of anything.
    const bool of_lease = entry.what == "valid" || entry.what == "acquired";
    const bool doomed = of_lease && began != breaks.began.end() && began->second <= entry.at;
    if (!doomed) judged.add(entry);
    const auto done = breaks.done.find(entry.a);
    if (doomed && done != breaks.done.end() && done->second + most < entry.at)
      faults.push_back(fmt::format("{} holds {} at {} us, which was broken at {} us", entry.who, entry.a,
                                   entry.at.count() / 1000, done->second.count() / 1000));
  }
  for (const std::string& fault : check_leases(judged, 1))
    faults.push_back(fault);
  return faults;
}

Faults check_counts(const History& history) {
  std::map<std::string, std::int64_t> staying;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "stay") ++staying[entry.text];
  }
  Faults faults;
  bool somebody = false;
  for (const Entry& entry : history.entries()) {
    if (entry.what != "counts") continue;
    somebody = true;
    if (entry.a != staying[entry.text])
      faults.push_back(
          fmt::format("{} counts {} {}, and there are {}", entry.who, entry.a, entry.text, staying[entry.text]));
  }
  if (!somebody) faults.push_back("nobody counts anything");
  return faults;
}

Faults check_mortal_gate(const History& history) {
  Faults faults;
  constexpr std::chrono::seconds most_under_way(60);  // A request whose sender has ended, or was given up.
  std::map<std::string, Nanos> lowering;              // Since when.
  std::set<std::string> raising;
  std::set<std::pair<std::string, std::int64_t>> knows;  // That it is up, in a session.
  for (const Entry& entry : history.entries()) {
    if (entry.what == "still up") faults.push_back("the gate is up, and all have gone");
    if (entry.what == "lowering") {
      lowering[entry.who] = entry.at;
      raising.clear();
      knows.clear();
    }
    if (entry.what == "lowered") lowering.erase(entry.who);
    if (entry.what == "killed") raising.erase(entry.who);
    const auto under_way = [&](const auto& one) { return entry.at - one.second < most_under_way; };
    if (entry.what == "raising" && std::none_of(lowering.begin(), lowering.end(), under_way)) raising.insert(entry.who);
    if (entry.what == "up" && raising.erase(entry.who) != 0) knows.emplace(entry.who, entry.a);
    if (entry.what == "passed" && knows.contains({entry.who, entry.a}))
      faults.push_back(entry.who + " has passed a gate that it has put up in the same session, and nobody lowered it");
  }
  return faults;
}

Faults check_nothing_in_doubt(const History& history) {
  Faults faults;
  constexpr std::chrono::seconds most_under_way(10);              // Until that is done.
  std::map<std::pair<std::string, std::string>, Nanos> resolved;  // By whom, and which.
  for (const Entry& entry : history.entries()) {
    const std::pair one(entry.who, entry.text.substr(0, entry.text.find(' ')));
    if (entry.what == "resolved") resolved.emplace(one, entry.at);
    if (entry.what == "log lost" || entry.what == "killed")  // It is asked anew.
      std::erase_if(resolved, [&](const auto& known) { return known.first.first == entry.who; });
    const auto before = resolved.find(one);
    if (entry.what == "in doubt" && before != resolved.end() && before->second + most_under_way < entry.at)
      faults.push_back(fmt::format("{}: {} is in doubt at {}, and was resolved", one.second, entry.text, one.first));
  }
  return faults;
}

Faults check_served(const History& history) {
  Faults faults;
  std::vector<Entry> entries = history.entries();  // Written down late by who was stopped meanwhile.
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.at < b.at; });
  std::set<std::int64_t> acknowledged;
  for (const Entry& entry : entries) {
    if (entry.what == "acknowledged") acknowledged.insert(entry.a);
    if (entry.what == "given up") acknowledged.clear();
    if (entry.what != "served") continue;
    const std::set<std::int64_t> shown = numbers_in(entry.text);
    for (const std::int64_t write : acknowledged) {
      if (!shown.contains(write))
        faults.push_back(fmt::format("{} serves a read without write {}, which was acknowledged", entry.who, write));
    }
  }
  return faults;
}

}  // namespace storm
