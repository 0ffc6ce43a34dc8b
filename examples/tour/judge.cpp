#include "judge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <system_error>

#include "minutes.hpp"
#include "worker.hpp"

namespace tour {
namespace {

struct Line {
  std::string name;
  Event event;
};

// The order of the lines takes the place of the time. It is that of the writes: the cause before its effect.
std::vector<Line> read_lines(const std::filesystem::path& file) {
  std::ifstream stream(file);
  if (!stream) {
    throw std::system_error(errno, std::generic_category(), file.string());
  }
  std::vector<Line> lines;
  for (std::string text; std::getline(stream, text);) {
    const auto end = std::min(text.find(' '), text.size());
    auto event = parse_event(std::string_view(text).substr(std::min(end + 1, text.size())));
    if (!event) {
      throw std::runtime_error(fmt::format("{}: not a line of a player: {}", file.string(), text));
    }
    event->at = Clock::time_point(Clock::duration(lines.size()));
    lines.push_back({.name = text.substr(0, end), .event = *std::move(event)});
  }
  return lines;
}

std::vector<std::string> names_in(const std::vector<Line>& lines) {
  std::vector<std::string> names;
  for (const auto& line : lines) {
    if (std::find(names.begin(), names.end(), line.name) == names.end()) {
      names.push_back(line.name);
    }
  }
  std::sort(names.begin(), names.end());
  return names;
}

Minutes minutes_of(const std::vector<Line>& lines, const std::vector<std::string>& names,
                   const std::vector<std::string>& paused) {
  Minutes minutes(names);
  for (std::size_t player = 0; player < names.size(); ++player) {
    if (std::find(paused.begin(), paused.end(), names[player]) == paused.end()) {
      minutes.expect_in_time(player);
    }
  }
  for (const auto& line : lines) {
    const auto player = std::find(names.begin(), names.end(), line.name) - names.begin();
    minutes.note(static_cast<std::size_t>(player), line.event);
  }
  return minutes;
}

Check check_late_writes(const Minutes& minutes) {
  const auto late = minutes.late_writes_refused();
  return {.passed = late > 0, .text = fmt::format("late writes: {} refused, none let in", late)};
}

Check check_ends(const Minutes& minutes, const std::vector<std::string>& names) {
  std::size_t left = 0;
  std::size_t failures = 0;
  for (std::size_t player = 0; player < names.size(); ++player) {
    left += minutes.count(player, EventKind::left);
    failures += minutes.count(player, EventKind::fails);
  }
  return {.passed = left == names.size() && failures == 0,
          .text = fmt::format("ends: {} of {} players closed their sessions, {} gave something up", left, names.size(),
                              failures)};
}

}  // namespace

int judge(const std::filesystem::path& stage, const std::vector<std::string>& paused, Look look) {
  const auto lines = read_lines(stage / lines_file);
  const auto names = names_in(lines);
  const auto minutes = minutes_of(lines, names, paused);
  const Timeline timeline(names, look);
  bool passed = true;
  for (const auto& check :
       {minutes.check_leaders(), minutes.check_holders(), minutes.check_turns(), check_late_writes(minutes),
        minutes.check_ledger(Store(stage / ledger_file).entries()), check_ends(minutes, names)}) {
    timeline.check(check.passed, check.text);
    passed = passed && check.passed;
  }
  return passed ? EXIT_SUCCESS : EXIT_FAILURE;
}

}  // namespace tour
