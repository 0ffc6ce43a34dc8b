#pragma once

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <utility>

#include "simulation/base/random.hpp"

namespace zktesting::simulated {

using Nanos = std::chrono::nanoseconds;

/// Time and chance of one simulated world. Events run one after the other, in the order of their times; those of the
/// same time in the order in which they were asked for. Not thread-safe: only the thread whose turn it is uses it.
class EventQueue {
 public:
  using Act = std::function<void()>;
  /// Names an event until it has run: for cancel().
  struct Key {
    Nanos at{};
    std::uint64_t order = 0;
    friend auto operator<=>(const Key&, const Key&) = default;
  };

  explicit EventQueue(std::uint64_t seed) : random_(seed) {}

  /// Since the world began.
  [[nodiscard]] Nanos now() const { return now_; }
  Random& random() { return random_; }

  Key at(Nanos time, Act act) {
    const Key key{std::max(time, now_), ++made_};
    events_.emplace(key, std::move(act));
    return key;
  }
  Key after(Nanos delay, Act act) { return at(now_ + delay, std::move(act)); }
  void cancel(const Key& key) { events_.erase(key); }

  /// Nothing of what was asked for happens any more.
  void clear() {
    const auto ended = std::exchange(events_, {});  // What they hold may still cancel events.
  }

  [[nodiscard]] std::optional<Nanos> next() const {
    if (events_.empty()) return std::nullopt;
    return events_.begin()->first.at;
  }
  /// Runs the next event, at its time. False: there is none.
  bool run_next() {
    if (events_.empty()) return false;
    auto event = events_.extract(events_.begin());
    now_ = event.key().at;
    event.mapped()();
    return true;
  }
  /// Runs what is due until then, and makes it `time`.
  void run_until(Nanos time) {
    while (next() && *next() <= time)
      run_next();
    now_ = std::max(now_, time);
  }
  /// Lets time pass, up to the next event: what a thread's turn costs.
  void pass(Nanos time) { now_ = next() ? std::min(now_ + time, std::max(now_, *next())) : now_ + time; }

 private:
  Nanos now_{};
  std::uint64_t made_ = 0;
  std::map<Key, Act> events_;
  Random random_;
};

}  // namespace zktesting::simulated
