#include "storm/simulated/shrink.hpp"

#include <algorithm>
#include <set>
#include <utility>
#include <vector>

#include <fmt/format.h>

namespace storm {
namespace {

using Numbers = std::vector<int>;

Numbers numbers_of(const Outcome& outcome) {
  std::set<int> numbers;
  for (const MadeTrouble& one : outcome.made)
    numbers.insert(one.number);
  return {numbers.begin(), numbers.end()};
}

class Shrinking {
 public:
  Shrinking(const ScenarioOptions& options, int processes, const Trial& trial, const ShrinkOptions& how)
      : trial_(trial), how_(how), processes_(options.processes == 0 ? processes : options.processes) {
    smallest_.options = options;
    smallest_.first = smallest_.result = trial_(options);
    ++smallest_.trials;
    if (smallest_.first.failed()) wanted_ = judgement(smallest_.first.outcome.faults.front());
  }

  Smallest run() {
    if (!smallest_.first.failed()) return std::move(smallest_);
    make_smaller();  // What is easy comes first, and makes the rest cheap.
    courses_ = how_.courses;
    make_smaller();
    return std::move(smallest_);
  }

 private:
  void make_smaller() {
    for (bool helped = true; helped;) {
      helped = leave_out_troubles();
      helped = leave_out_processes() || helped;
      helped = end_sooner() || helped;
    }
  }
  /// If that world fails in the same way, it is the smallest one from now on.
  bool accept(ScenarioOptions options) {
    for (int i = 0; i < courses_ && smallest_.trials < how_.most_trials; ++i) {
      ++smallest_.trials;
      WorldResult result = trial_(options);
      if (fails_so(result)) {
        smallest_.options = options;
        smallest_.result = std::move(result);
        return true;
      }
      // First the course that it had, then others.
      options.course =
          static_cast<std::uint64_t>(i) + (static_cast<std::uint64_t>(i) >= smallest_.options.course ? 1 : 0);
    }
    return false;
  }
  [[nodiscard]] bool fails_so(const WorldResult& result) const {
    const Faults& faults = result.outcome.faults;
    return std::any_of(faults.begin(), faults.end(), [&](const auto& fault) { return judgement(fault) == wanted_; });
  }
  bool accept_without(const Numbers& left_out) {
    if (left_out.empty()) return false;
    ScenarioOptions options = smallest_.options;
    options.left_out.insert(options.left_out.end(), left_out.begin(), left_out.end());
    std::sort(options.left_out.begin(), options.left_out.end());
    return accept(options);
  }

  bool leave_out_troubles() {
    if (accept_without(numbers_of(smallest_.result.outcome))) return true;
    const bool helped = leave_out_kinds();
    return leave_out_parts() || helped;
  }
  bool leave_out_kinds() {
    bool helped = false;
    for (int kind = 0; kind < troubles; ++kind) {
      Numbers of_kind;
      for (const MadeTrouble& one : smallest_.result.outcome.made) {
        if (static_cast<int>(one.kind) == kind) of_kind.push_back(one.number);
      }
      if (of_kind.size() > 1) helped = accept_without(of_kind) || helped;
    }
    return helped;
  }
  /// Halves, then smaller parts, down to single ones.
  bool leave_out_parts() {
    bool helped = false;
    for (std::size_t parts = 2;;) {
      const Numbers left = numbers_of(smallest_.result.outcome);
      parts = std::min(parts, left.size());
      if (parts == 0) return helped;
      if (leave_out_one_of(left, parts)) {
        helped = true;
        parts = std::max<std::size_t>(parts - 1, 2);
      } else if (parts == left.size()) {
        return helped;
      } else {
        parts *= 2;
      }
    }
  }
  bool leave_out_one_of(const Numbers& left, std::size_t parts) {
    for (std::size_t part = 0; part < parts; ++part) {
      const auto begin = static_cast<std::ptrdiff_t>(left.size() * part / parts);
      const auto end = static_cast<std::ptrdiff_t>(left.size() * (part + 1) / parts);
      if (accept_without(Numbers(left.begin() + begin, left.begin() + end))) return true;
    }
    return false;
  }

  bool leave_out_processes() {
    const int now = smallest_.options.processes == 0 ? processes_ : smallest_.options.processes;
    for (int fewer = 1; fewer < now; ++fewer) {
      ScenarioOptions options = smallest_.options;
      options.processes = fewer;
      if (accept(options)) return true;
    }
    return false;
  }

  /// The half, or else three quarters, ..., or else a second less.
  bool end_sooner() {
    bool helped = false;
    for (int less = smallest_.options.seconds / 2; less > 0;) {
      ScenarioOptions options = smallest_.options;
      options.seconds -= less;
      if (accept(options)) {
        helped = true;
        less = std::min(less, smallest_.options.seconds / 2);
      } else {
        less /= 2;
      }
    }
    return helped;
  }

  const Trial& trial_;
  const ShrinkOptions how_;
  const int processes_;
  int courses_ = 1;
  std::string wanted_;
  Smallest smallest_;
};

}  // namespace

Smallest shrink(const ScenarioOptions& options, int processes, const Trial& trial, const ShrinkOptions& how) {
  return Shrinking(options, processes, trial, how).run();
}

std::string replay_arguments(const std::string& workload, const ScenarioOptions& options) {
  std::string text = fmt::format("--workload {} --replay {}", workload, options.seed);
  std::vector<std::string> without;
  for (const Trouble kind : options.without)
    without.emplace_back(to_string(kind));
  for (const int number : options.left_out)
    without.push_back(fmt::format("{}", number));
  if (!without.empty()) text += fmt::format(" --without {}", fmt::join(without, ","));
  if (options.processes > 0) text += fmt::format(" --processes {}", options.processes);
  if (options.seconds != ScenarioOptions().seconds) text += fmt::format(" --seconds {}", options.seconds);
  if (options.course > 0) text += fmt::format(" --course {}", options.course);
  return text;
}

}  // namespace storm
