#pragma once

#include <atomic>
#include <chrono>
#include <coroutine>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <optional>
#include <type_traits>
#include <unordered_map>
#include <utility>

#include <zkclient/clock.hpp>
#include <zkclient/export.hpp>
#include <zkclient/function.hpp>

#include "zkclient/detail/loop/timer_queue.hpp"

namespace zkclient::detail {

using Task = UniqueFunction<void()>;

class Descriptor;

/// The one place that knows what waits: descriptors, timers, posted tasks and suspended coroutines. One thread at a
/// time runs it; all members belong to that thread, unless they say otherwise. It lives on epoll; timers on the steady
/// clock are epoll's own timeout (up to a millisecond late where the kernel is old); those on the clock of leases have
/// a timerfd, because no other way to wait counts the time of a suspended machine.
class ZKRECIPES_INTERNAL_API EventLoop {
 public:
  /// Errors: system_error (no descriptors).
  EventLoop();
  ~EventLoop();
  EventLoop(const EventLoop&) = delete;
  EventLoop& operator=(const EventLoop&) = delete;

  /// The loop that this thread runs right now, or null.
  static EventLoop* current() noexcept;

  /// Any thread: runs `task` later, after all that was posted before. False, and the task is dropped, once the loop was
  /// closed.
  bool post(Task task);
  /// The same from the loop itself, also after it was closed.
  void defer(Task task);
  /// Any thread: from now on post() refuses, and run() ends when nothing is left to wait for.
  void close();

  /// Until interrupt(), or until the end. True at the end.
  bool run();
  /// Makes run() return after the current task.
  void interrupt() noexcept { interrupted_ = true; }
  /// A wish of what lives here: that the thread that runs the loop goes on to run it and nothing else.
  void stay_on_thread() noexcept { stays_on_thread_ = true; }
  bool stays_on_thread() const noexcept { return stays_on_thread_; }

  /// Puts a suspended coroutine at the end of those that go on as soon as the current task has returned, or calls
  /// run_ready().
  void resume_later(std::coroutine_handle<> suspended) { ready_.push_back(suspended); }
  /// Lets the coroutines go on whose time has come. For tasks that report several events, one after another.
  void run_ready();

  TimerQueue<std::chrono::steady_clock>& timers() noexcept { return timers_; }
  TimerQueue<BootClock>& boot_timers() noexcept { return boot_timers_; }

 private:
  friend class Descriptor;

  void wake() noexcept;
  bool idle() const noexcept;
  void take_foreign();
  void run_tasks();
  void run_timers();
  void wait();
  std::optional<std::chrono::nanoseconds> time_to_wait();
  void set_boot_timer();
  void dispatch(std::uint64_t key, std::uint32_t events);
  bool listen(Descriptor& descriptor, std::uint32_t events) noexcept;

  int epoll_ = -1;
  int wake_ = -1;        // An eventfd.
  int boot_timer_ = -1;  // A timerfd.
  BootClock::time_point boot_timer_due_ = BootClock::time_point::max();

  std::deque<Task> tasks_;
  std::deque<std::coroutine_handle<>> ready_;
  TimerQueue<std::chrono::steady_clock> timers_;
  TimerQueue<BootClock> boot_timers_;
  std::unordered_map<std::uint64_t, Descriptor*> descriptors_;  // Those that are listened to.
  std::uint64_t next_key_ = 2;
  bool interrupted_ = false;
  bool stays_on_thread_ = false;
  bool waits_precisely_ = true;  // The kernel has epoll_pwait2(), as far as is known.

  std::atomic<bool> foreign_waiting_{false};  // foreign_ is not empty.
  std::atomic<bool> sleeps_{false};           // In epoll_wait, or on its way there: wants to be woken.
  std::mutex mutex_;
  std::deque<Task> foreign_;         // Posted by other threads.
  std::atomic<bool> closed_{false};  // Written under the lock.
};

/// A one-shot timer. Loop thread only; one that is not set may be destroyed by any thread.
template <typename Clock>
class BasicTimer {
 public:
  using Queue = TimerQueue<Clock>;
  using TimePoint = typename Queue::TimePoint;

  explicit BasicTimer(EventLoop& loop) noexcept : loop_(&loop) {}
  ~BasicTimer() { cancel(); }
  BasicTimer(const BasicTimer&) = delete;
  BasicTimer& operator=(const BasicTimer&) = delete;

  /// Runs `task` at `due`, in place of what was set before.
  void set(TimePoint due, Task task) { queue().set(entry_, due, std::move(task)); }
  void set_after(typename Clock::duration delay, Task task) { set(Clock::now() + delay, std::move(task)); }
  /// Drops the task.
  void cancel() noexcept {
    if (is_set()) queue().cancel(entry_);
  }
  bool is_set() const noexcept { return Queue::is_set(entry_); }
  /// The end of time if it is not set.
  TimePoint due() const noexcept { return Queue::due(entry_); }

 private:
  Queue& queue() noexcept {
    if constexpr (std::is_same_v<Clock, BootClock>) {
      return loop_->boot_timers();
    } else {
      return loop_->timers();
    }
  }

  EventLoop* loop_;
  typename Queue::Entry entry_;
};
using Timer = BasicTimer<std::chrono::steady_clock>;
using BootTimer = BasicTimer<BootClock>;

/// A descriptor that is told about while it can be read or written: again and again, until that is done or no listener
/// is left for it. Loop thread only; one that is closed may be destroyed by any thread.
class Descriptor {
 public:
  using OnReady = UniqueFunction<void(bool readable, bool writable)>;

  /// `on_ready` is never called inside a member function. The object may go while it runs.
  Descriptor(EventLoop& loop, OnReady on_ready) noexcept : loop_(&loop), on_ready_(std::move(on_ready)) {}
  ~Descriptor() { close(); }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;

  /// Owns `fd` from now on.
  void open(int fd) noexcept;
  void close() noexcept;
  bool is_open() const noexcept { return fd_ != -1; }
  int get() const noexcept { return fd_; }

  /// The events to tell about; trouble with the descriptor makes it both readable and writable. False when the system
  /// refuses, for want of memory.
  bool listen_for(bool read, bool write) noexcept;
  bool listens_for_write() const noexcept;

 private:
  friend class EventLoop;

  EventLoop* loop_;
  int fd_ = -1;
  std::uint64_t key_ = 0;
  std::uint32_t events_ = 0;  // As epoll knows them; 0: it does not.
  OnReady on_ready_;
};

}  // namespace zkclient::detail
