#include <zkrecipes/lock.hpp>

#include "recipes/locks/lock_state.hpp"

namespace zkrecipes {

using namespace words;
using detail::Way;

Acquirable::Acquirable(std::unique_ptr<detail::LockState> state) noexcept : state_(std::move(state)) {}
Acquirable::~Acquirable() = default;
Acquirable::Acquirable(Acquirable&&) noexcept = default;
Acquirable& Acquirable::operator=(Acquirable&&) noexcept = default;

const zkclient::Path& Acquirable::path() const noexcept { return state_->acquirer->path(); }

Lease Acquirable::acquire(const CallOptions& call) { return state_->acquirer->acquire(call); }
std::optional<Lease> Acquirable::try_acquire(const CallOptions& call) { return state_->acquirer->try_acquire(call); }
std::optional<Lease> Acquirable::try_acquire_for(Timeout timeout, WaitOptions options) {
  return state_->acquirer->try_acquire_for(timeout.get(), options);
}
std::optional<Lease> Acquirable::try_acquire_until(std::chrono::steady_clock::time_point deadline,
                                                   WaitOptions options) {
  return state_->acquirer->try_acquire_until(deadline, options);
}
void Acquirable::async_acquire(zkclient::Handler<Lease> handler, const CallOptions& call) {
  state_->acquirer->async_acquire(std::move(handler), call);
}
void Acquirable::async_try_acquire(zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  state_->acquirer->async_try_acquire(std::move(handler), call);
}

std::vector<Contender> Acquirable::contenders(const CallOptions& call) const {
  return state_->acquirer->contenders(call);
}
void Acquirable::async_contenders(zkclient::Handler<std::vector<Contender>> handler, const CallOptions& call) const {
  state_->acquirer->async_contenders(std::move(handler), call);
}

void Lock::lock() { lock_within(std::chrono::nanoseconds::max()); }
bool Lock::try_lock() { return lock_within(std::chrono::nanoseconds::zero()); }
bool Lock::lock_within(std::chrono::nanoseconds timeout) {
  return state().locked.lock_within(*state().acquirer, Way::exclusive, timeout);
}
void Lock::unlock() noexcept { state().locked.unlock(Way::exclusive); }
const Lease& Lock::lease() const { return state().locked.lease(); }

}  // namespace zkrecipes
