#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "protocol.hpp"
#include "store.hpp"

namespace tour {

enum class Ending { given_back, lost, killed };

/// A worker has the lock, or leads: from when to when, and under which token.
struct Tenure {
  std::size_t worker = 0;
  std::int64_t token = 0;
  Clock::time_point from;
  std::optional<Clock::time_point> until = {};
  /// Unless it was given back, `until` is when its end was noticed, which may be late.
  Ending ending = Ending::given_back;
};

struct Check {
  bool passed = false;
  std::string text;
};

/// What the workers said they did, and whether that is as it should be.
class Minutes {
 public:
  explicit Minutes(std::vector<std::string> names)
      : names_(std::move(names)), in_time_(names_.size()), killed_(names_.size()) {}

  void note(std::size_t worker, const Event& event);
  void note_killed(std::size_t worker, Clock::time_point at);
  /// This worker is never paused, so it is not excused when it notices a loss only after another has its place.
  void expect_in_time(std::size_t worker) { in_time_[worker] = true; }

  [[nodiscard]] const std::vector<Tenure>& holders() const { return holders_; }
  [[nodiscard]] const std::vector<Tenure>& leaders() const { return leaders_; }
  [[nodiscard]] std::size_t late_writes_refused() const { return refused_.size(); }
  [[nodiscard]] std::size_t turns_of(std::size_t worker) const;
  /// How often this worker has said so.
  [[nodiscard]] std::size_t count(std::size_t worker, EventKind kind) const;

  /// Terms grow, and nobody led before the last leader was gone.
  [[nodiscard]] Check check_leaders() const;
  /// Tokens grow, and never two holders.
  [[nodiscard]] Check check_holders() const;
  /// Every worker had its turns.
  [[nodiscard]] Check check_turns() const;
  /// `ledger` is in the order of the tokens, and is what the workers wrote: no more, no less.
  [[nodiscard]] Check check_ledger(const std::vector<Entry>& ledger) const;

 private:
  static void end(std::vector<Tenure>& tenures, std::size_t worker, Clock::time_point at, Ending ending);
  [[nodiscard]] std::size_t overlaps(const std::vector<Tenure>& tenures) const;

  std::vector<std::string> names_;
  std::vector<bool> in_time_;
  std::vector<std::pair<std::size_t, EventKind>> said_;
  std::vector<Tenure> holders_;
  std::vector<Tenure> leaders_;
  std::vector<Entry> written_;
  std::vector<Entry> refused_;
  std::vector<bool> killed_;
};

}  // namespace tour
