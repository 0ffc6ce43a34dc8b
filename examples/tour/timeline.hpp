#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "protocol.hpp"

namespace tour {

/// How the output looks.
struct Look {
  bool colour = false;
  bool unicode = false;
  /// Colour for terminals, see no-color.org and force-color.org; Unicode if the locale has it.
  static Look detect();
};

enum class Tone { plain, quiet, strong, leader, holder, bad, good, director };

/// The state of one worker, as its column shows it.
struct Lane {
  enum class Lock { none, waits, holds };
  enum class Health { fine, paused, dead, gone };
  std::string name;
  bool leads = false;
  Lock lock = Lock::none;
  Health health = Health::fine;
};

/// Prints what happens: a row for each event, with the time, a column for each worker that shows the
/// state it is in from then on, and a text. At most 100 columns wide.
class Timeline {
 public:
  Timeline(const std::vector<std::string>& names, Look look);

  [[nodiscard]] Lane& lane(std::size_t worker) { return lanes_[worker]; }

  void line(std::string_view text, Tone tone = Tone::plain) const;
  void legend() const;
  /// The heading of an act, and what is going to be seen in it.
  void act(std::string_view title, const std::vector<std::string>& explanation) const;
  /// The heads of the columns.
  void heads() const;
  void row(Clock::time_point at, std::string_view text, Tone tone = Tone::plain) const;
  /// One line of the summary.
  void check(bool passed, std::string_view text) const;

  [[nodiscard]] Clock::time_point start() const { return start_; }

 private:
  [[nodiscard]] std::string paint(std::string_view text, Tone tone) const;
  [[nodiscard]] std::string cell(const Lane& lane) const;

  const Look look_;
  const Clock::time_point start_ = Clock::now();
  std::vector<Lane> lanes_;
};

}  // namespace tour
