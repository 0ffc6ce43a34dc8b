#include "tools/zkr/commands/top_rows.hpp"

#include <algorithm>
#include <array>
#include <charconv>
#include <sstream>

#include <fmt/format.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/self_description.hpp"
#include "tools/zkr/commands/inspection_parts.hpp"
#include "tools/zkr/commands/inspection_text.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkrecipes::Contender;
using zkrecipes::Inspection;
using zkrecipes::RecipeKind;

constexpr auto handover_window = 60s;
constexpr std::array sorts{TopSort::path, TopSort::waiters, TopSort::held, TopSort::handovers};

// What servers append to a sequential node's name; -1: it has no number.
std::int64_t number_of_node(const std::string& name) {
  constexpr std::size_t digits = 10;
  if (name.size() < digits) return -1;
  std::int64_t number = -1;
  const char* const end = name.data() + name.size();
  const auto [stop, error] = std::from_chars(end - digits, end, number);
  return error == std::errc() && stop == end ? number : -1;
}

// Clocks of servers and of this host differ: an age is never negative.
std::chrono::seconds age_of(const TopRow& row, bool holds) {
  const auto since = oldest_contender(row.found, holds);
  if (!since) return 0s;
  return std::max(0s, std::chrono::floor<std::chrono::seconds>(row.looked - *since));
}

std::string age_text(const TopRow& row, bool holds) {
  if (!oldest_contender(row.found, holds)) return "-";
  const std::chrono::seconds age = age_of(row, holds);
  return age == 0s ? "0s" : to_text(age);
}

json::value age_json(const TopRow& row, bool holds) {
  const auto since = oldest_contender(row.found, holds);
  if (!since) return nullptr;
  return std::max<std::int64_t>(0, std::chrono::floor<std::chrono::milliseconds>(row.looked - *since).count());
}

// The nodes of such recipes may be of no session.
bool may_last(RecipeKind kind) {
  return kind == RecipeKind::barrier || kind == RecipeKind::persistent_node || kind == RecipeKind::persistent_ttl_node;
}

// Of a queue: the items that nobody has claimed.
std::size_t waiters_of(const Inspection& found) {
  if (is_queue(found.kind)) return found.items - std::min(found.items, found.contenders.size());
  return count_contenders(found).waiters;
}

std::vector<std::string> notes_of(const TopRow& row) {
  std::vector<std::string> notes;
  if (!row.trouble.empty()) return {row.trouble};
  bool asked = false;
  std::size_t lasting = 0;
  for (const Contender& one : row.found.contenders) {
    asked = asked || (one.holds && one.data == "__REVOKE__");
    if (one.session_id == 0 && !may_last(row.found.kind)) ++lasting;
  }
  if (asked) notes.emplace_back("revoke asked");
  if (lasting != 0) notes.push_back(fmt::format("{} of no session", lasting));
  if (const auto foreign = count_contenders(row.found).foreign) notes.push_back(fmt::format("{} foreign", foreign));
  if (row.found.naming == zkrecipes::NodeNaming::mixed) notes.emplace_back("Curator and kazoo mixed");
  if (const std::string parts = parts_text(row.found); !parts.empty()) notes.push_back(parts);
  if (is_queue(row.found.kind)) notes.push_back(fmt::format("{} items", row.found.items));
  return notes;
}

std::string kind_of(const TopRow& row) {
  if (!row.trouble.empty()) return "-";
  if (row.found.kind == RecipeKind::nothing) return "no node";
  return row.found.kind == RecipeKind::unknown ? "-" : zkrecipes::to_string(row.found.kind);
}

const Contender* first_holder(const Inspection& found) {
  const auto holder = std::find_if(found.contenders.begin(), found.contenders.end(),
                                   [](const Contender& one) { return one.holds && !one.foreign; });
  return holder == found.contenders.end() ? nullptr : &*holder;
}

// By host and process, else as it names itself.
std::string name_of(const Contender& holder) {
  // What asks it to give way has overwritten its words.
  if (holder.data == "__REVOKE__") return session_text(holder.session_id);
  const SelfDescription self = parse_self_description(holder.data);
  const std::string name = self.host.empty() ? printable(self.who) : printable(self.host) + ":" + printable(self.pid);
  return name.empty() ? session_text(holder.session_id) : name;
}

}  // namespace

void HandoverCount::look(const Inspection& found, Time now) {
  std::set<std::string> holders;
  std::int64_t newest = newest_;
  std::int64_t others = 0;
  for (const Contender& one : found.contenders) {
    if (!one.holds || one.foreign) continue;
    newest = std::max(newest, number_of_node(one.node));
    if (!holders_.contains(one.node)) ++others;
    holders.insert(one.node);
  }
  const bool first = !begun_;
  if (first) begun_ = now;
  const std::int64_t passed = newest_ < 0 ? 0 : newest - newest_;
  if (!first && others > 0) seen_.push_back({now, std::max(others, passed)});
  holders_ = std::move(holders);
  newest_ = newest;
  while (!seen_.empty() && seen_.front().when + handover_window < now)
    seen_.pop_front();
}

double HandoverCount::per_minute(Time now) const {
  if (!begun_) return 0;
  const std::chrono::duration<double, std::ratio<60>> taken = std::min<Time::duration>(now - *begun_, handover_window);
  std::int64_t sum = 0;
  for (const Seen& one : seen_)
    sum += one.handovers;
  return sum == 0 ? 0 : static_cast<double>(sum) / taken.count();
}

const char* to_string(TopSort sort) noexcept {
  switch (sort) {
    case TopSort::path: return "path";
    case TopSort::waiters: return "waiters";
    case TopSort::held: return "held";
    case TopSort::handovers: return "handovers";
  }
  return "path";
}

TopSort next(TopSort sort) noexcept {
  const auto at = std::find(sorts.begin(), sorts.end(), sort);
  return at + 1 == sorts.end() ? sorts.front() : *(at + 1);
}

void sort_rows(std::vector<TopRow>& rows, TopSort sort) {
  const auto weight = [sort](const TopRow& row) -> double {
    switch (sort) {
      case TopSort::path: return 0;
      case TopSort::waiters: return static_cast<double>(waiters_of(row.found));
      case TopSort::held: return static_cast<double>(age_of(row, true).count());
      case TopSort::handovers: return row.handovers_per_minute;
    }
    return 0;
  };
  std::sort(rows.begin(), rows.end(), [&](const TopRow& a, const TopRow& b) {
    const double left = weight(a);
    const double right = weight(b);
    return left != right ? left > right : a.path < b.path;
  });
}

std::vector<std::string> top_lines(const std::vector<TopRow>& rows) {
  std::vector<std::vector<std::string>> cells = {
      {"PATH", "KIND", "HOLDER", "HELD", "WAIT", "OLDEST", "HANDOVERS/min", "NOTE"}};
  for (const TopRow& row : rows) {
    const std::string notes = fmt::format("{}", fmt::join(notes_of(row), ", "));
    if (!row.trouble.empty()) {
      cells.push_back({printable(row.path), kind_of(row), holder_text(row), "?", "?", "?", "?", notes});
      continue;
    }
    cells.push_back({printable(row.path), kind_of(row), holder_text(row), age_text(row, true),
                     std::to_string(waiters_of(row.found)), age_text(row, false),
                     fmt::format("{:.1f}", row.handovers_per_minute), notes});
  }
  std::vector<std::string> lines;
  std::istringstream text(table(cells));
  for (std::string line; std::getline(text, line);)
    lines.push_back(line);
  return lines;
}

json::object top_json(const TopRow& row) {
  const ContenderCounts counts = count_contenders(row.found);
  const std::vector<std::string> notes = notes_of(row);
  const Contender* const holder = first_holder(row.found);
  // What could not be read is told by nulls: a 0 would say that the path is free.
  const auto if_known = [&row](json::value value) { return row.trouble.empty() ? std::move(value) : json::value(); };
  json::object object;
  object["time"] = utc_text(row.looked);
  object["path"] = row.path;
  object["kind"] = if_known(zkrecipes::to_string(row.found.kind));
  object["naming"] = if_known(zkrecipes::to_string(row.found.naming));
  object["holder"] = if_known(holder == nullptr ? json::value() : json::value(name_of(*holder)));
  object["holders"] = if_known(counts.holders);
  object["waiters"] = if_known(waiters_of(row.found));
  object["held_ms"] = if_known(age_json(row, true));
  object["oldest_wait_ms"] = if_known(age_json(row, false));
  object["handovers_per_minute"] = if_known(row.handovers_per_minute);
  object["notes"] = json::array(notes.begin(), notes.end());
  return object;
}

std::string holder_text(const TopRow& row) {
  if (!row.trouble.empty()) return "?";
  const Contender* const holder = first_holder(row.found);
  if (holder == nullptr) return "-";
  const std::size_t holders = count_contenders(row.found).holders;
  return holders > 1 ? fmt::format("{} +{}", name_of(*holder), holders - 1) : name_of(*holder);
}

}  // namespace zkr
