#include "recipes/barriers/round_decider.hpp"

#include <algorithm>
#include <set>

#include "recipes/kernel/sequence.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::string_view heading = "zkrecipes round\n";
constexpr std::string_view infix = "-member-";

}  // namespace

std::string encode_roster(const std::vector<std::string>& members) {
  std::string data(heading);
  for (const std::string& name : members)
    data += name + "\n";
  return data;
}

std::vector<std::string> decode_roster(std::string_view data) {
  std::vector<std::string> members;
  if (!data.starts_with(heading)) return members;
  data.remove_prefix(heading.size());
  while (!data.empty()) {
    const std::size_t end = data.find('\n');
    if (end == std::string_view::npos || !sequence_of(data.substr(0, end), {infix})) return {};
    members.emplace_back(data.substr(0, end));
    data.remove_prefix(end + 1);
  }
  return members;
}

std::vector<std::string> members_in_order(const std::vector<std::string>& children) {
  return in_order(children, {infix});
}

std::vector<std::string> still_inside(const std::vector<std::string>& children,
                                      const std::vector<std::string>& roster) {
  const std::set<std::string_view> there(children.begin(), children.end());
  std::vector<std::string> left;
  std::copy_if(roster.begin(), roster.end(), std::back_inserter(left),
               [&](const std::string& name) { return there.contains(name); });
  return left;
}

RoundStep decide_round(const std::vector<std::string>& children, const std::vector<std::string>& roster,
                       std::string_view self, std::size_t count) {
  const auto is_self = [&](const std::string& name) { return name == self; };
  std::vector<std::string> members = members_in_order(children);
  if (std::none_of(members.begin(), members.end(), is_self)) return {RoundStep::Kind::vanished};
  if (std::any_of(roster.begin(), roster.end(), is_self)) return {RoundStep::Kind::entered};
  const std::size_t inside = still_inside(children, roster).size();
  if (inside > 0) {
    // Some may have left already: their places are free in the next round.
    const std::set<std::string_view> round(roster.begin(), roster.end());
    const auto self_at = std::find_if(members.begin(), members.end(), is_self);
    const auto others =
        std::count_if(members.begin(), self_at, [&](const std::string& name) { return !round.contains(name); });
    return {RoundStep::Kind::extra, {}, inside + static_cast<std::size_t>(others) >= count};
  }
  if (members.size() < count) return {RoundStep::Kind::too_few};
  members.resize(count);
  if (std::none_of(members.begin(), members.end(), is_self)) return {RoundStep::Kind::extra, {}, true};
  return {RoundStep::Kind::begin, std::move(members)};
}

}  // namespace zkrecipes::detail
