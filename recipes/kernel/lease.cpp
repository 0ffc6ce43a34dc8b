#include <zkrecipes/lease.hpp>

#include "recipes/kernel/lease_core.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;

const char* to_string(LeaseState state) noexcept {
  switch (state) {
    case LeaseState::held: return "held";
    case LeaseState::uncertain: return "uncertain";
    case LeaseState::lost: return "lost";
    case LeaseState::releasing: return "releasing";
    case LeaseState::released: return "released";
  }
  return "unknown";
}

Lease& Lease::operator=(Lease&& other) noexcept {
  if (this == &other) return *this;
  if (core_ != nullptr) core_->drop();
  core_ = std::move(other.core_);
  return *this;
}

Lease::~Lease() {
  if (core_ != nullptr) core_->drop();
}

FencingToken Lease::token() const noexcept { return core_ != nullptr ? core_->token() : FencingToken{}; }
LeaseState Lease::state() const noexcept { return core_ != nullptr ? core_->state() : LeaseState::released; }

bool Lease::valid() const noexcept {
  const LeaseState now = state();
  return now == LeaseState::held || now == LeaseState::uncertain;
}

std::stop_token Lease::lost() const noexcept { return core_ != nullptr ? core_->lost() : std::stop_token(); }

std::stop_token Lease::revoke_requested() const noexcept {
  return core_ != nullptr ? core_->revoke_requested() : std::stop_token();
}

zkclient::BootClock::time_point Lease::valid_until() const noexcept {
  return valid() ? core_->session()->valid_until() : zkclient::BootClock::time_point::min();
}

zkclient::Check Lease::guard() const {
  if (core_ == nullptr) throw Error(Errc::not_held, "guard", "", "the lease is empty");
  return {zkclient::Path(core_->node()), zkclient::any_version, zkclient::Session(core_->session())};
}

std::string Lease::node() const { return core_ != nullptr ? core_->node() : std::string(); }

std::optional<zkclient::Session> Lease::session() const {
  if (core_ == nullptr) return std::nullopt;
  return zkclient::Session(core_->session());
}

zkclient::Transaction Lease::transaction() const {
  zkclient::Transaction guarded;
  guarded.check(guard());
  return guarded;
}

namespace {

constexpr const char* losing = "lease lost";

zk::Awaitable<Result<void>> wait_until_lost(std::shared_ptr<detail::LeaseCore> core, zk::Call call) {
  const Errc why = co_await core->over(std::move(call));
  if (why == Errc{}) co_return Result<void>();
  co_return Error(why, losing, core->node(), why == Errc::not_held ? "it was given back" : "");
}

}  // namespace

void Lease::async_lost(zkclient::Handler<void> handler, const zkclient::CallOptions& call) const {
  if (core_ == nullptr) throw Error(Errc::not_held, losing, "", "the lease is empty");
  zk::require_handler(handler, losing, core_->node());
  auto work = [core = core_](zk::Call limits) { return wait_until_lost(core, std::move(limits)); };
  zk::CallForm(core_->client(), losing, core_->node())
      .endless()
      .unrecorded()  // The lease itself is counted, and told of.
      .start(call, std::move(work), std::move(handler));
}

namespace {

// `ours`: there is a node to remove. `valid`: it stood for something until now.
zk::Awaitable<Result<void>> release_on_loop(std::shared_ptr<detail::LeaseCore> core, bool ours, bool valid,
                                            zk::Call call) {
  if (ours) core->remove_node();
  if (core->state() != LeaseState::lost) co_await core->removed(call);
  if (!valid) co_return Error(Errc::not_held, "release", core->node(), "it was lost before");
  if (core->node_gone()) co_return Result<void>();
  const bool cancelled = call.cancel != nullptr && call.cancel->requested();
  co_return Error(cancelled ? Errc::cancelled : Errc::deadline_exceeded, "release", core->node(),
                  "the node is being removed in the background");
}

constexpr const char* releasing = "release";

zk::CallForm release_form(const std::shared_ptr<detail::LeaseCore>& core) {
  return zk::CallForm(core->client(), releasing, core->node());
}

zk::Work<void> release_work(const std::shared_ptr<detail::LeaseCore>& core) {
  // Now, on the caller's thread: from here on nothing is held.
  const bool valid = core->state() != LeaseState::lost;
  const bool ours = core->begin_release();
  return [core, ours, valid](zk::Call call) { return release_on_loop(core, ours, valid, std::move(call)); };
}

Error nothing_to_release() { return Error(Errc::not_held, "release", "", "the lease is empty"); }

}  // namespace

void Lease::release(const zkclient::CallOptions& call) {
  if (core_ == nullptr) throw nothing_to_release();
  release_form(core_).wait(call, release_work(core_));
}

void Lease::release(const zkclient::CallOptions& call, std::error_code& error) {
  if (core_ == nullptr) {
    error = make_error_code(Errc::not_held);
    return;
  }
  error = release_form(core_).result(call, release_work(core_)).code();
}

void Lease::async_release(zkclient::Handler<void> handler, const zkclient::CallOptions& call) {
  if (core_ == nullptr) throw nothing_to_release();
  zk::require_handler(handler, releasing, core_->node());
  release_form(core_).start(call, release_work(core_), std::move(handler));
}

}  // namespace zkrecipes
