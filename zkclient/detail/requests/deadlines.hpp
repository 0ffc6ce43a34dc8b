#pragma once

#include <functional>
#include <map>
#include <memory>

#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/loop/lifeline.hpp"
#include "zkclient/detail/requests/request.hpp"

namespace zkclient::detail {

/// When which request is given up. Lives on the loop thread.
class Deadlines {
 public:
  /// Called with what has reached its deadline, done or not.
  using Reached = std::function<void(const std::shared_ptr<Op>& op)>;

  Deadlines(EventLoop& events, Lifeline whole, Reached reached)
      : whole_(std::move(whole)), reached_(std::move(reached)), timer_(events) {}

  /// Does nothing for an op without a deadline.
  void add(const std::shared_ptr<Op>& op);
  void stop() noexcept { timer_.cancel(); }

 private:
  void await(Op::TimePoint due);
  void on_time();

  const Lifeline whole_;
  const Reached reached_;
  std::multimap<Op::TimePoint, std::weak_ptr<Op>> ops_;
  Timer timer_;
};

}  // namespace zkclient::detail
