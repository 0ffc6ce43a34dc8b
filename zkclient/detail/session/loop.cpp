#include "zkclient/detail/session/loop.hpp"

#include <dlfcn.h>
#include <link.h>

#include <atomic>
#include <chrono>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkclient/error.hpp>

#include "zkclient/detail/connection/handle.hpp"
#include "zkclient/detail/log.hpp"
#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {
namespace {

int is_threaded_library(dl_phdr_info* info, std::size_t, void*) {
  return std::strstr(info->dlpi_name, "libzookeeper_mt") != nullptr ? 1 : 0;
}

// libzookeeper_mt exports what libzookeeper_st exports, and the blocking calls besides: with both in one process
// half of our calls would end in the wrong one.
void refuse_threaded_library() {
  if (dl_iterate_phdr(is_threaded_library, nullptr) != 0 || dlsym(RTLD_DEFAULT, "zoo_create") != nullptr) {
    throw Error(Errc::library_conflict, "runtime", "");
  }
}

constexpr auto backlog_patience = std::chrono::milliseconds(5);
constexpr auto delay_time = std::chrono::milliseconds(500);
constexpr std::size_t max_log_messages = 1000;  // That wait to be delivered.

thread_local Loop* current_loop = nullptr;

// What the user's executor is given; in a std::function, which wants something that can be copied.
class GivenTask {
 public:
  using Dropped = UniqueFunction<void(Task task)>;

  // `dropped`: takes the task if the executor destroys it; empty: nobody does.
  GivenTask(Task task, Dropped dropped) : task_(std::move(task)), dropped_(std::move(dropped)) {}
  GivenTask(const GivenTask&) = delete;
  GivenTask& operator=(const GivenTask&) = delete;
  ~GivenTask() {
    if (!dropped_ || begun_) return;
    try {
      dropped_(std::move(task_));
    } catch (...) {  // NOLINT(bugprone-empty-catch): out of memory.
    }
  }

  void run() {
    begun_ = true;
    task_();
  }

 private:
  Task task_;
  Dropped dropped_;
  std::atomic<bool> begun_{false};
};

}  // namespace

// How many messages wait, and how many were left out because too many did.
struct LogBacklog {
  std::atomic<std::size_t> waiting{0};
  std::atomic<std::size_t> dropped{0};
};

std::shared_ptr<Loop> Loop::start(RuntimeOptions options) {
  refuse_threaded_library();
  if (options.max_callback_threads < 1) {
    throw Error(Errc::invalid_argument, "runtime", "", "max_callback_threads must be at least 1");
  }
  Handle::initialize_library();
  const std::shared_ptr<Loop> loop(new Loop(std::move(options)));
  loop->log_group_ = std::make_shared<CallbackGroup>(
      [weak = std::weak_ptr<Loop>(loop)](Task task, bool urgent) {
        if (const auto self = weak.lock()) self->schedule(std::move(task), urgent);
      },
      loop->has_user_executor());
  loop->log_queue_ = std::make_shared<SerialQueue>(loop->log_group_);
  loop->log_backlog_ = std::make_shared<LogBacklog>();
  return loop;
}

// The threads do not own the loop: stop() waits for its end before the loop can go.
Loop::Loop(RuntimeOptions options)
    : user_executor_(std::move(options.callback_executor)),
      pool_(std::make_unique<CallbackPool>(
          user_executor_ ? 0 : options.max_callback_threads, [this] { return run(); },
          [this] { post([this] { watch_backlog(); }); })) {}

LoopPause Loop::run() {
  current_loop = this;
  const bool ended = events_.run();
  current_loop = nullptr;
  if (ended) return LoopPause::end;
  return events_.stays_on_thread() ? LoopPause::pass_on : LoopPause::inline_task;
}

Loop::~Loop() { stop(); }

// A forked child keeps tasks that it cannot run: to destroy one might wait for a thread that is not there, or talk to a
// server in the parent's name.
bool Loop::post(Task task) {
  if (!forked()) return events_.post(std::move(task));
  keep_for_ever(std::make_shared<Task>(std::move(task)));
  return false;
}

Loop* Loop::current() noexcept { return current_loop; }

void Loop::log(LogEntry entry) {
  if (log_backlog_->waiting >= max_log_messages) {
    ++log_backlog_->dropped;
    log_queue_->nudge();
    return;
  }
  ++log_backlog_->waiting;
  log_queue_->post([entry = std::move(entry), backlog = log_backlog_] {
    if (const std::size_t dropped = backlog->dropped.exchange(0); dropped != 0) {
      deliver_log({entry.level, fmt::format("{} messages were left out: the log handler is too slow", dropped)});
    }
    deliver_log(entry);
    --backlog->waiting;
  });
}

void Loop::schedule(Task task, bool urgent) {
  if (!user_executor_) {
    const auto place = pool_->schedule(task, urgent, on_loop() && !events_.stays_on_thread());
    if (place == CallbackPool::Place::inline_task) {
      events_.interrupt();
    }
    // With the threads gone (the runtime was stopped) the caller's own thread has to do.
    if (place == CallbackPool::Place::stopped) task();
    return;
  }
  // Others rest on it that a loss was told: so what is urgent runs although the executor drops it. It does on a thread of
  // our own, since the one that drops it may be the loop's, or hold the executor's lock.
  GivenTask::Dropped dropped;
  if (urgent) {
    dropped = [weak = weak_from_this()](Task lost) {
      const auto self = weak.lock();
      if (self == nullptr || self->forked()) return;
      if (self->pool_->schedule(lost, true, false) == CallbackPool::Place::stopped) lost();
    };
  }
  const auto given = std::make_shared<GivenTask>(std::move(task), std::move(dropped));
  try {
    user_executor_([given] { given->run(); });
  } catch (...) {  // It does not run the task, then: nobody on this thread could take the exception.
  }
}

void Loop::delay(Task task) {
  post([this, task = std::move(task)]() mutable {
    if (winding_down_) return;
    const auto timer = delayed_.emplace(delayed_.end(), events_);
    timer->set_after(delay_time, [this, timer, task = std::move(task)]() mutable {
      delayed_.erase(timer);
      task();
    });
  });
}

void Loop::watch_backlog() {
  if (winding_down_) return;
  backlog_timer_.set_after(backlog_patience, [this] {
    if (!winding_down_ && pool_->relieve()) watch_backlog();
  });
}

void Loop::add(const std::shared_ptr<ClientCore>& core) {
  if (forked()) throw Error(Errc::forked, "client", "");
  const std::lock_guard lock(mutex_);
  if (stopping_) throw Error(Errc::closed, "client", "", "the runtime is being closed");
  clients_.insert(core.get());
}

void Loop::remove(ClientCore* core) {
  if (forked()) return;
  const std::lock_guard lock(mutex_);
  clients_.erase(core);
}

void Loop::stop() {
  if (forked()) return;
  std::vector<std::shared_ptr<ClientCore>> open;
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    for (ClientCore* client : clients_) {
      if (auto core = client->weak_from_this().lock()) open.push_back(std::move(core));
    }
  }
  for (const auto& core : open)
    core->begin_close();
  for (const auto& core : open)
    core->finish_close();
  open.clear();
  bool first = false;
  {
    const std::lock_guard lock(mutex_);
    first = !std::exchange(stopped_, true);
  }
  if (first) {
    events_.post([this] {
      winding_down_ = true;
      backlog_timer_.cancel();
      delayed_.clear();
      resolver_.abandon();
    });
    events_.close();
  }
  pool_->stop();                  // Waits for the thread that was faster, if there is one.
  if (first) log_group_->wait();  // The last messages.
}

}  // namespace zkclient::detail
