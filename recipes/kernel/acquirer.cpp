#include "recipes/kernel/acquirer.hpp"

namespace zkrecipes::detail {

namespace {

// A lease whose handler never runs, because an executor drops its tasks, is released: so it travels as a Lease.
zk::Awaitable<Result<std::optional<Lease>>> own(zk::Awaitable<Result<LeasePtr>> contending) {
  Result<LeasePtr> result = co_await std::move(contending);
  if (!result) co_return result.error();
  std::optional<Lease> lease;
  if (*result != nullptr) lease.emplace(std::move(*result));
  co_return lease;
}

}  // namespace

Acquirer::Acquirer(Acquisition acquisition) : this_(std::move(acquisition)) {}

zk::CallForm Acquirer::form(Patience patience) const {
  zk::CallForm form(client(), this_.operation, this_.path.str());
  return form.endless(patience == Patience::wait);
}

zk::CallForm Acquirer::form_of_listing() const { return zk::CallForm(client(), this_.listing, this_.path.str()); }

zk::Work<std::optional<Lease>> Acquirer::work(Patience patience) const {
  return [contend = this_.contend, patience](zk::Call limits) { return own(contend(patience, std::move(limits))); };
}

zk::Work<std::vector<Contender>> Acquirer::listing_work() const { return this_.list; }

Result<std::optional<Lease>> Acquirer::run(Patience patience, const CallOptions& call) const {
  return form(patience).result(call, work(patience));
}

void Acquirer::start(Patience patience, zkclient::Handler<std::optional<Lease>> handler,
                     const CallOptions& call) const {
  form(patience).start(call, work(patience), std::move(handler));
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
  const TimedCall timed = timed_call(deadline, options);
  const Patience patience = timed.once ? Patience::try_once : Patience::wait;
  return unless_late_or_busy([this] { return connected(); }, options,
                             [&] { return run(patience, timed.limits).value(); });
}

void Acquirer::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) const {
  zk::require_handler(handler, this_.operation, this_.path.str());
  auto wrapped = [handler = std::move(handler)](Result<std::optional<Lease>>&& result) mutable {
    if (result) {
      handler(std::move(**result));
    } else {
      handler(result.error());
    }
  };
  start(Patience::wait, std::move(wrapped), call);
}

void Acquirer::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) const {
  start(Patience::try_once, std::move(handler), call);
}

std::vector<Contender> Acquirer::contenders(const CallOptions& call) const {
  return form_of_listing().wait(call, listing_work());
}

void Acquirer::async_contenders(zkclient::Handler<std::vector<Contender>> handler, const CallOptions& call) const {
  form_of_listing().start(call, listing_work(), std::move(handler));
}

}  // namespace zkrecipes::detail
