#pragma once

#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include <zkclient/export.hpp>
#include <zkclient/function.hpp>

#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/meter.hpp"
#include "zkclient/detail/process.hpp"

namespace zkclient::detail {

/// Why the event loop returned: it ended, or a task waits that was left to its thread, which may run it (`inline_task`)
/// or has to go back to the loop (`pass_on`).
enum class LoopPause { inline_task, pass_on, end };

/// The threads of a runtime: one runs the event loop, the others run user code. Normally there are two.
///
/// Tasks start in the order in which they came, one at a time: a thread needs the turn to start one. A task that keeps
/// the turn for longer than a few milliseconds while others wait (it sleeps, or makes a blocking call) loses it to
/// another thread, so that it delays only itself.
///
/// The thread of the event loop runs the tasks that an event brought itself when they are few and another thread is
/// idle, which saves two changes of threads per event: it leaves the loop and runs them inline. The idle thread looks
/// every `loop_patience` whether an inline task takes too long, and takes the loop over if it does. So does it at once
/// when the task says that it is going to wait (`about_to_wait`). No task ever runs on the thread that has the loop at
/// that time.
///
/// `on_backlog` is called, never under the lock, when a task has to wait; its owner then calls `relieve` every few
/// milliseconds for as long as that returns true.
class ZKRECIPES_INTERNAL_API CallbackPool {
 public:
  /// Runs the event loop until it ends, or until a task was scheduled that is for its thread to run.
  using RunLoop = std::function<LoopPause()>;

  /// `max_threads`: besides that of the loop; 0 if only urgent tasks come, and few of them. Throws Error (system_error) when
  /// not even the first two are to be had. Later on tasks wait for those that exist, and for a better time.
  /// `loop_patience`: with a thread that runs a task inline.
  CallbackPool(int max_threads, RunLoop run_loop, std::function<void()> on_backlog,
               std::chrono::milliseconds loop_patience = std::chrono::milliseconds(1));
  ~CallbackPool();

  enum class Place { stopped, pool, inline_task };
  /// Runs `task` on a pool thread. Urgent tasks need no turn, only a thread. `stopped`, and `task` is left alone, when
  /// the pool was stopped. `inline_task`: the caller, which is the event loop, is to leave its loop as soon as it can.
  Place schedule(Task& task, bool urgent, bool from_loop);
  bool relieve();
  /// The calling thread is going to wait for something that the event loop or another task does.
  static void about_to_wait() noexcept;
  /// Waits until the event loop has ended, runs what is queued, then joins the threads (detaches the calling one, if it
  /// belongs to the pool). A second call waits until all threads have left, unless it comes from one of them.
  void stop();

 private:
  struct Shared;
  class Worker;
  void finish_loop();

  std::shared_ptr<Shared> shared_;
};

/// All the handlers of one client: counts them, so that closing the client can wait for them.
class ZKRECIPES_INTERNAL_API CallbackGroup : public std::enable_shared_from_this<CallbackGroup> {
 public:
  using Schedule = std::function<void(Task task, bool urgent)>;
  /// Runs `task` after a while, on the loop thread.
  using Delay = std::function<void(Task task)>;
  /// `foreign_executor`: it is not known how many threads it has. `meter`: for the delay of tasks; null for none. `delay`:
  /// for queues that ask such an executor again, once it has dropped a task; empty: they do not.
  CallbackGroup(Schedule schedule, bool foreign_executor, std::shared_ptr<Meter> meter = nullptr, Delay delay = nullptr)
      : schedule_(std::move(schedule)),
        foreign_executor_(foreign_executor),
        meter_(std::move(meter)),
        delay_(std::move(delay)) {}

  void post(Task task, bool urgent = false);
  /// The same for a task that is no handler: its delay is not counted.
  void post_uncounted(Task task);
  /// Any thread: runs `task` after a while, on the loop thread, unless end_delays() was called before. See `delay` above.
  void delay(Task task);
  /// Loop thread: the client is closed, so nobody is called any more.
  void end_delays() noexcept { delays_over_ = true; }
  Meter* meter() const noexcept { return meter_.get(); }
  /// Waits until all posted tasks have run, and may run some of them itself; does not wait inside one of them.
  void wait();

 private:
  class Entry;
  void post(Task task, bool urgent, bool counted);
  void one_less();

  const ProcessGeneration process_;
  const Schedule schedule_;
  const bool foreign_executor_;
  const std::shared_ptr<Meter> meter_;
  const Delay delay_;
  bool delays_over_ = false;  // On the loop thread only.
  std::mutex mutex_;
  std::condition_variable idle_;
  int count_ = 0;
  std::list<Entry*> entries_;  // Those that have not begun.
};

/// Tasks that never overlap and keep their order: one per subscription, so that a slow listener delays only itself. An
/// executor that has dropped the turn of the thread that was to run them is asked again after a while.
class ZKRECIPES_INTERNAL_API SerialQueue : public std::enable_shared_from_this<SerialQueue> {
 public:
  /// `counted`: the delay of its tasks is.
  explicit SerialQueue(std::shared_ptr<CallbackGroup> group, bool counted = true)
      : group_(std::move(group)), meter_(counted ? group_->meter() : nullptr) {}

  void post(Task task);
  /// Asks at once for a thread if an executor has dropped the one that was to run what is queued. For those who queue
  /// nothing while something of theirs waits.
  void nudge();
  /// Drops what is queued, refuses what comes, and waits for the running task, unless this thread runs it. Nothing in a
  /// forked child.
  void close();

 private:
  using TimePoint = std::chrono::steady_clock::time_point;
  class Turn;
  void drain();
  void skip_turn();

  const std::shared_ptr<CallbackGroup> group_;
  Meter* const meter_;
  const ProcessGeneration process_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<std::pair<Task, TimePoint>> tasks_;  // With the time when it came, if there is a meter.
  bool scheduled_ = false;
  bool closed_ = false;
  std::thread::id runner_;
};

}  // namespace zkclient::detail
