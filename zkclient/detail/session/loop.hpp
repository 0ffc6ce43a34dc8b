#pragma once

#include <list>
#include <memory>
#include <mutex>
#include <unordered_set>
#include <utility>

#include <zkclient/error.hpp>
#include <zkclient/export.hpp>
#include <zkclient/log.hpp>
#include <zkclient/runtime.hpp>

#include "zkclient/detail/log.hpp"
#include "zkclient/detail/loop/callbacks.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/process.hpp"
#include "zkclient/detail/servers/resolver.hpp"

namespace zkclient::detail {

class ClientCore;
struct LogBacklog;

/// The event loop, in which every handle, watch, timer and recipe of every client of a Runtime lives. One thread at a
/// time runs it ("the loop thread"), not always the same (see CallbackPool). Nothing there takes a lock that user code
/// can hold, and nothing there waits.
class ZKRECIPES_INTERNAL_API Loop : public std::enable_shared_from_this<Loop> {
 public:
  static std::shared_ptr<Loop> start(RuntimeOptions options);
  ~Loop();

  EventLoop& events() noexcept { return events_; }
  bool has_user_executor() const noexcept { return user_executor_ != nullptr; }
  bool on_loop() const noexcept { return current() == this; }

  /// Runs `task` on the loop thread; false (and the task is dropped) when the loop has stopped.
  bool post(Task task);
  /// True in a child of the process that made it, where nothing of it may be touched.
  bool forked() const noexcept { return process_.forked(); }
  /// Why post() refuses.
  Errc refusal() const noexcept { return forked() ? Errc::forked : Errc::closed; }

  /// On the loop thread only.
  Resolver& resolver() noexcept { return resolver_; }

  /// Runs `task` on the callback executor.
  void schedule(Task task, bool urgent);
  /// Any thread: runs `task` on the loop thread half a second later. It is dropped if the loop ends before.
  void delay(Task task);

  /// The loop that this thread runs right now, or null.
  static Loop* current() noexcept;
  /// Loop thread: passes a message on to the log handler, on the callback executor.
  void log(LogEntry entry);

  /// Clients register themselves, so that stop() can close them. Throws Error (closed) once that has begun.
  void add(const std::shared_ptr<ClientCore>& core);
  void remove(ClientCore* core);
  /// Closes all clients, runs what is left, and joins the threads. Idempotent; a second call waits for the first one.
  void stop();

 private:
  explicit Loop(RuntimeOptions options);
  LoopPause run();
  void watch_backlog();

  const ProcessGeneration process_;
  EventLoop events_;
  Timer backlog_timer_{events_};
  std::list<Timer> delayed_;  // On the loop thread only.
  Resolver resolver_{[this](Task task) { post(std::move(task)); }};
  std::shared_ptr<CallbackGroup> log_group_;
  std::shared_ptr<SerialQueue> log_queue_;
  std::shared_ptr<LogBacklog> log_backlog_;
  Executor user_executor_;
  std::mutex mutex_;
  bool stopping_ = false;
  bool stopped_ = false;
  bool winding_down_ = false;  // On the loop thread only.
  std::unordered_set<ClientCore*> clients_;
  std::unique_ptr<CallbackPool> pool_;  // Its threads begin when all else is there.
};

}  // namespace zkclient::detail
