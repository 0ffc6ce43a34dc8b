#include "minutes.hpp"

#include <fmt/format.h>

#include <algorithm>

namespace tour {
namespace {

template <typename T>
bool tokens_grow(const std::vector<T>& list) {
  const auto not_higher = [](const T& left, const T& right) { return left.token >= right.token; };
  return std::adjacent_find(list.begin(), list.end(), not_higher) == list.end();
}

}  // namespace

void Minutes::note(std::size_t worker, const Event& event) {
  if (event.kind == EventKind::joined && count(worker, EventKind::joined) > 0) {
    note_killed(worker, event.at);  // and was started again
  }
  said_.emplace_back(worker, event.kind);
  const Entry entry{.token = event.token, .worker = names_[worker], .number = event.number};
  switch (event.kind) {
    case EventKind::holds: holders_.push_back({.worker = worker, .token = event.token, .from = event.at}); break;
    case EventKind::releases: end(holders_, worker, event.at, Ending::given_back); break;
    case EventKind::lost: end(holders_, worker, event.at, Ending::lost); break;
    case EventKind::leads: leaders_.push_back({.worker = worker, .token = event.token, .from = event.at}); break;
    case EventKind::resigned: end(leaders_, worker, event.at, Ending::given_back); break;
    case EventKind::deposed: end(leaders_, worker, event.at, Ending::lost); break;
    case EventKind::wrote: written_.push_back(entry); break;
    case EventKind::refused: refused_.push_back(entry); break;
    default: break;
  }
}

void Minutes::note_killed(std::size_t worker, Clock::time_point at) {
  killed_[worker] = true;
  end(holders_, worker, at, Ending::killed);
  end(leaders_, worker, at, Ending::killed);
}

void Minutes::end(std::vector<Tenure>& tenures, std::size_t worker, Clock::time_point at, Ending ending) {
  for (auto& tenure : tenures) {
    if (tenure.worker == worker && !tenure.until) {
      tenure.until = at;
      tenure.ending = ending;
    }
  }
}

// Who is paused or starved notices a loss late, and who is dead never. That they do no harm is what the tokens are for.
std::size_t Minutes::overlaps(const std::vector<Tenure>& tenures) const {
  std::size_t count = 0;
  for (std::size_t i = 1; i < tenures.size(); ++i) {
    const auto& before = tenures[i - 1];
    const bool excused = before.ending == Ending::killed || (before.ending == Ending::lost && !in_time_[before.worker]);
    count += !excused && (!before.until || *before.until > tenures[i].from) ? 1 : 0;
  }
  return count;
}

std::size_t Minutes::turns_of(std::size_t worker) const { return count(worker, EventKind::holds); }

std::size_t Minutes::count(std::size_t worker, EventKind kind) const {
  return static_cast<std::size_t>(std::count(said_.begin(), said_.end(), std::pair(worker, kind)));
}

Check Minutes::check_leaders() const {
  std::string line;
  for (const auto& leader : leaders_) {
    line += fmt::format("{}{} (term {})", line.empty() ? "" : ", ", names_[leader.worker], leader.token);
  }
  const auto twice = overlaps(leaders_);
  return {.passed = !leaders_.empty() && tokens_grow(leaders_) && twice == 0,
          .text = fmt::format("leaders: {}; each term higher than the last", line)};
}

Check Minutes::check_holders() const {
  const auto twice = overlaps(holders_);
  return {.passed = tokens_grow(holders_) && twice == 0,
          .text = fmt::format("lock: {} acquisitions, each token higher than the last, {} overlaps", holders_.size(),
                              twice)};
}

Check Minutes::check_turns() const {
  std::string line;
  bool all = true;
  for (std::size_t worker = 0; worker < names_.size(); ++worker) {
    line += fmt::format("{}{} {}", line.empty() ? "" : ", ", names_[worker], turns_of(worker));
    all = all && turns_of(worker) > 0;
  }
  return {.passed = all, .text = "turns: " + line};
}

Check Minutes::check_ledger(const std::vector<Entry>& ledger) const {
  const bool in_order = tokens_grow(ledger);
  const auto missing = std::count_if(written_.begin(), written_.end(), [&](const Entry& entry) {
    return std::find(ledger.begin(), ledger.end(), entry) == ledger.end();
  });
  // Who was killed may have written one entry that it could not report any more.
  const auto killed = [&](const std::string& name) {
    const auto at = std::find(names_.begin(), names_.end(), name) - names_.begin();
    return static_cast<std::size_t>(at) < names_.size() && killed_[static_cast<std::size_t>(at)];
  };
  const auto unknown = std::count_if(ledger.begin(), ledger.end(), [&](const Entry& entry) {
    return !killed(entry.worker) && std::find(written_.begin(), written_.end(), entry) == written_.end();
  });
  const auto late = std::count_if(refused_.begin(), refused_.end(), [&](const Entry& entry) {
    return std::find(ledger.begin(), ledger.end(), entry) != ledger.end();
  });
  return {.passed = in_order && missing == 0 && unknown == 0 && late == 0,
          .text = fmt::format("ledger: {} entries, {} the order of their tokens; {} missing, {} "
                              "unexpected",
                              ledger.size(), in_order ? "in" : "NOT in", missing, unknown + late)};
}

}  // namespace tour
