#include "storm/checkers/migrations.hpp"

#include <algorithm>
#include <map>
#include <sstream>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace storm {
namespace {

using Steps = std::vector<std::int64_t>;

Steps steps_in(const std::string& text) {
  Steps steps;
  std::istringstream stream(text);
  for (std::string part; std::getline(stream, part, ',');)
    steps.push_back(std::stoll(part));
  return steps;
}

class MigrationsJudge {
 public:
  explicit MigrationsJudge(bool (*reads)(std::int64_t)) : reads_(reads) {}

  Faults judge(const History& history) {
    for (const Entry& entry : history.entries()) {
      if (entry.what == "migrating") newest_begun_ = std::max(newest_begun_, entry.a);
      if (entry.what == "migrated") note_end(entry);
      if (entry.what == "too old" && entry.a >= newest_begun_)
        refuse(fmt::format("release {} of {} is too old, and there was no newer one", entry.a, entry.who));
      if (entry.what == "looking") known_before_[entry.who] = newest_done_;
      if (entry.what == "sees") judge_sight(entry);
      if (entry.what == "list") judge_list(entry);
      if (entry.what == "written") judge_writes(entry);
      if (entry.what == "wrong") refuse(fmt::format("{} is told: {}", entry.who, entry.text));
    }
    return faults_;
  }

 private:
  void refuse(std::string why) { faults_.push_back(std::move(why)); }
  void note_end(const Entry& entry) {
    newest_done_ = std::max(newest_done_, entry.a);
    for (const std::int64_t step : steps_in(entry.text)) {
      const auto [first, fresh] = applied_by_.emplace(step, entry.who);
      if (!fresh) refuse(fmt::format("step {} was applied by {} and by {}", step, first->second, entry.who));
      if (step > entry.a) refuse(fmt::format("{} has applied step {} of release {}", entry.who, step, entry.a));
    }
  }
  void judge_sight(const Entry& entry) {
    const Steps seen = steps_in(entry.text);
    last_seen_ = static_cast<std::int64_t>(seen.size());
    if (!seen.empty() && seen.back() != last_seen_) refuse(fmt::format("{} sees the steps {}", entry.who, entry.text));
    if (last_seen_ < known_before_[entry.who])
      refuse(fmt::format("{} sees {} steps, and {} were known", entry.who, last_seen_, known_before_[entry.who]));
    if (last_seen_ > newest_begun_)
      refuse(fmt::format("{} sees {} steps, and no release had more than {}", entry.who, last_seen_, newest_begun_));
  }
  void judge_list(const Entry& entry) {
    Steps expected;
    for (std::int64_t step = 2; step <= last_seen_; ++step) {
      if (reads_(step)) expected.push_back(step);
    }
    if (steps_in(entry.text) != expected)
      refuse(fmt::format("the list is {}, not {}", entry.text, fmt::join(expected, ",")));
  }
  void judge_writes(const Entry& entry) {
    std::int64_t expected = 0;
    for (std::int64_t step = 2; step <= last_seen_; ++step)
      expected += reads_(step) ? 0 : 1;
    if (entry.a != expected) refuse(fmt::format("{} steps have written, not {}", entry.a, expected));
  }

  bool (*const reads_)(std::int64_t);
  std::int64_t newest_begun_ = 0;
  std::int64_t newest_done_ = 0;
  std::int64_t last_seen_ = 0;
  std::map<std::int64_t, std::string> applied_by_;
  std::map<std::string, std::int64_t> known_before_;  // By who looks.
  Faults faults_;
};

}  // namespace

Faults check_migrations(const History& history, bool (*reads)(std::int64_t step)) {
  return MigrationsJudge(reads).judge(history);
}

}  // namespace storm
