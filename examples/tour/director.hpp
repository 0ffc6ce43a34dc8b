#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "crew.hpp"
#include "minutes.hpp"
#include "stage.hpp"
#include "timeline.hpp"

namespace tour {

/// The tour cannot go on.
class Failure : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

/// Plays the tour: tells the workers what to do, does to them what the acts need, and shows it.
class Director {
 public:
  Director(const SignalWatch& signals, Stage& stage, Look look);

  /// True if everything was as it should be. Throws Failure or Interrupted.
  bool play();

 private:
  void introduce();
  void act_one();
  void act_two();
  void act_three();
  void act_four();
  bool summarise();

  void begin_act(std::string_view title, const std::vector<std::string>& explanation);
  void end_act();
  void freeze(std::size_t worker);
  void thaw(std::size_t worker);
  void dismiss(const std::vector<std::size_t>& workers);

  /// Shows what happens until `done()`; it is asked after each event. Throws Failure when it takes too long.
  void await(std::string_view what, const std::function<bool()>& done);
  void tell_all(Command command) const;
  void on_report(const Report& report);
  void on_end(std::size_t worker);
  void update_lane(std::size_t worker, const Event& event);
  void show(std::size_t worker, const Event& event);

  [[nodiscard]] std::vector<std::size_t> present() const;
  [[nodiscard]] std::vector<std::size_t> counts(EventKind kind) const;
  [[nodiscard]] std::optional<std::size_t> leader() const;

  const SignalWatch& signals_;
  Stage& stage_;
  std::vector<std::string> names_;
  Timeline timeline_;
  Minutes minutes_;
  std::chrono::milliseconds session_timeout_{0};
  std::chrono::milliseconds takeover_after_kill_{0};
  std::chrono::milliseconds takeover_after_resignation_{0};
  /// Workers whose end is in order: they were killed, or said that they leave.
  std::vector<bool> may_end_;
  std::vector<bool> ended_;
  std::optional<std::size_t> killed_;
  Crew crew_;
};

}  // namespace tour
