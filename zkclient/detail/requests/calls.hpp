#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <utility>

#include <zkclient/export.hpp>

#include "zkclient/detail/session/core.hpp"

/// How calls from the outside get onto the loop and back, in their blocking and their asynchronous form.
namespace zkclient::detail {

/// Where a blocking caller waits. Filled on the loop thread; the notification happens under the lock, because the
/// waiter destroys this as soon as it can return.
template <typename T>
class Slot {
 public:
  void fill(T value) {
    const std::lock_guard lock(mutex_);
    value_ = std::move(value);
    filled_.notify_one();
  }
  T take() {
    CallbackPool::about_to_wait();
    std::unique_lock lock(mutex_);
    filled_.wait(lock, [this] { return value_.has_value(); });
    return std::move(*value_);
  }

 private:
  std::mutex mutex_;
  std::condition_variable filled_;
  std::optional<T> value_;
};

template <typename Function>
void require_handler(const Function& handler, const char* operation, std::string_view path) {
  if (!handler) throw Error(Errc::invalid_argument, operation, path, "there is no handler");
}

/// Work that runs as a coroutine on the loop: gets its limits, returns a Result.
template <typename T>
using Work = UniqueFunction<Awaitable<Result<T>>(Call)>;

/// What ended because the time was over says why, if there is no connection.
ZKRECIPES_INTERNAL_API Error with_trouble(const ClientCore& core, Error error);

/// Runs `work` on the loop, with the caller's deadline and stop token; `done` gets its result once, on the loop. An Error
/// that `work` throws is its result; any other exception leaves open how far it came.
/// `payload`: the bytes of data that it carries; only such work is refused when the client is overloaded. `endless`: it
/// has no deadline but the caller's.
template <typename T>
void run_work(const std::shared_ptr<ClientCore>& core, const CallOptions& options, Work<T> work,
              UniqueFunction<void(Result<T>)> done, const char* operation, const std::string& path,
              std::size_t payload = 0, bool endless = false) {
  struct Job {
    Job(const std::shared_ptr<ClientCore>& owner, std::size_t bytes, const char* name, const std::string& where)
        : core(owner), admission(owner, bytes), operation(name), path(where) {}
    std::shared_ptr<ClientCore> core;
    Admission admission;
    const std::string operation;
    const std::string path;
    std::shared_ptr<CancelScope> cancel = std::make_shared<CancelScope>();
    Work<T> work;
    UniqueFunction<void(Result<T>)> done;
    AnyStop caller;
    std::optional<std::stop_callback<std::function<void()>>> stop;
  };
  const auto job = std::make_shared<Job>(core, payload, operation, path);
  job->work = std::move(work);
  job->done = std::move(done);
  if (payload != 0 && core->overloaded()) {
    job->done(Error(Errc::overloaded, operation, path, "too many requests are waiting"));
    return;
  }
  std::optional<Op::TimePoint> deadline;
  if (options.deadline.has_value() || !endless) deadline = options.deadline.value_or(core->default_deadline());
  job->caller = options.stop;
  const bool accepted = core->loop()->post([job, deadline] {
    Call call;
    call.deadline = deadline;
    call.cancel = job->cancel;
    if (job->caller.stop_possible()) {
      // A request that comes later runs on the requester's thread: back to the loop.
      job->stop.emplace(job->caller, [weak = std::weak_ptr<Job>(job)] {
        const auto alive = weak.lock();
        if (alive == nullptr) return;
        alive->core->loop()->post([cancel = alive->cancel] { cancel->request(); });
      });
      if (job->caller.stop_requested()) job->cancel->request();
    }
    auto body = [](std::shared_ptr<Job> owned, Call limits) -> Awaitable<void> {
      std::optional<Result<T>> outcome;
      try {
        Awaitable<Result<T>> running = owned->work(limits);
        Result<T> result = co_await std::move(running);
        outcome.emplace(std::move(result));
      } catch (const Error& error) {
        outcome.emplace(error);
      } catch (const std::exception& error) {
        outcome.emplace(Error(Errc::in_doubt, owned->operation, owned->path, error.what()));
      }
      owned->stop.reset();
      if (!*outcome) *outcome = with_trouble(*owned->core, outcome->error());
      UniqueFunction<void(Result<T>)> finish = std::move(owned->done);
      finish(std::move(*outcome));
    };
    spawn(body(job, std::move(call)));
  });
  if (!accepted) job->done(Error(core->loop()->refusal(), operation, path));
}

/// The blocking form.
template <typename T>
Result<T> wait_for_work(const std::shared_ptr<ClientCore>& core, const CallOptions& options, Work<T> work,
                        const char* operation, const std::string& path, std::size_t payload = 0, bool endless = false) {
  Slot<Result<T>> slot;
  auto done = [&slot](Result<T> result) { slot.fill(std::move(result)); };
  run_work<T>(core, options, std::move(work), std::move(done), operation, path, payload, endless);
  return slot.take();
}

/// The asynchronous form: `handler` runs on the callback executor.
template <typename T>
void start_work(const std::shared_ptr<ClientCore>& core, const CallOptions& options, Work<T> work, Handler<T> handler,
                const char* operation, const std::string& path, std::size_t payload = 0, bool endless = false) {
  require_handler(handler, operation, path);
  auto done = [core, handler = std::move(handler)](Result<T> result) mutable {
    core->callbacks()->post([held = Admission(core, 0), handler = std::move(handler),
                             result = std::move(result)]() mutable { handler(std::move(result)); });
  };
  run_work<T>(core, options, std::move(work), std::move(done), operation, path, payload, endless);
}

/// One operation of a recipe, from a user's call to its coroutine. The recipe names the operation, its path and the
/// coroutine; only this knows how a blocking call, or one with a handler, gets onto the loop and back.
class CallForm {
 public:
  CallForm(std::shared_ptr<ClientCore> client, const char* operation, std::string path)
      : client_(std::move(client)), operation_(operation), path_(std::move(path)) {}

  /// Of a call that waits for others: the client's default deadline is meant for single operations.
  CallForm& endless(bool on = true) {
    endless_ = on;
    return *this;
  }

  /// Blocks until `work`, a coroutine that gets its limits, has a result; throws its error.
  template <typename Coroutine>
  auto wait(const CallOptions& call, Coroutine work) const {
    return std::move(result(call, std::move(work))).value();
  }
  template <typename Coroutine>
  auto result(const CallOptions& call, Coroutine work) const {
    using T = ValueOf<Coroutine>;
    return wait_for_work<T>(client_, call, Work<T>(std::move(work)), operation_, path_, 0, endless_);
  }
  /// Returns at once; `handler` gets the result on the callback executor.
  template <typename Coroutine, typename Function>
  void start(const CallOptions& call, Coroutine work, Function handler) const {
    using T = ValueOf<Coroutine>;
    start_work<T>(client_, call, Work<T>(std::move(work)), Handler<T>(std::move(handler)), operation_, path_, 0,
                  endless_);
  }

 private:
  template <typename T>
  static T value_of(const Awaitable<Result<T>>&);
  template <typename Coroutine>
  using ValueOf = decltype(value_of(std::declval<Coroutine&>()(std::declval<Call>())));

  std::shared_ptr<ClientCore> client_;
  const char* operation_;
  std::string path_;
  bool endless_ = false;
};

/// The error of a failed reply, with the path as the user knows it.
inline Error to_error(const Reply& reply, std::string_view operation, std::string_view path) {
  return Error(reply.error.value_or(Errc::server_error), operation, path, reply.detail);
}

}  // namespace zkclient::detail
