#include "zkclient/detail/calls/calls.hpp"

#include "zkclient/detail/probes.hpp"

namespace zkclient::detail {

Error with_trouble(const ClientCore& core, Error error) {
  if (error.errc() != Errc::deadline_exceeded && error.errc() != Errc::in_doubt) return error;
  const std::string trouble = core.trouble();
  if (trouble.empty() || error.detail().find(trouble) != std::string::npos) return error;
  const std::string detail = error.detail().empty() ? trouble : error.detail() + "; " + trouble;
  return Error(error.errc(), error.operation(), error.path(), detail, error.node());
}

CallJob::CallJob(std::shared_ptr<ClientCore> core, const char* operation, std::string path, std::size_t payload)
    : core_(std::move(core)),
      admission_(core_, payload),
      payload_(payload),
      operation_(operation),
      path_(std::move(path)) {}

CallJob::~CallJob() = default;

void CallJob::start(const CallOptions& options, bool endless, bool recorded) {
  probe::call_begin(this, operation_, path_);
  if (recorded) record_ = core_->record(operation_, path_, endless);
  if (payload_ != 0 && core_->overloaded()) {
    fail(Error(Errc::overloaded, operation_, path_, "too many requests are waiting"));
    finish();
    return;
  }
  std::optional<Op::TimePoint> deadline;
  if (options.deadline.has_value() || !endless) deadline = options.deadline.value_or(core_->default_deadline());
  caller_ = options.stop;
  const bool accepted = core_->loop()->post([self = shared_from_this(), deadline] {
    Call limits = self->limits(deadline);
    spawn(drive(self, std::move(limits)));
  });
  if (accepted) return;
  fail(Error(core_->loop()->refusal(), operation_, path_));
  finish();
}

Call CallJob::limits(const std::optional<Op::TimePoint>& deadline) {
  Call limits;
  limits.deadline = deadline;
  limits.cancel = cancel_;
  if (!caller_.stop_possible()) return limits;
  // A request that comes later runs on the requester's thread: back to the loop.
  stop_.emplace(caller_, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->core_->loop()->post([cancel = self->cancel_] { cancel->request(); });
  });
  if (caller_.stop_requested()) cancel_->request();
  return limits;
}

Awaitable<void> CallJob::drive(std::shared_ptr<CallJob> self, Call limits) {
  try {
    Awaitable<void> running = self->work(std::move(limits));
    co_await std::move(running);
  } catch (const Error& error) {
    self->fail(error);
  } catch (const std::exception& error) {
    self->fail(Error(Errc::in_doubt, self->operation_, self->path_, error.what()));
  } catch (...) {
    self->fail(Error(Errc::in_doubt, self->operation_, self->path_, "an exception that is no std::exception"));
  }
  self->stop_.reset();
  if (const Error* failure = self->failure()) self->fail(with_trouble(*self->core_, *failure));
  self->core_->flush();  // The watch of a lease, say, goes out before its holder learns of it.
  self->finish();
}

void CallJob::finish() {
  const Error* const error = failure();
  probe::call_end(this, operation_, path_, error != nullptr ? error->code().value() : 0);
  if (record_ != nullptr) {
    record_->end(error != nullptr ? error->code() : std::error_code(),
                 error != nullptr ? std::string_view(error->detail()) : std::string_view(),
                 record_->tells() ? core_->session()->id() : 0);
  }
  if (handle()) return;
  const std::lock_guard lock(mutex_);
  finished_ = true;
  finished_changed_.notify_one();
}

void CallJob::await() {
  std::unique_lock lock(mutex_);
  if (finished_) return;
  lock.unlock();
  CallbackPool::about_to_wait();
  lock.lock();
  finished_changed_.wait(lock, [this] { return finished_; });
}

}  // namespace zkclient::detail
