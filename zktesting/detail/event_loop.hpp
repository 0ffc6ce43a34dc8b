#pragma once

#include <array>
#include <cstdint>
#include <deque>
#include <functional>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>

#include "zktesting/detail/posix.hpp"

namespace zktesting::detail {

/// One thread that waits for descriptors, timers and posted tasks.
class EventLoop {
 public:
  using Task = std::function<void()>;
  enum class Event : std::size_t { readable, writable };
  using TimerId = std::uint64_t;

  /// Throws `Error`.
  EventLoop();
  /// Runs what was posted, then ends the thread.
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// Any thread.
  void post(Task task);
  /// Runs `function` on the loop's thread and returns what it returns, or throws what it throws.
  /// Not to be called on that thread.
  template <class Function>
  auto run(Function function) {
    auto task = std::make_shared<std::packaged_task<decltype(function())()>>(std::move(function));
    auto result = task->get_future();
    post([task] { (*task)(); });
    return result.get();
  }

  // ---- On the loop's thread.
  /// Calls `task` once, when `fd` is ready or in trouble.
  void await(int fd, Event event, Task task);
  /// Drops what waits for `fd`: to be called before it is closed.
  void forget(int fd);
  /// Calls `task` at `due`.
  TimerId at(Clock::time_point due, Task task);
  void cancel(TimerId timer);

 private:
  struct Watched {
    std::uint32_t generation;  ///< An event may be told late, of another descriptor of that number.
    std::uint32_t listened = 0;
    std::array<Task, 2> tasks = {};
  };

  void serve();
  void run_posted();
  void run_due();
  int timeout_ms() const;
  void dispatch(int fd, std::uint32_t generation, std::uint32_t events);

  UniqueFd epoll_;
  UniqueFd wake_;
  std::map<int, Watched> watched_;
  std::uint32_t next_generation_ = 0;
  std::map<std::pair<Clock::time_point, TimerId>, Task> timers_;
  std::map<TimerId, Clock::time_point> due_;
  TimerId next_timer_ = 0;

  std::mutex mutex_;
  std::deque<Task> posted_;
  bool ending_ = false;
  std::thread thread_;  // The last member: it begins when all else is there.
};

}  // namespace zktesting::detail
