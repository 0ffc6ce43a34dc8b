#include "recipes/locks/acquirer.hpp"

#include <system_error>

#include "recipes/locks/thread_number.hpp"

namespace zkrecipes::detail {

using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

// What nobody takes, because an executor drops its tasks, is given back: so a lease travels as one.
zk::Awaitable<Result<std::optional<Lease>>> own(Acquirer::Contend contend, Patience patience, zk::Call call) {
  Result<LeasePtr> result = co_await contend(patience, std::move(call));
  if (!result) co_return result.error();
  std::optional<Lease> lease;
  if (*result != nullptr) lease.emplace(std::move(*result));
  co_return lease;
}

}  // namespace

Acquirer::Acquirer(std::shared_ptr<zk::ClientCore> client, std::string path, const char* operation, Contend contend)
    : client_(std::move(client)), path_(std::move(path)), operation_(operation), contend_(std::move(contend)) {}

zk::CallForm Acquirer::form(Patience patience) const {
  zk::CallForm form(client_, operation_, path_);
  return form.endless(patience == Patience::wait);
}

zk::Work<std::optional<Lease>> Acquirer::work(Patience patience) const {
  return [contend = contend_, patience](zk::Call limits) { return own(contend, patience, std::move(limits)); };
}

Result<std::optional<Lease>> Acquirer::run(Patience patience, const CallOptions& call) const {
  return form(patience).result(call, work(patience));
}

Lease Acquirer::acquire(const CallOptions& call) const { return std::move(*run(Patience::wait, call).value()); }

std::optional<Lease> Acquirer::try_acquire(const CallOptions& call) const {
  return run(Patience::try_once, call).value();
}

std::optional<Lease> Acquirer::try_acquire_for(std::chrono::nanoseconds timeout, const WaitOptions& options) const {
  return try_acquire_until(from_now(timeout), options);
}

std::optional<Lease> Acquirer::try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                 const WaitOptions& options) const {
  const Patience patience = is_over(deadline) ? Patience::try_once : Patience::wait;
  return unless_late_or_busy([this] { return is_connected(client_); }, options,
                             [&] { return run(patience, timed_call(deadline, options)).value(); });
}

void Acquirer::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) const {
  zk::require_handler(handler, operation_, path_);
  auto wrapped = [handler = std::move(handler)](Result<std::optional<Lease>>&& result) mutable {
    if (result) {
      handler(std::move(**result));
    } else {
      handler(result.error());
    }
  };
  form(Patience::wait).start(call, work(Patience::wait), std::move(wrapped));
}

void Acquirer::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) const {
  form(Patience::try_once).start(call, work(Patience::try_once), std::move(handler));
}

// --- ThreadLeases -------------------------------------------------------------------------------------------------

bool ThreadLeases::holds() const {
  const std::lock_guard guard(mutex_);
  const auto found = locked_.find(this_thread_number());
  return found != locked_.end() && found->second.valid();
}

bool ThreadLeases::has() const {
  const std::lock_guard guard(mutex_);
  return locked_.find(this_thread_number()) != locked_.end();
}

bool ThreadLeases::lock_within(const Acquirer& acquirer, std::chrono::nanoseconds timeout, const char* operation) {
  if (holds()) {
    throw std::system_error(std::make_error_code(std::errc::resource_deadlock_would_occur), operation);
  }
  std::optional<Lease> lease = acquirer.try_acquire_for(timeout, {});
  if (!lease) return false;
  const std::lock_guard guard(mutex_);
  locked_.insert_or_assign(this_thread_number(), std::move(*lease));
  return true;
}

void ThreadLeases::unlock() {
  const std::lock_guard guard(mutex_);
  locked_.erase(this_thread_number());  // The lease's destructor gives it back.
}

const Lease& ThreadLeases::own(const char* operation, const std::string& path) const {
  const std::lock_guard guard(mutex_);
  const auto found = locked_.find(this_thread_number());
  if (found == locked_.end()) throw Error(Errc::not_held, operation, path, "not locked by this thread");
  return found->second;
}

}  // namespace zkrecipes::detail
