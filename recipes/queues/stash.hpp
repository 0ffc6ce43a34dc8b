#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <utility>

#include "recipes/queues/queue_spec.hpp"

namespace zkrecipes::detail {

/// Claims that were made ahead, before a call asked for them; in the order in which they are to be taken. They go back
/// when no call has asked for a claim for a while. Loop thread only, apart from the constructor.
class Stash {
 public:
  explicit Stash(zk::EventLoop& events) : wake_(events) {}

  /// A call asks for a claim.
  void note_demand();
  /// Calls have asked for claims lately.
  bool in_demand() const;
  /// With those that are on their way.
  std::size_t size() const noexcept { return claims_.size() + coming_; }
  void expect_one() noexcept { ++coming_; }
  void one_has_come() noexcept { --coming_; }

  void put(Taken claim);
  /// True if there is a claim that is not lost.
  bool ready();
  /// Only if ready().
  Taken take();
  /// With their session.
  void clear() { claims_.clear(); }

  /// Nothing is claimed ahead any more.
  void retire();
  bool retired() const noexcept { return retired_; }

  /// True if no coroutine waits for unused(): the caller starts one.
  bool begin_returning() noexcept { return !std::exchange(returning_, true); }
  /// Waits for the claims that are to go back: for want of demand, or because it is retired. None if calls have taken
  /// them all. A claim that is put here after that, even before the caller goes on, stays.
  zk::Awaitable<std::deque<Taken>> unused();

 private:
  std::deque<Taken> claims_;
  std::size_t coming_ = 0;
  std::chrono::steady_clock::time_point last_demand_{};
  zk::Signal wake_;
  bool returning_ = false;
  bool retired_ = false;
};

}  // namespace zkrecipes::detail
