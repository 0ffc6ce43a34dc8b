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
class BlockedCall {
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

/// An error of a call whose time was over says why, if there is no connection.
ZKRECIPES_INTERNAL_API Error with_trouble(const ClientCore& core, Error error);

/// One call on its way from a user's thread over the loop and back. What does not depend on the type of its result is
/// in here, and compiled once.
class ZKRECIPES_INTERNAL_API CallJob : public std::enable_shared_from_this<CallJob> {
 public:
  /// `payload`: the bytes of data that it carries; only such work is refused when the client is overloaded.
  CallJob(std::shared_ptr<ClientCore> core, const char* operation, std::string path, std::size_t payload);
  virtual ~CallJob();
  CallJob(const CallJob&) = delete;
  CallJob& operator=(const CallJob&) = delete;

  /// Runs the work on the loop, with the caller's deadline and stop token. `endless`: it has no deadline but the
  /// caller's. `recorded`: it is counted, and the observer is told.
  void start(const CallOptions& options, bool endless, bool recorded);
  /// Blocks until there is a result.
  void await();

 protected:
  /// Runs the work, and keeps its result.
  virtual Awaitable<void> work(Call limits) = 0;
  virtual void fail(Error error) = 0;
  virtual const Error* failure() const noexcept = 0;
  /// There is a result: hands it to the caller's handler, or is false if the caller waits.
  virtual bool handle() = 0;

  const std::shared_ptr<ClientCore>& core() const noexcept { return core_; }

 private:
  static Awaitable<void> drive(std::shared_ptr<CallJob> self, Call limits);
  Call limits(const std::optional<Op::TimePoint>& deadline);
  void finish();

  const std::shared_ptr<ClientCore> core_;
  const Admission admission_;
  const std::size_t payload_;
  const char* const operation_;
  const std::string path_;
  std::unique_ptr<CallRecord> record_;  // If somebody counts, or is told.
  const std::shared_ptr<CancelScope> cancel_ = std::make_shared<CancelScope>();
  AnyStop caller_;
  std::optional<std::stop_callback<std::function<void()>>> stop_;
  std::mutex mutex_;
  std::condition_variable finished_changed_;
  bool finished_ = false;  // Guarded by mutex_.
};

template <typename T>
class TypedCallJob final : public CallJob {
 public:
  /// Without a handler the caller waits for the result.
  TypedCallJob(std::shared_ptr<ClientCore> core, const char* operation, std::string path, std::size_t payload,
               Work<T> work, Handler<T> handler)
      : CallJob(std::move(core), operation, std::move(path), payload),
        work_(std::move(work)),
        handler_(std::move(handler)) {}

  Result<T> take() {
    await();
    return std::move(*result_);
  }

 private:
  Awaitable<void> work(Call limits) override {
    Awaitable<Result<T>> running = work_(limits);
    Result<T> result = co_await std::move(running);
    result_.emplace(std::move(result));
  }
  void fail(Error error) override { result_.emplace(std::move(error)); }
  const Error* failure() const noexcept override { return *result_ ? nullptr : &result_->error(); }
  bool handle() override {
    if (!handler_) return false;
    core()->callbacks()->post([held = Admission(core(), 0), handler = std::move(handler_),
                               result = std::move(*result_)]() mutable { handler(std::move(result)); });
    return true;
  }

  Work<T> work_;
  Handler<T> handler_;
  std::optional<Result<T>> result_;
};

/// One operation, from a user's call to its coroutine. The caller names the operation, its path and the coroutine; only
/// this knows how a blocking call, or one with a handler, gets onto the loop and back.
class CallForm {
 public:
  CallForm(std::shared_ptr<ClientCore> client, const char* operation, std::string path)
      : client_(std::move(client)), operation_(operation), path_(std::move(path)) {}

  /// Of a call that waits for others: the client's default deadline is meant for single operations.
  CallForm& endless(bool on = true) {
    endless_ = on;
    return *this;
  }
  /// Of a call that is not work of the client's: it is not counted, and nobody is told of it.
  CallForm& unrecorded() {
    recorded_ = false;
    return *this;
  }
  /// Of a call that carries so many bytes of data.
  CallForm& payload(std::size_t bytes) {
    payload_ = bytes;
    return *this;
  }

  /// Blocks until `work`, a coroutine that gets its limits, has a result; throws its error. What `work` throws: an
  /// Error is its result, any other exception leaves open how far it came.
  template <typename Coroutine>
  auto wait(const CallOptions& call, Coroutine work) const {
    return std::move(result(call, std::move(work))).value();
  }
  template <typename Coroutine>
  auto result(const CallOptions& call, Coroutine work) const {
    using T = ValueOf<Coroutine>;
    return job<T>(call, std::move(work), {})->take();
  }
  /// Returns at once; `handler` gets the result on the callback executor.
  template <typename Coroutine, typename Function>
  void start(const CallOptions& call, Coroutine work, Function handler) const {
    using T = ValueOf<Coroutine>;
    Handler<T> told(std::move(handler));
    require_handler(told, operation_, path_);
    job<T>(call, std::move(work), std::move(told));
  }

 private:
  template <typename T>
  static T value_of(const Awaitable<Result<T>>&);
  template <typename Coroutine>
  using ValueOf = decltype(value_of(std::declval<Coroutine&>()(std::declval<Call>())));

  template <typename T>
  std::shared_ptr<TypedCallJob<T>> job(const CallOptions& call, Work<T> work, Handler<T> handler) const {
    auto job =
        std::make_shared<TypedCallJob<T>>(client_, operation_, path_, payload_, std::move(work), std::move(handler));
    job->start(call, endless_, recorded_);
    return job;
  }

  std::shared_ptr<ClientCore> client_;
  const char* operation_;
  std::string path_;
  std::size_t payload_ = 0;
  bool endless_ = false;
  bool recorded_ = true;
};

/// The error of a failed reply, with the path as the user knows it.
inline Error to_error(const Reply& reply, std::string_view operation, std::string_view path) {
  return Error(reply.error.value_or(Errc::server_error), operation, path, reply.detail);
}

}  // namespace zkclient::detail
