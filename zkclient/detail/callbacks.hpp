#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include <zkclient/function.hpp>

namespace zkclient::detail {

using Task = UniqueFunction<void()>;

/// The threads that run user code. Normally one. Tasks start in the order in which they came, one at a time: a
/// thread needs the baton to start one. A task that keeps the baton for longer than a few milliseconds while others
/// wait (it sleeps, or makes a blocking call) loses it to another thread, so that it delays only itself.
///
/// `on_backlog` is called, never under the lock, when a task has to wait; its owner then calls `relieve` every few
/// milliseconds for as long as that returns true.
class CallbackPool {
 public:
  /// Throws Error (system_error) when not even one thread is to be had. Later on tasks wait for those that exist, and
  /// for a better time.
  CallbackPool(int max_threads, std::function<void()> on_backlog);
  ~CallbackPool();

  /// Runs `task` on a pool thread. Urgent tasks need no baton, only a thread. False, and `task` is left alone, when
  /// the pool was stopped.
  bool schedule(Task& task, bool urgent);
  bool relieve();
  /// Runs what is queued, then joins the threads (detaches the calling one, if it belongs to the pool).
  void stop();

 private:
  struct Shared;
  static void work(const std::shared_ptr<Shared>& shared);
  // Requires the lock. False when no thread is to be had.
  static bool add_thread(const std::shared_ptr<Shared>& shared);

  std::shared_ptr<Shared> shared_;
};

/// All the handlers of one client: counts them, so that closing the client can wait for them.
class CallbackGroup : public std::enable_shared_from_this<CallbackGroup> {
 public:
  using Schedule = std::function<void(Task task, bool urgent)>;
  /// `foreign_executor`: nobody knows how many threads it has.
  CallbackGroup(Schedule schedule, bool foreign_executor)
      : schedule_(std::move(schedule)), foreign_executor_(foreign_executor) {}

  void post(Task task, bool urgent = false);
  /// Waits until all posted tasks have run, and may run some of them itself; does not wait inside one of them.
  void wait();

 private:
  class Entry;
  void one_less();

  const Schedule schedule_;
  const bool foreign_executor_;
  std::mutex mutex_;
  std::condition_variable idle_;
  int count_ = 0;
  std::list<Entry*> entries_;  // Those that have not begun.
};

/// Tasks that never overlap and keep their order: one per subscription, so that a slow listener delays only itself.
class SerialQueue : public std::enable_shared_from_this<SerialQueue> {
 public:
  explicit SerialQueue(std::shared_ptr<CallbackGroup> group) : group_(std::move(group)) {}

  void post(Task task);
  /// Drops what is queued, refuses what comes, and waits for the running task, unless this thread runs it.
  void close();

 private:
  void drain();

  const std::shared_ptr<CallbackGroup> group_;
  std::mutex mutex_;
  std::condition_variable idle_;
  std::deque<Task> tasks_;
  bool scheduled_ = false;
  bool closed_ = false;
  std::thread::id runner_;
};

}  // namespace zkclient::detail
