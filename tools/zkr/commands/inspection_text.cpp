#include "tools/zkr/commands/inspection_text.hpp"

#include <algorithm>
#include <charconv>
#include <ctime>

#include <fmt/format.h>

#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/self_description.hpp"
#include "tools/zkr/commands/inspection_parts.hpp"

namespace zkr {
namespace {

using zkrecipes::Contender;
using zkrecipes::Inspection;
using zkrecipes::NodeNaming;
using zkrecipes::RecipeKind;

const char* state_of(const Contender& contender) {
  if (contender.foreign) return "foreign";
  return contender.holds ? "holds" : "waits";
}

// The time of day, or the day.
std::string local_text(std::chrono::system_clock::time_point time) {
  const std::time_t seconds = std::chrono::system_clock::to_time_t(time);
  const std::time_t now = std::time(nullptr);
  std::tm local{};
  std::tm today{};
  ::localtime_r(&seconds, &local);
  ::localtime_r(&now, &today);
  const bool is_today = local.tm_yday == today.tm_yday && local.tm_year == today.tm_year;
  char text[32];
  std::strftime(text, sizeof text, is_today ? "%H:%M:%S" : "%Y-%m-%dT%H:%M:%S", &local);
  return text;
}

json::value or_null(const std::string& text) { return text.empty() ? json::value(nullptr) : json::value(text); }

json::value number_or_null(const std::string& digits) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), number);
  return error == std::errc() && end == digits.data() + digits.size() ? json::value(number) : json::value(nullptr);
}

json::object contender_json(const Contender& contender, const SessionAddresses* addresses) {
  const SelfDescription self = parse_self_description(contender.data);
  json::object object;
  object["state"] = state_of(contender);
  object["node"] = contender.node;
  object["who"] = or_null(printable(self.who));
  object["host"] = or_null(printable(self.host));
  object["pid"] = number_or_null(self.pid);
  object["since"] = utc_text(contender.since);
  object["session"] =
      contender.session_id == 0 ? json::value(nullptr) : json::value(session_text(contender.session_id));
  if (addresses != nullptr) object["address"] = addresses->json_of(contender.session_id);
  object["token"] = contender.token.value;
  object["shared"] = contender.shared;
  add_data(object, contender.data);
  return object;
}

// "mutex, Curator layout"
std::string kind_text(const Inspection& found) {
  std::string text = found.kind == RecipeKind::unknown ? "free, or no recipe that is known" : to_string(found.kind);
  switch (found.naming) {
    case NodeNaming::none:
    case NodeNaming::own: break;
    case NodeNaming::curator: text += ", Curator layout"; break;
    case NodeNaming::kazoo: text += ", kazoo layout"; break;
    case NodeNaming::zookeeper: text += ", ZooKeeper's layout"; break;
    case NodeNaming::mixed: text += ", Curator and kazoo mixed: they do not exclude each other"; break;
  }
  return text;
}

std::string heading(const std::string& path, const Inspection& found) {
  const std::string kind = fmt::format("{}  {}", path, kind_text(found));
  if (is_queue(found.kind)) return fmt::format("{}, {} items, {} claimed", kind, found.items, found.contenders.size());
  if (const std::string parts = parts_text(found); !parts.empty()) return fmt::format("{}, {}", kind, parts);
  const ContenderCounts counts = count_contenders(found);
  std::string text = fmt::format("{}, {} holds, {} waits", kind, counts.holders, counts.waiters);
  if (counts.foreign != 0) text += fmt::format(", {} foreign", counts.foreign);
  return text;
}

std::string or_dash(const std::string& text) { return text.empty() ? "-" : printable(text); }

std::string table_of(const Inspection& found, const SessionAddresses* addresses) {
  if (found.contenders.empty()) return "";
  std::vector<std::vector<std::string>> rows = {
      {"", "STATE", "WHO", "HOST", "PID", "SINCE", "SESSION", "TOKEN", "NODE"}};
  const auto with_address = [addresses](std::vector<std::string>& row, const std::string& address) {
    if (addresses != nullptr) row.insert(row.end() - 2, address);  // Beside the session.
  };
  with_address(rows.front(), "ADDRESS");
  for (const Contender& contender : found.contenders) {
    const SelfDescription self = parse_self_description(contender.data);
    const std::string session = contender.session_id == 0 ? "none" : session_text(contender.session_id);
    rows.push_back({std::to_string(rows.size()), state_of(contender), or_dash(self.who), or_dash(self.host),
                    or_dash(self.pid), local_text(contender.since), session, fmt::format("{}", contender.token.value),
                    contender.node});
    with_address(rows.back(), addresses != nullptr ? addresses->of(contender.session_id).value_or("-") : "");
  }
  return table(rows);
}

}  // namespace

ContenderCounts count_contenders(const Inspection& found) {
  ContenderCounts counts;
  for (const Contender& one : found.contenders)
    ++(one.foreign ? counts.foreign : one.holds ? counts.holders : counts.waiters);
  return counts;
}

std::optional<std::chrono::system_clock::time_point> oldest_contender(const Inspection& found, bool holds) {
  std::optional<std::chrono::system_clock::time_point> oldest;
  for (const Contender& one : found.contenders) {
    if (!one.foreign && one.holds == holds && (!oldest || one.since < *oldest)) oldest = one.since;
  }
  return oldest;
}

bool is_queue(RecipeKind kind) {
  return kind == RecipeKind::queue || kind == RecipeKind::priority_queue || kind == RecipeKind::delay_queue ||
         kind == RecipeKind::id_queue;
}

json::object inspection_json(const std::string& path, const Inspection& found, const SessionAddresses* addresses) {
  const ContenderCounts counts = count_contenders(found);
  json::array contenders;
  for (const Contender& contender : found.contenders)
    contenders.push_back(contender_json(contender, addresses));
  json::object object;
  object["path"] = path;
  object["kind"] = zkrecipes::to_string(found.kind);
  object["naming"] = zkrecipes::to_string(found.naming);
  object["holders"] = counts.holders;
  object["waiters"] = counts.waiters;
  if (is_queue(found.kind)) object["items"] = found.items;
  object["contenders"] = std::move(contenders);
  add_parts(object, found);
  return object;
}

std::string inspection_text(const std::string& path, const Inspection& found, const SessionAddresses* addresses) {
  return heading(path, found) + "\n" + table_of(found, addresses) + parts_tables(found);
}

}  // namespace zkr
