#include "storm/checkers/agreements.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <tuple>
#include <utility>

#include <fmt/format.h>

namespace storm {
namespace {

std::set<std::string> split(const std::string& names) {
  std::set<std::string> parts;
  std::istringstream stream(names);
  for (std::string part; std::getline(stream, part, ',');)
    parts.insert(part);
  return parts;
}

}  // namespace

Faults all_of(std::initializer_list<Faults> faults) {
  Faults all;
  for (const Faults& some : faults)
    all.insert(all.end(), some.begin(), some.end());
  return all;
}

Faults check_named_leases(const History& history, int shared_most) {
  std::map<std::string, History> by_name;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "acquired" || entry.what == "valid") by_name[entry.text].add(entry);
  }
  Faults faults;
  for (const auto& [name, one] : by_name) {
    for (const std::string& fault : check_leases(one, name.starts_with("shared") ? shared_most : 1))
      faults.push_back(fmt::format("{}: {}", name, fault));
  }
  return faults;
}

Faults check_named_progress(const History& history, const std::string& what) {
  std::set<std::string> missing;
  bool calm = false;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "calm") calm = true;
    if (calm && what == "acquired" && entry.what == "valid") missing.erase(entry.text);
    if (entry.what != what) continue;
    if (calm) {
      missing.erase(entry.text);
    } else {
      missing.insert(entry.text);
    }
  }
  Faults faults;
  for (const std::string& name : missing) {
    if (calm) faults.push_back(fmt::format("after the last fault nobody has {} {}", what, name));
  }
  return faults;
}

Faults check_gone(const History& history) {
  std::map<std::int64_t, const Entry*> gone;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "gone") gone.emplace(entry.a, &entry);
  }
  Faults faults;
  for (const Entry& entry : history.entries()) {
    if (entry.what != "valid") continue;
    const auto before = gone.find(entry.a);
    if (before != gone.end() && before->second->at < entry.at)
      faults.push_back(fmt::format("{} holds {} at {} us, which {} has seen gone at {} us", entry.who, entry.a,
                                   entry.at.count() / 1000, before->second->who, before->second->at.count() / 1000));
  }
  return faults;
}

Faults check_depth(const History& history) {
  Faults faults;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "depth" && entry.a != entry.b)
      faults.push_back(fmt::format("{} has locked {} times, and is told {}", entry.who, entry.a, entry.b));
  }
  return faults;
}

Faults check_terms(const History& history) {
  Faults faults;
  std::set<std::string> in_term;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "term begins" && !in_term.insert(entry.who).second)
      faults.push_back(entry.who + " has two terms at once");
    if (entry.what == "term ends" || entry.what == "killed") in_term.erase(entry.who);
  }
  return faults;
}

Faults check_drained_order(const History& history) {
  Faults faults;
  const Entry* last = nullptr;
  for (const Entry& entry : history.entries()) {
    if (entry.what != "drained") continue;
    if (last != nullptr && entry.b < last->b)
      faults.push_back(fmt::format("item {} of priority {} came after {} of {}", entry.a, entry.b, last->a, last->b));
    last = &entry;
  }
  return faults;
}

namespace {

/// What is known of one transaction.
struct Agreement {
  std::set<std::string> participants;
  std::set<std::string> against;
  std::set<std::string> prepared;
  std::set<std::string> committed;
  std::set<std::string> aborted;
  std::set<std::string> in_doubt;
  bool told_commit = false;
  bool told_abort = false;
};

std::string names_of(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : " ") + name;
  return text;
}

/// After each entry of the history.
void judge_order(const std::string& name, const Agreement& one, const Entry& entry, Faults& faults) {
  if (entry.what == "committed" && !one.against.empty())
    faults.push_back(fmt::format("{}: {} committed, {} was against it", name, entry.who, names_of(one.against)));
  if (entry.what == "committed" && one.prepared != one.participants)
    faults.push_back(
        fmt::format("{}: {} committed, and only {} had prepared it", name, entry.who, names_of(one.prepared)));
  if (entry.what == "decided" && entry.a == 1 && entry.b == 1 && one.committed != one.participants)
    faults.push_back(fmt::format("{}: {} was told that all have applied it, and only {} had", name, entry.who,
                                 names_of(one.committed)));
}

void judge_end(const std::string& name, const Agreement& one, Faults& faults) {
  if (!one.committed.empty() && !one.aborted.empty())
    faults.push_back(fmt::format("{}: {} committed, {} aborted", name, names_of(one.committed), names_of(one.aborted)));
  if (one.told_commit && !one.aborted.empty())
    faults.push_back(fmt::format("{}: its coordinator was told of a commit, {} aborted", name, names_of(one.aborted)));
  if (one.told_abort && !one.committed.empty())
    faults.push_back(
        fmt::format("{}: its coordinator was told of an abort, {} committed", name, names_of(one.committed)));
  if (one.committed.empty() && !one.told_commit) return;
  for (const std::string& participant : one.participants) {
    if (!one.committed.contains(participant) && !one.in_doubt.contains(participant))
      faults.push_back(fmt::format("{}: {} has neither committed it, nor is it in doubt there", name, participant));
  }
}

}  // namespace

Faults check_commits(const History& history) {
  Faults faults;
  std::map<std::string, Agreement> all;
  for (const Entry& entry : history.entries()) {
    const std::string name = entry.text.substr(0, entry.text.find(' '));
    if (entry.what == "begun") {
      if (all.contains(name)) faults.push_back(name + " was begun twice");
      all[name].participants = split(entry.text.substr(name.size() + 1));
    }
    if (!all.contains(name)) continue;
    Agreement& one = all[name];
    if (entry.what == "prepared") (entry.a == 1 ? one.prepared : one.against).insert(entry.who);
    if (entry.what == "committed") one.committed.insert(entry.who);
    if (entry.what == "aborted") one.aborted.insert(entry.who);
    if (entry.what == "in doubt") one.in_doubt.insert(entry.who);
    if (entry.what == "decided") (entry.a == 1 ? one.told_commit : one.told_abort) = true;
    judge_order(name, one, entry, faults);
  }
  for (const auto& [name, one] : all)
    judge_end(name, one, faults);
  return faults;
}

namespace {

constexpr std::int64_t most_changes = 1'000'000;

/// Whoever looks sees what was moved before, at least.
Faults check_sights(const History& history) {
  Faults faults;
  std::map<std::int64_t, std::int64_t> known;  // Changes by account.
  std::map<std::string, std::map<std::int64_t, std::int64_t>> known_before;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "looking") known_before[entry.who] = known;
    if (entry.what == "seen" && entry.a % most_changes < known_before[entry.who][entry.a / most_changes])
      faults.push_back(fmt::format("{} has seen account {} after {} changes, and {} were known", entry.who,
                                   entry.a / most_changes, entry.a % most_changes,
                                   known_before[entry.who][entry.a / most_changes]));
    if (entry.what != "moved") continue;
    for (const std::int64_t change : {entry.a, entry.b})
      known[change / most_changes] = std::max(known[change / most_changes], change % most_changes);
  }
  return faults;
}

}  // namespace

Faults check_transfers(const History& history, std::int64_t total) {
  Faults faults = check_sights(history);
  std::set<std::int64_t> changes;
  std::map<std::int64_t, std::int64_t> moved;  // By account.
  std::int64_t doubtful = 0;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "moving") ++doubtful;
    if (entry.what == "moved" || entry.what == "not moved") --doubtful;
    if (entry.what == "sum" && entry.a != total)
      faults.push_back(fmt::format("{} has seen a sum of {}, not of {}", entry.who, entry.a, total));
    if (entry.what != "moved") continue;
    for (const std::int64_t change : {entry.a, entry.b}) {
      ++moved[change / most_changes];
      if (!changes.insert(change).second)
        faults.push_back(
            fmt::format("change {} of account {} was made twice", change % most_changes, change / most_changes));
    }
  }
  for (const Entry& entry : history.entries()) {
    if (entry.what != "changes") continue;
    if (entry.b < moved[entry.a] || entry.b > moved[entry.a] + doubtful)
      faults.push_back(fmt::format("account {} has changed {} times, and was changed {} times, {} are in doubt",
                                   entry.a, entry.b, moved[entry.a], doubtful));
  }
  return faults;
}

Faults check_ids(const History& history) {
  Faults faults;
  std::map<std::pair<std::string, std::int64_t>, std::string> owners;
  std::map<std::tuple<std::string, std::string, std::int64_t>, std::int64_t> last;
  for (const Entry& entry : history.entries()) {
    if (entry.what != "id") continue;
    const auto [owner, first] = owners.emplace(std::pair(entry.text, entry.a), entry.who);
    if (!first)
      faults.push_back(fmt::format("{} {} came twice: to {} and to {}", entry.text, entry.a, owner->second, entry.who));
    const auto [before, none] = last.emplace(std::tuple(entry.text, entry.who, entry.b), entry.a);
    if (!none && entry.a <= before->second)
      faults.push_back(fmt::format("{} {} came to {} after {}", entry.text, entry.a, entry.who, before->second));
    before->second = entry.a;
  }
  return faults;
}

Faults check_members(const History& history) {
  std::set<std::string> staying;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "stays") staying.insert(entry.who);
  }
  std::set<std::string> certain = staying;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "left") certain.erase(entry.who);
  }
  Faults faults;
  bool somebody = false;
  for (const Entry& entry : history.entries()) {
    if (entry.what != "sees") continue;
    somebody = true;
    const std::set<std::string> seen = split(entry.text);
    if (!std::ranges::includes(seen, certain) || !std::ranges::includes(staying, seen))
      faults.push_back(fmt::format("{} sees {}, and there are {}", entry.who, entry.text, names_of(staying)));
  }
  if (!somebody) faults.push_back("nobody sees anything");
  return faults;
}

Faults check_revisions(const History& history) {
  Faults faults;
  std::map<std::string, std::string> publishing;  // By process.
  std::map<std::int64_t, std::string> values;     // By revision.
  std::map<std::pair<std::string, std::int64_t>, std::int64_t> last;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "publishing") publishing[entry.who] = entry.text;
    if (entry.what == "published" && entry.b == 1) {
      const auto [one, first] = values.emplace(entry.a, publishing[entry.who]);
      if (!first && one->second != publishing[entry.who])
        faults.push_back(
            fmt::format("revision {} was published as {}, and was {}", entry.a, publishing[entry.who], one->second));
    }
    if (entry.what != "seen") continue;
    const auto [one, first] = values.emplace(entry.a, entry.text);
    if (!first && one->second != entry.text)
      faults.push_back(
          fmt::format("{} sees revision {} as {}, and it was {}", entry.who, entry.a, entry.text, one->second));
    const auto [before, none] = last.emplace(std::pair(entry.who, entry.b), entry.a);
    if (!none && entry.a < before->second)
      faults.push_back(fmt::format("{} sees revision {} after {}", entry.who, entry.a, before->second));
    before->second = entry.a;
  }
  for (const Entry& entry : history.entries()) {
    if (entry.what == "in force" && !values.empty() && entry.a != values.rbegin()->first)
      faults.push_back(
          fmt::format("revision {} is in force at {}, and there is {}", entry.a, entry.who, values.rbegin()->first));
  }
  return faults;
}

Faults check_gate(const History& history) {
  Faults faults;
  constexpr std::chrono::seconds most_under_way(60);  // A request whose sender has ended, or was given up.
  std::set<std::string> raising;
  std::set<std::string> knows;            // That it is up.
  std::map<std::string, Nanos> lowering;  // Since when.
  const auto may_be_lowered = [&](Nanos now) {
    return std::any_of(lowering.begin(), lowering.end(),
                       [&](const auto& one) { return now - one.second < most_under_way; });
  };
  for (const Entry& entry : history.entries()) {
    if (entry.what == "lowering") {
      lowering[entry.who] = entry.at;
      raising.clear();
      knows.clear();
    }
    if (entry.what == "lowered") lowering.erase(entry.who);
    if (entry.what == "killed") raising.erase(entry.who);
    if (entry.what == "killed") knows.erase(entry.who);
    if (entry.what == "raising" && !may_be_lowered(entry.at)) raising.insert(entry.who);
    if (entry.what == "up" && raising.erase(entry.who) != 0) knows.insert(entry.who);
    if (entry.what == "passed" && knows.contains(entry.who))
      faults.push_back(entry.who + " has passed a gate that it has seen up, and nobody has lowered it");
  }
  return faults;
}

Faults check_replicas(const History& history) {
  Faults faults;
  std::vector<Entry> entries = history.entries();  // Written down late by who was stopped meanwhile.
  std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) { return a.at < b.at; });
  std::set<std::int64_t> acknowledged;
  std::int64_t epoch = 0;
  for (const Entry& entry : entries) {
    if (entry.what == "acknowledged") acknowledged.insert(entry.a);
    if (entry.what == "given up") acknowledged.clear();
    if (entry.what != "took over") continue;
    if (entry.a <= epoch)
      faults.push_back(fmt::format("{} took over with epoch {} after {}", entry.who, entry.a, epoch));
    epoch = std::max(epoch, entry.a);
    const std::set<std::string> log = split(entry.text);
    for (const std::int64_t write : acknowledged) {
      if (!log.contains(std::to_string(write)))
        faults.push_back(fmt::format("{} took over without write {}, which was acknowledged", entry.who, write));
    }
  }
  return faults;
}

}  // namespace storm
