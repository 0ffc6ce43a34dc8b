#include "storm/checkers/latches.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <fmt/format.h>

namespace storm {
namespace {

/// What is known of a generation, so far.
struct Countdown {
  std::int64_t possible = 0;        ///< The sum of all counts that have begun, without those that were refused.
  std::int64_t certain = 0;         ///< The sum of those that were answered.
  std::set<std::int64_t> answered;  ///< The steps that answers have told: 1 is the last one.
};

struct OpenCount {
  std::int64_t generation = 0;
  std::int64_t by = 0;
  std::int64_t certain = 0;         ///< Of the generation, when it began.
  std::int64_t certain_before = 0;  ///< Of the generation before.
};

class LatchJudge {
 public:
  LatchJudge(const History& history, std::int64_t count) : history_(history), count_(count) {
    for (const Entry& entry : history.entries()) {
      if (entry.what == "too early" || entry.what == "not counted") refused_.insert(entry.a);
    }
  }

  Faults judge() {
    for (const Entry& entry : history_.entries()) {
      if (entry.what == "counting") begin(entry);
      if (entry.what == "counted") end(entry);
      if (entry.what == "too early") judge_refusal(entry);
      if (entry.what == "passed") require_open(entry, entry.a, "has passed");
      if (entry.what == "left") judge_rest(entry);
      if (entry.what == "wrong") faults_.push_back(fmt::format("{} is told: {}", entry.who, entry.text));
    }
    return faults_;
  }

 private:
  void begin(const Entry& entry) {
    const std::int64_t generation = std::stoll(entry.text);
    Countdown& one = all_[generation];
    open_[entry.a] = {generation, entry.b, one.certain, generation > 1 ? all_[generation - 1].certain : count_};
    if (!refused_.contains(entry.a)) one.possible += entry.b;
  }
  void end(const Entry& entry) {
    const OpenCount count = open_.at(entry.a);
    Countdown& one = all_[count.generation];
    if (count.generation > 1) require_open(entry, count.generation - 1, "has counted behind");
    one.certain += count.by;
    if (entry.b == 0) return require_open(entry, count.generation, "has opened");
    const std::int64_t done = count_ - entry.b;
    if (done > one.possible || done < count.certain + count.by)
      faults_.push_back(
          fmt::format("{} is told that {} are left of generation {}: {} were counted, {} with those in doubt",
                      entry.who, entry.b, count.generation, count.certain + count.by, one.possible));
    for (std::int64_t step = entry.b + 1; step <= entry.b + count.by; ++step) {
      if (!one.answered.insert(step).second)
        faults_.push_back(fmt::format("two counts were the step from {} of generation {}", step, count.generation));
    }
  }
  void judge_refusal(const Entry& entry) {
    const OpenCount count = open_.at(entry.a);
    if (count.certain_before >= count_)
      faults_.push_back(fmt::format("{} is told that generation {} cannot begin, and the one before was open",
                                    entry.who, count.generation));
  }
  void require_open(const Entry& entry, std::int64_t generation, const char* what) {
    if (all_[generation].possible < count_)
      faults_.push_back(fmt::format("{} {} generation {}, of which {} of {} were counted", entry.who, what, generation,
                                    all_[generation].possible, count_));
  }
  void judge_rest(const Entry& entry) {
    const Countdown& one = all_[entry.a];
    const std::int64_t least = std::max<std::int64_t>(0, count_ - one.possible);
    const std::int64_t most = std::max<std::int64_t>(0, count_ - one.certain);
    if (entry.b < least || entry.b > most)
      faults_.push_back(fmt::format("{} are left of generation {}, not from {} to {}", entry.b, entry.a, least, most));
  }

  const History& history_;
  const std::int64_t count_;
  std::set<std::int64_t> refused_;
  std::map<std::int64_t, OpenCount> open_;  // By number.
  std::map<std::int64_t, Countdown> all_;   // By generation.
  Faults faults_;
};

}  // namespace

Faults check_latches(const History& history, std::int64_t count) { return LatchJudge(history, count).judge(); }

}  // namespace storm
