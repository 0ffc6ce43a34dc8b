#include "storm/checkers/commands.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace storm {
namespace {

using Spans = std::vector<std::pair<Nanos, Nanos>>;

struct Late {
  Spans keeper;
  Spans front;
};

bool covers(const Spans& spans, Nanos at) {
  return std::any_of(spans.begin(), spans.end(),
                     [at](const auto& span) { return span.first <= at && at <= span.second; });
}

struct CommandNotes {
  std::vector<Entry> lines;
  std::map<std::int64_t, Late> late;
  std::map<std::int64_t, Nanos> released;
  std::map<std::int64_t, Nanos> ended_early;
};

CommandNotes notes_of(const History& history) {
  CommandNotes notes;
  for (const Entry& entry : history.entries()) {
    const std::pair<Nanos, Nanos> span(entry.at - Nanos(entry.b), entry.at);
    if (entry.what == "acquired" || entry.what == "valid") notes.lines.push_back(entry);
    if (entry.what == "late keeper") notes.late[entry.a].keeper.push_back(span);
    if (entry.what == "late front") notes.late[entry.a].front.push_back(span);
    if (entry.what == "no front") notes.late[entry.a].front.emplace_back(entry.at, Nanos::max());
    if (entry.what == "ended early") notes.ended_early.emplace(entry.a, entry.at);
    if (entry.what == "releasing") notes.released.emplace(entry.a, entry.at);
  }
  std::stable_sort(notes.lines.begin(), notes.lines.end(),
                   [](const Entry& one, const Entry& other) { return one.at < other.at; });
  return notes;
}

}  // namespace

Faults check_commands(const History& history) {
  CommandNotes notes = notes_of(history);
  Faults faults;
  std::set<std::pair<std::int64_t, std::string>> blamed;
  const auto blame = [&](const Entry& line, const std::string& what) {
    if (!blamed.emplace(line.a, what).second) return;
    faults.push_back(
        fmt::format("{} with token {} wrote {}, at {} us", line.who, line.a, what, line.at.count() / 1000));
  };
  std::int64_t newest = 0;
  for (const Entry& line : notes.lines) {
    newest = std::max(newest, line.a);
    const auto released = notes.released.find(line.a);
    if (released != notes.released.end() && line.at > released->second) blame(line, "after it was given back");
    const Late& late = notes.late[line.a];
    if (covers(late.keeper, line.at) && covers(late.front, line.at)) continue;
    const auto ended = notes.ended_early.find(line.a);
    const bool has_ended_early = ended != notes.ended_early.end() && line.at >= ended->second;
    if (line.a < newest && !has_ended_early) blame(line, "after one with a newer token");
    if (line.b <= 0) blame(line, "when its lease was not certain any more");
  }
  return faults;
}

}  // namespace storm
