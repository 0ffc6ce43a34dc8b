#pragma once

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include <zkclient/clock.hpp>
#include <zkclient/export.hpp>
#include <zkclient/observer.hpp>

#include "zkclient/detail/loop/callbacks.hpp"

namespace zkclient::detail {

/// When something began, by both clocks: one for people, one for its duration.
struct SpanBegin {
  std::chrono::system_clock::time_point at = std::chrono::system_clock::now();
  BootClock::time_point boot = BootClock::now();

  std::chrono::nanoseconds since() const noexcept { return BootClock::now() - boot; }
};

/// Tells a client's observer of what is over, on the callback executor. Any thread.
class ZKRECIPES_INTERNAL_API SpanTeller {
 public:
  SpanTeller(std::shared_ptr<Observer> observer, std::shared_ptr<CallbackGroup> group);

  /// On the caller's thread; see Observer::capture().
  std::shared_ptr<const void> capture() const noexcept;

  struct Ended {
    Span::Kind kind;
    std::string operation;
    std::string path = {};
    SpanBegin begin;
    std::error_code error = {};
    std::string detail = {};
    std::int64_t session = 0;
    std::int64_t token = 0;
    std::shared_ptr<const void> context = {};
  };
  /// What ended just now.
  void tell(Ended ended);
  /// Nothing is told any more when this returns, unless it is itself inside of what is told.
  void close();

 private:
  const std::shared_ptr<Observer> observer_;
  const std::shared_ptr<SerialQueue> queue_;
  const std::shared_ptr<std::atomic<std::size_t>> waiting_ = std::make_shared<std::atomic<std::size_t>>(0);
  std::atomic<bool> closed_{false};
};

}  // namespace zkclient::detail
