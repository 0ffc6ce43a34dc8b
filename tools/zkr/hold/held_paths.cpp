#include "tools/zkr/hold/held_paths.hpp"

#include <algorithm>
#include <map>
#include <optional>

#include <fmt/format.h>

namespace zkr {
namespace {

bool is_enough(const std::string& held, const std::string& wanted) {
  if (held == wanted) return true;
  return (wanted == "shared" && held == "writer") || (wanted == "kazoo-shared" && held == "kazoo-writer");
}

std::optional<HeldPath> parse_line(const std::string& line) {
  const std::size_t first = line.find(' ');
  const std::size_t second = first == std::string::npos ? first : line.find(' ', first + 1);
  if (second == std::string::npos) return std::nullopt;
  return HeldPath{line.substr(0, first), line.substr(first + 1, second - first - 1), line.substr(second + 1)};
}

}  // namespace

std::string mode_word(const Stake& stake) {
  std::string word = stake.mode == Mode::writer ? "writer" : to_string(stake.mode);
  return stake.kazoo ? "kazoo-" + word : word;
}

std::vector<HeldPath> held_paths(const Connection& connection, const Stake& stake, const std::string& socket) {
  std::vector<HeldPath> held;
  if (stake.mode == Mode::joined) return held;  // Nobody waits for a group.
  const std::string prefix = connection.options.prefix.is_root() ? "" : connection.options.prefix.str();
  for (const std::string& path : stake.paths)
    held.push_back({mode_word(stake), socket, fmt::format("{}{}{}", connection.hosts, prefix, path)});
  return held;
}

std::vector<HeldPath> parse_held_paths(const std::vector<std::string>& lines) {
  std::vector<HeldPath> held;
  for (const std::string& line : lines) {
    if (auto one = parse_line(line)) held.push_back(std::move(*one));
  }
  return held;
}

Nesting nesting(const std::vector<HeldPath>& wanted, const std::vector<HeldPath>& held,
                const std::function<std::optional<std::string>(const std::string& socket)>& mode_now) {
  std::map<std::string, std::optional<std::string>> answers;
  const auto answers_for = [&](const std::string& socket) {
    const auto known = answers.find(socket);
    return known != answers.end() ? known->second : answers.emplace(socket, mode_now(socket)).first->second;
  };
  bool any = false;
  bool all = true;
  for (const HeldPath& want : wanted) {
    bool enough = false;
    for (const HeldPath& have : held) {
      if (have.place != want.place) continue;
      const std::optional<std::string> mode = answers_for(have.socket);
      if (!mode) continue;
      any = true;
      enough = enough || is_enough(*mode, want.mode);
    }
    all = all && enough;
  }
  if (!any) return Nesting::none;
  return all ? Nesting::within : Nesting::partly;
}

}  // namespace zkr
