#include "zkclient/detail/callbacks.hpp"

#include <pthread.h>

#include <algorithm>
#include <chrono>
#include <list>
#include <system_error>
#include <vector>

#include <zkclient/error.hpp>

namespace zkclient::detail {
namespace {

constexpr auto helper_idle_time = std::chrono::seconds(1);

// The groups whose tasks this thread is running, innermost last.
thread_local std::vector<const CallbackGroup*> running_groups;

}  // namespace

struct CallbackPool::Shared {
  std::mutex mutex;
  std::condition_variable work;
  std::deque<Task> tasks;
  std::deque<Task> urgent;
  std::list<std::thread> threads;
  std::list<std::thread> leaving;  // About to return; joined by whoever comes next.
  int max_threads = 1;
  int idle = 0;
  int starting = 0;         // Will be idle in a moment.
  std::uint64_t baton = 0;  // Counts how often it was taken; a holder whose number is outdated lost it.
  bool baton_taken = false;
  std::uint64_t baton_at_relief = 0;
  bool backlog = false;
  bool stopping = false;
  std::function<void()> on_backlog;

  int ready() const { return idle + starting; }
  bool lacks_threads() const { return ready() < static_cast<int>(urgent.size()); }
  bool may_start() const { return !urgent.empty() || (!tasks.empty() && !baton_taken); }
};

CallbackPool::CallbackPool(int max_threads, std::function<void()> on_backlog) : shared_(std::make_shared<Shared>()) {
  shared_->max_threads = max_threads;
  shared_->on_backlog = std::move(on_backlog);
  const std::lock_guard lock(shared_->mutex);
  if (!add_thread(shared_)) throw Error(Errc::system_error, "runtime", "", "there is no thread for callbacks");
}

CallbackPool::~CallbackPool() { stop(); }

bool CallbackPool::schedule(Task& task, bool urgent) {
  bool report = false;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->stopping) return false;
    (urgent ? shared_->urgent : shared_->tasks).push_back(std::move(task));
    // Urgent ones have to wait only if there is no thread to be had.
    const bool waits =
        urgent ? shared_->lacks_threads() && !add_thread(shared_) : shared_->baton_taken || shared_->ready() == 0;
    if (waits && !shared_->backlog) {
      shared_->backlog = report = true;
      shared_->baton_at_relief = shared_->baton;
    }
  }
  shared_->work.notify_one();
  if (report) shared_->on_backlog();
  return true;
}

bool CallbackPool::relieve() {
  const std::lock_guard lock(shared_->mutex);
  const bool urgent = shared_->lacks_threads();
  const bool ordinary = !shared_->tasks.empty();
  shared_->backlog = (urgent || ordinary) && !shared_->stopping;
  if (!shared_->backlog) return false;
  if (urgent) add_thread(shared_);
  if (ordinary && shared_->baton_taken && shared_->baton == shared_->baton_at_relief) {
    shared_->baton_taken = false;
    ++shared_->baton;
  }
  if (ordinary && !shared_->baton_taken) {
    const bool full = static_cast<int>(shared_->threads.size()) >= shared_->max_threads;
    if (shared_->ready() == 0 && !full) add_thread(shared_);
    shared_->work.notify_one();
  }
  shared_->baton_at_relief = shared_->baton;
  return true;
}

bool CallbackPool::add_thread(const std::shared_ptr<Shared>& shared) {
  for (std::thread& thread : shared->leaving)
    thread.join();  // Short: it has nothing left to do but return.
  shared->leaving.clear();
  try {
    shared->threads.emplace_back([shared] { work(shared); });
  } catch (const std::system_error&) {
    return false;
  }
  ++shared->starting;
  return true;
}

void CallbackPool::work(const std::shared_ptr<Shared>& shared) {
  pthread_setname_np(pthread_self(), "zk-callback");
  std::unique_lock lock(shared->mutex);
  --shared->starting;
  const auto wanted = [&] { return shared->may_start() || shared->stopping; };
  for (;;) {
    ++shared->idle;
    bool work = true;
    if (shared->threads.size() > 1) {
      work = shared->work.wait_for(lock, helper_idle_time, wanted);
    } else {
      shared->work.wait(lock, wanted);  // The last thread sleeps without a timer.
    }
    --shared->idle;
    // A helper that is not needed any more, unless all others are busy: the next task may find them so still.
    if (!work && shared->idle > 0) break;
    if (shared->stopping && shared->tasks.empty() && shared->urgent.empty()) return;
    if (!shared->may_start() && !shared->stopping) continue;
    const bool urgent = !shared->urgent.empty();
    std::deque<Task>& from = urgent ? shared->urgent : shared->tasks;
    Task task = std::move(from.front());
    from.pop_front();
    const std::uint64_t mine = urgent ? 0 : ++shared->baton;
    if (!urgent) shared->baton_taken = true;
    // Those that came before this one was started have reported nothing: a thread was there for them.
    bool report = false;
    const bool others_wait = !shared->tasks.empty() && (!urgent || shared->ready() == 0);
    if (others_wait && !shared->backlog && !shared->stopping) {
      shared->backlog = report = true;
      shared->baton_at_relief = shared->baton;
    }
    lock.unlock();
    if (report) shared->on_backlog();
    task();
    task = nullptr;  // What the task owns goes before the next one starts.
    lock.lock();
    if (!urgent && shared->baton == mine) {
      shared->baton_taken = false;
    } else if (shared->may_start()) {
      shared->work.notify_one();
    }
  }
  for (auto self = shared->threads.begin(); self != shared->threads.end(); ++self) {
    if (self->get_id() != std::this_thread::get_id()) continue;
    shared->leaving.splice(shared->leaving.end(), shared->threads, self);
    return;
  }
}

void CallbackPool::stop() {
  std::list<std::thread> threads;
  {
    const std::lock_guard lock(shared_->mutex);
    shared_->stopping = true;
    threads.splice(threads.end(), shared_->threads);
    threads.splice(threads.end(), shared_->leaving);
  }
  shared_->work.notify_all();
  for (std::thread& thread : threads) {
    if (thread.get_id() == std::this_thread::get_id()) {
      thread.detach();
    } else {
      thread.join();
    }
  }
}

// A posted task. It runs once, and counts until it has run, or was dropped because the executor is gone.
class CallbackGroup::Entry : public std::enable_shared_from_this<Entry> {
 public:
  // Requires the group's lock.
  Entry(std::shared_ptr<CallbackGroup> group, Task task)
      : group_(std::move(group)),
        task_(std::move(task)),
        place_(group_->entries_.insert(group_->entries_.end(), this)) {
    ++group_->count_;
  }
  Entry(const Entry&) = delete;
  Entry& operator=(const Entry&) = delete;
  ~Entry() {
    const std::lock_guard lock(group_->mutex_);
    if (taken_) return;
    group_->entries_.erase(place_);
    group_->one_less();
  }

  void run() {
    {
      const std::lock_guard lock(group_->mutex_);
      if (taken_) return;
      taken_ = true;
      group_->entries_.erase(place_);
    }
    const Running running(*group_);
    Task task = std::move(task_);  // What it owns goes before it is counted as done.
    task();
  }

 private:
  struct Running {
    explicit Running(CallbackGroup& of) : group(of) { running_groups.push_back(&of); }
    ~Running() {
      running_groups.pop_back();
      const std::lock_guard lock(group.mutex_);
      group.one_less();
    }
    Running(const Running&) = delete;
    Running& operator=(const Running&) = delete;
    CallbackGroup& group;
  };

  const std::shared_ptr<CallbackGroup> group_;
  Task task_;
  bool taken_ = false;
  std::list<Entry*>::iterator place_;  // Until it is taken.
};

// Requires the lock.
void CallbackGroup::one_less() {
  if (--count_ == 0) idle_.notify_all();
}

void CallbackGroup::post(Task task, bool urgent) {
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    entry = std::make_shared<Entry>(shared_from_this(), std::move(task));
  }
  schedule_([entry = std::move(entry)] { entry->run(); }, urgent);
}

void CallbackGroup::wait() {
  const bool inside = std::find(running_groups.begin(), running_groups.end(), this) != running_groups.end();
  if (inside) return;
  std::unique_lock lock(mutex_);
  // Whoever has to run the tasks may be waiting here: an executor with one thread, or a handler of another client.
  const bool help = foreign_executor_ || !running_groups.empty();
  while (help && !entries_.empty()) {
    std::shared_ptr<Entry> entry = entries_.front()->weak_from_this().lock();
    if (entry == nullptr) break;  // It is being dropped right now.
    lock.unlock();
    entry->run();
    entry = nullptr;
    lock.lock();
  }
  idle_.wait(lock, [&] { return count_ == 0; });
}

void SerialQueue::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    tasks_.push_back(std::move(task));
    if (scheduled_) return;
    scheduled_ = true;
  }
  group_->post([self = shared_from_this()] { self->drain(); });
}

void SerialQueue::drain() {
  std::unique_lock lock(mutex_);
  runner_ = std::this_thread::get_id();
  // Also when a listener throws: the executor may go on after that.
  struct End {
    SerialQueue& queue;
    std::unique_lock<std::mutex>& lock;
    ~End() {
      if (!lock.owns_lock()) lock.lock();
      queue.runner_ = {};
      queue.idle_.notify_all();
      queue.scheduled_ = !queue.tasks_.empty();
      if (!queue.scheduled_) return;
      lock.unlock();
      queue.group_->post([self = queue.shared_from_this()] { self->drain(); });
    }
  } end{*this, lock};
  // A bounded number per turn, so that one busy queue cannot starve the others on a single thread.
  for (int turn = 0; turn < 64 && !tasks_.empty(); ++turn) {
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    task();
    task = nullptr;
    lock.lock();
  }
}

void SerialQueue::close() {
  std::deque<Task> dropped;
  std::unique_lock lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
  if (runner_ != std::this_thread::get_id()) idle_.wait(lock, [&] { return runner_ == std::thread::id(); });
  lock.unlock();
}

}  // namespace zkclient::detail
