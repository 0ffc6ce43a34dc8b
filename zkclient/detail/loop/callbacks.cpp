#include "zkclient/detail/loop/callbacks.hpp"

#include <algorithm>
#include <chrono>
#include <list>
#include <system_error>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>

#include "zkclient/detail/process.hpp"

namespace zkclient::detail {
namespace {

constexpr auto helper_idle_time = std::chrono::seconds(1);
constexpr std::size_t inline_size = 4;                        // Tasks; with more of them two threads are faster.
constexpr auto inline_time = std::chrono::microseconds(200);  // After that the rest is for another thread,
constexpr int inline_off_after_a_long_one = 64;               // and so are as many tasks to come.

// The groups whose tasks this thread is running, innermost last.
thread_local std::vector<const CallbackGroup*> running_groups;

}  // namespace

enum class LoopState {
  free,  // An idle thread is to run it.
  run,   // By some thread.
  left,  // By its thread, which will be back, unless another one takes over.
  ended,
};

struct CallbackPool::Shared {
  const ProcessGeneration process;
  std::mutex mutex;
  std::condition_variable work;
  std::deque<Task> tasks;
  std::deque<Task> urgent;
  std::list<std::thread> threads;
  std::list<std::thread> leaving;  // About to return; joined by the next thread that comes.
  int max_threads = 1;             // Without that of the loop.
  std::chrono::milliseconds loop_patience{};
  int idle = 0;
  int starting = 0;        // Will be idle in a moment.
  std::uint64_t turn = 0;  // Counts how often it was taken; a holder whose number is outdated lost it.
  bool turn_taken = false;
  std::uint64_t turn_at_relief = 0;
  bool backlog = false;
  bool stopping = false;
  bool stop_begun = false;  // By the thread that joins the others.
  bool stopped = false;
  int working = 0;  // Threads that have not left: those that are joined, and one that has detached itself.
  std::condition_variable has_stopped;
  RunLoop run_loop;
  std::function<void()> on_backlog;

  LoopState loop = LoopState::free;
  std::condition_variable loop_ended;
  bool finishing = false;          // No more inline tasks.
  std::uint64_t inline_tasks = 0;  // Counts them.
  std::uint64_t seen = 0;          // The last one that an idle thread began to watch.
  bool watched = false;            // By an idle thread.
  int inline_off = 0;              // So many tasks of the loop go to other threads: an inline task took long.

  // Whether it is to be reported.
  bool begin_backlog() {
    if (backlog || stopping) return false;
    turn_at_relief = turn;
    return backlog = true;
  }
  int ready() const { return idle + starting; }
  bool lacks_threads() const { return ready() < static_cast<int>(urgent.size()); }
  bool may_start() const { return !urgent.empty() || (!tasks.empty() && !turn_taken); }
  // The loop is left only while another thread is there to take it over.
  bool may_run_inline() const {
    return !finishing && inline_off == 0 && !tasks.empty() && !turn_taken && tasks.size() <= inline_size &&
           ready() > static_cast<int>(urgent.size());
  }
};

// The work of a thread of the pool. All members require the lock.
class CallbackPool::Worker {
 public:
  explicit Worker(std::shared_ptr<Shared> shared) : shared_(std::move(shared)), s_(*shared_) {}

  static void work(std::shared_ptr<Shared> shared);
  // False when no thread is to be had.
  static bool add_thread(const std::shared_ptr<Shared>& shared);
  static void set_loop_free();
  static bool is_this_thread_of(const Shared& pool) noexcept { return pool_ == &pool; }

 private:
  enum class Duty { loop, task, none };

  Duty next_duty();
  Duty wait_for_duty();
  void run_loop();
  void run_inline_tasks();
  void run_task(bool urgent);
  void pass_on();
  void report_backlog();
  void leave();

  static thread_local Shared* inline_on_;
  static thread_local const Shared* pool_;  // Of this thread; null if it is another's.

  const std::shared_ptr<Shared> shared_;
  Shared& s_;
  std::unique_lock<std::mutex> lock_{s_.mutex};
};

thread_local CallbackPool::Shared* CallbackPool::Worker::inline_on_ = nullptr;
thread_local const CallbackPool::Shared* CallbackPool::Worker::pool_ = nullptr;

CallbackPool::CallbackPool(int max_threads, RunLoop run_loop, std::function<void()> on_backlog,
                           std::chrono::milliseconds loop_patience)
    : shared_(std::make_shared<Shared>()) {
  shared_->max_threads = max_threads;
  shared_->loop_patience = loop_patience;
  shared_->run_loop = std::move(run_loop);
  shared_->on_backlog = std::move(on_backlog);
  {
    const std::lock_guard lock(shared_->mutex);
    if (Worker::add_thread(shared_) && (max_threads == 0 || Worker::add_thread(shared_))) return;
    shared_->loop = LoopState::ended;
  }
  stop();
  throw Error(Errc::system_error, "runtime", "", "there are no threads for the event loop and the callbacks");
}

CallbackPool::~CallbackPool() { stop(); }

CallbackPool::Place CallbackPool::schedule(Task& task, bool urgent, bool from_loop) {
  bool report = false;
  {
    const std::lock_guard lock(shared_->mutex);
    if (shared_->stopping) return Place::stopped;
    (urgent ? shared_->urgent : shared_->tasks).push_back(std::move(task));
    if (from_loop && !urgent) {
      if (shared_->may_run_inline()) return Place::inline_task;
      if (shared_->inline_off > 0) --shared_->inline_off;
    }
    // Urgent ones have to wait only if there is no thread to be had.
    const bool waits = urgent ? shared_->lacks_threads() && !Worker::add_thread(shared_)
                              : shared_->turn_taken || shared_->ready() == 0;
    report = waits && shared_->begin_backlog();
  }
  shared_->work.notify_one();
  if (report) shared_->on_backlog();
  return Place::pool;
}

bool CallbackPool::relieve() {
  const std::lock_guard lock(shared_->mutex);
  const bool urgent = shared_->lacks_threads();
  const bool ordinary = !shared_->tasks.empty();
  shared_->backlog = (urgent || ordinary) && !shared_->stopping;
  if (!shared_->backlog) return false;
  if (urgent) Worker::add_thread(shared_);
  if (ordinary && shared_->turn_taken && shared_->turn == shared_->turn_at_relief) {
    shared_->turn_taken = false;
    ++shared_->turn;
  }
  if (ordinary && !shared_->turn_taken) {
    const bool full = static_cast<int>(shared_->threads.size()) > shared_->max_threads;
    if (shared_->ready() == 0 && !full) Worker::add_thread(shared_);
    shared_->work.notify_one();
  }
  shared_->turn_at_relief = shared_->turn;
  return true;
}

void CallbackPool::about_to_wait() noexcept { Worker::set_loop_free(); }

void CallbackPool::finish_loop() {
  std::unique_lock lock(shared_->mutex);
  shared_->finishing = true;
  while (shared_->loop != LoopState::ended) {
    if (shared_->loop == LoopState::left) {
      shared_->loop = LoopState::free;
      shared_->work.notify_one();
    }
    shared_->loop_ended.wait(lock);
  }
}

void CallbackPool::stop() {
  about_to_wait();  // For the tasks of this pool, in one of another.
  {
    std::unique_lock lock(shared_->mutex);
    if (std::exchange(shared_->stop_begun, true)) {
      if (Worker::is_this_thread_of(*shared_)) return;  // For which the first one waits.
      shared_->has_stopped.wait(lock, [this] { return shared_->stopped && shared_->working == 0; });
      return;
    }
  }
  finish_loop();
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
  const std::lock_guard lock(shared_->mutex);
  shared_->stopped = true;
  shared_->has_stopped.notify_all();
}

bool CallbackPool::Worker::add_thread(const std::shared_ptr<Shared>& shared) {
  for (std::thread& thread : shared->leaving)
    thread.join();  // Short: it has nothing left to do but return.
  shared->leaving.clear();
  try {
    shared->threads.push_back(start_thread("zkclient", [shared] { work(shared); }));
  } catch (const std::exception&) {
    return false;
  }
  ++shared->starting;
  ++shared->working;
  return true;
}

void CallbackPool::Worker::work(std::shared_ptr<Shared> shared) {
  pool_ = shared.get();
  Worker self(std::move(shared));
  --self.s_.starting;
  for (;;) {
    const Duty duty = self.next_duty();
    if (duty == Duty::none) break;
    if (duty == Duty::loop) {
      self.run_loop();
    } else {
      self.run_task(!self.s_.urgent.empty());
    }
  }
  self.leave();
}

CallbackPool::Worker::Duty CallbackPool::Worker::next_duty() {
  ++s_.idle;
  const Duty duty = wait_for_duty();
  --s_.idle;
  return duty;
}

CallbackPool::Worker::Duty CallbackPool::Worker::wait_for_duty() {
  const auto called = [this] { return s_.loop == LoopState::free || s_.may_start() || s_.stopping; };
  for (;;) {
    if (s_.loop == LoopState::free && !s_.stopping) return Duty::loop;
    if (s_.may_start() || (s_.stopping && !s_.tasks.empty())) {
      // The last idle thread is the only one that could take the loop over.
      return s_.loop == LoopState::left && s_.idle == 1 ? Duty::loop : Duty::task;
    }
    if (s_.stopping) return Duty::none;
    const auto unwatched = [this] { return s_.inline_tasks != s_.seen && !s_.watched; };
    if (unwatched()) {
      s_.watched = true;
      s_.seen = s_.inline_tasks;
      const bool wanted = s_.work.wait_for(lock_, s_.loop_patience, called);
      s_.watched = false;
      if (wanted) {
        --s_.seen;  // Another thread is to watch.
        s_.work.notify_one();
      } else if (s_.loop == LoopState::left && s_.inline_tasks == s_.seen) {
        s_.loop = LoopState::free;
        s_.inline_off = inline_off_after_a_long_one;
      }
      continue;
    }
    const auto wanted = [&] { return called() || unwatched(); };
    if (s_.threads.size() <= 2) {
      s_.work.wait(lock_, wanted);  // The last thread sleeps without a timer.
    } else if (!s_.work.wait_for(lock_, helper_idle_time, wanted) && s_.idle > 1) {
      return Duty::none;  // A helper that is not needed any more.
    }
  }
}

void CallbackPool::Worker::run_loop() {
  s_.loop = LoopState::run;
  if (s_.lacks_threads() && !add_thread(shared_)) report_backlog();
  for (;;) {
    lock_.unlock();
    const LoopPause pause = s_.run_loop();
    lock_.lock();
    if (pause == LoopPause::end) {
      s_.loop = LoopState::ended;
      s_.loop_ended.notify_all();
      return;
    }
    if (pause == LoopPause::pass_on || !s_.may_run_inline()) {
      pass_on();
      continue;
    }
    run_inline_tasks();
    if (s_.loop == LoopState::run || s_.loop == LoopState::ended) return;  // Another thread took over.
    s_.loop = LoopState::run;
  }
}

void CallbackPool::Worker::run_inline_tasks() {
  s_.loop = LoopState::left;
  ++s_.inline_tasks;
  if (!s_.watched) s_.work.notify_one();
  inline_on_ = &s_;
  const auto begin = std::chrono::steady_clock::now();
  const auto late = [begin] { return std::chrono::steady_clock::now() - begin > inline_time; };
  do {
    run_task(false);
    if (late()) s_.inline_off = inline_off_after_a_long_one;
  } while (s_.may_run_inline());
  inline_on_ = nullptr;
  pass_on();
}

// Tasks that the loop's thread left to the others.
void CallbackPool::Worker::pass_on() {
  if (s_.tasks.empty() || s_.turn_taken) return;
  s_.work.notify_one();
  if (s_.ready() == 0) report_backlog();
}

void CallbackPool::Worker::report_backlog() {
  if (!s_.begin_backlog()) return;
  lock_.unlock();
  s_.on_backlog();
  lock_.lock();
}

void CallbackPool::Worker::run_task(bool urgent) {
  std::deque<Task>& from = urgent ? s_.urgent : s_.tasks;
  Task task = std::move(from.front());
  from.pop_front();
  const std::uint64_t mine = urgent ? 0 : ++s_.turn;
  if (!urgent) s_.turn_taken = true;
  // Those that came before this one was started have reported nothing: a thread was there for them.
  const bool report = !s_.tasks.empty() && (!urgent || s_.ready() == 0) && s_.begin_backlog();
  lock_.unlock();
  if (report) s_.on_backlog();
  task();
  task = nullptr;  // The task's captures go before the next one starts.
  lock_.lock();
  if (!urgent && s_.turn == mine) {
    s_.turn_taken = false;
  } else if (s_.may_start()) {
    s_.work.notify_one();
  }
}

// Others may join the thread that this one returns from, unless the pool is being stopped.
void CallbackPool::Worker::leave() {
  --s_.working;
  s_.has_stopped.notify_all();
  for (auto self = s_.threads.begin(); self != s_.threads.end(); ++self) {
    if (self->get_id() != std::this_thread::get_id()) continue;
    s_.leaving.splice(s_.leaving.end(), s_.threads, self);
    return;
  }
}

void CallbackPool::Worker::set_loop_free() {
  Shared* const away = inline_on_;
  // A child that was forked in an inline task: the loop is the parent's, and so may be a thread that has the lock.
  if (away == nullptr || away->process.forked()) return;
  const std::lock_guard lock(away->mutex);
  if (away->loop != LoopState::left) return;
  away->loop = LoopState::free;
  away->work.notify_one();
}

// A posted task. It runs once, and counts until it has run, or was dropped because the executor is gone.
class CallbackGroup::Entry : public std::enable_shared_from_this<Entry> {
 public:
  // Requires the group's lock.
  Entry(std::shared_ptr<CallbackGroup> group, Task task, bool counted)
      : group_(std::move(group)),
        meter_(counted ? group_->meter() : nullptr),
        task_(std::move(task)),
        place_(group_->entries_.insert(group_->entries_.end(), this)) {
    ++group_->count_;
    if (meter_ != nullptr) posted_ = std::chrono::steady_clock::now();
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
    if (meter_ != nullptr) meter_->time(Metrics::Timing::callback_delay, std::chrono::steady_clock::now() - posted_);
    const Running running(*group_);
    Task task = std::move(task_);  // Its captures go before it is counted as done.
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
  Meter* const meter_;
  Task task_;
  bool taken_ = false;
  std::chrono::steady_clock::time_point posted_;  // If there is a meter.
  std::list<Entry*>::iterator place_;             // Until it is taken.
};

// Requires the lock.
void CallbackGroup::one_less() {
  if (--count_ == 0) idle_.notify_all();
}

void CallbackGroup::post(Task task, bool urgent) { post(std::move(task), urgent, true); }

void CallbackGroup::post_uncounted(Task task) { post(std::move(task), false, false); }

void CallbackGroup::post(Task task, bool urgent, bool counted) {
  if (process_.forked()) {  // The threads are the parent's, and the one that had the lock is not here any more.
    task();
    return;
  }
  std::shared_ptr<Entry> entry;
  {
    const std::lock_guard lock(mutex_);
    entry = std::make_shared<Entry>(shared_from_this(), std::move(task), counted);
  }
  schedule_([entry = std::move(entry)] { entry->run(); }, urgent);
}

void CallbackGroup::delay(Task task) {
  if (!delay_) return;
  delay_([self = shared_from_this(), task = std::move(task)]() mutable {
    if (!self->delays_over_) task();
  });
}

void CallbackGroup::wait() {
  const bool inside = std::find(running_groups.begin(), running_groups.end(), this) != running_groups.end();
  if (inside) return;
  std::unique_lock lock(mutex_);
  // The thread that has to run the tasks may be waiting here: an executor with one thread, or a handler of another
  // client.
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

/// Empties the queue. An executor may destroy it instead: then another one is asked for, later or with the next task.
class SerialQueue::Turn {
 public:
  explicit Turn(std::shared_ptr<SerialQueue> queue) : queue_(std::move(queue)) {}
  Turn(Turn&&) noexcept = default;
  ~Turn() {
    if (queue_ != nullptr) queue_->skip_turn();
  }

  void operator()() { std::exchange(queue_, nullptr)->drain(); }

 private:
  std::shared_ptr<SerialQueue> queue_;
};

// The thread that drops it may be the loop's, or hold the executor's lock: so it is not asked here.
void SerialQueue::skip_turn() {
  {
    const std::lock_guard lock(mutex_);
    scheduled_ = false;
    if (closed_ || tasks_.empty()) return;
  }
  group_->delay([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->nudge();
  });
}

void SerialQueue::post(Task task) {
  {
    const std::lock_guard lock(mutex_);
    if (closed_) return;
    tasks_.emplace_back(std::move(task), meter_ != nullptr ? std::chrono::steady_clock::now() : TimePoint());
    if (scheduled_) return;
    scheduled_ = true;
  }
  group_->post_uncounted(Turn(shared_from_this()));
}

void SerialQueue::nudge() {
  {
    const std::lock_guard lock(mutex_);
    if (closed_ || scheduled_ || tasks_.empty()) return;
    scheduled_ = true;
  }
  group_->post_uncounted(Turn(shared_from_this()));
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
      queue.group_->post_uncounted(Turn(queue.shared_from_this()));
    }
  } end{*this, lock};
  // A bounded number per turn, so that one busy queue cannot starve the others on a single thread.
  for (int turn = 0; turn < 64 && !tasks_.empty(); ++turn) {
    auto [task, posted] = std::move(tasks_.front());
    tasks_.pop_front();
    lock.unlock();
    if (meter_ != nullptr) meter_->time(Metrics::Timing::callback_delay, std::chrono::steady_clock::now() - posted);
    task();
    task = nullptr;
    lock.lock();
  }
}

void SerialQueue::close() {
  if (process_.forked()) return;
  std::deque<std::pair<Task, TimePoint>> dropped;
  std::unique_lock lock(mutex_);
  closed_ = true;
  dropped.swap(tasks_);
  if (runner_ == std::this_thread::get_id()) return;
  CallbackPool::about_to_wait();
  idle_.wait(lock, [&] { return runner_ == std::thread::id(); });
}

}  // namespace zkclient::detail
