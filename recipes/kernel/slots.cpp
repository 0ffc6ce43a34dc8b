#include "recipes/kernel/slots.hpp"

#include <utility>

#include "recipes/kernel/single_node.hpp"
#include "recipes/kernel/timed.hpp"
#include "recipes/kernel/waiter.hpp"

namespace zkrecipes::detail {

namespace {

constexpr std::size_t max_in_flight = 16;
/// Before a slot is taken again that the user gave back although this member shall have it: else one that gives back what
/// it is given would do nothing else.
constexpr auto after_giving_back = std::chrono::milliseconds(1'000);
/// After a refusal: a member whose node is missing is about to have one again, one whose wish is old is about to have a
/// new one. That wish ends the pause; the time is for the case that none comes.
constexpr auto after_refusal = std::chrono::milliseconds(1'000);
/// After a connection that was too slow: it may have been for a moment. No event tells, only the next attempt.
constexpr auto first_after_slowness = std::chrono::milliseconds(20);
constexpr auto longest_after_slowness = std::chrono::milliseconds(1'000);
/// After a failure.
constexpr auto long_pause = std::chrono::milliseconds(5'000);

/// Else it is over, or the next session tries at once.
bool needs_pause(Errc code) { return code != Errc::closed && code != Errc::cancelled && code != Errc::session_lost; }

}  // namespace

Slots::Slots(SlotsSpec spec, Taken taken)
    : spec_(std::move(spec)), taken_(std::move(taken)), slowness_(first_after_slowness, longest_after_slowness) {}

std::vector<std::string> Slots::held() const {
  const std::lock_guard lock(mutex_);
  std::vector<std::string> names;
  for (const auto& [name, lease] : held_) {
    const LeaseState state = lease->state();
    if (state == LeaseState::held || state == LeaseState::uncertain) names.push_back(name);
  }
  return names;
}

std::optional<Error> Slots::problem() const {
  const std::lock_guard lock(mutex_);
  return problem_;
}

void Slots::show_problem(const Error& error) {
  const std::lock_guard lock(mutex_);
  problem_.emplace(error);
}

void Slots::clear_problem() {
  const std::lock_guard lock(mutex_);
  problem_.reset();
}

Call Slots::call() const {
  Call call;
  call.cancel = leave_;
  return call;
}

// --- What is wanted --------------------------------------------------------------------------------------------------

void Slots::want(std::uint64_t number, const SlotWish& wanted) {
  if (leaving_ || number < newest_) return;
  newest_ = number;
  for (auto& [name, slot] : slots_)
    slot.wanted = wanted.contains(name);
  for (const auto& [name, conditions] : wanted) {
    Slot& slot = slots_[name];
    slot.wanted = true;
    slot.conditions = conditions;
  }
  settled_ = from_now(spec_.settle);
  std::exchange(news_, std::make_shared<zk::CancelScope>())->request();
  consider_all();
  if (!std::exchange(settling_, true)) zk::spawn(settle(shared_from_this()));
}

void Slots::hand_over_all() {
  leaving_ = true;
  for (auto& [name, slot] : slots_)
    slot.wanted = false;
  if (!leave_->requested()) leave_->request();
  consider_all();
  if (slots_.empty() && !empty_->requested()) empty_->request();
  begin_hand_overs();
}

void Slots::end(std::string_view cause) {
  if (cause_) return;
  cause_ = cause;
  std::vector<LeasePtr> leases;
  for (const auto& [name, slot] : slots_) {
    if (slot.lease != nullptr) leases.push_back(slot.lease);
  }
  for (const LeasePtr& lease : leases)
    lease->lose_node(cause);
  hand_over_all();
}

void Slots::consider_all() {
  std::vector<std::string> names;
  names.reserve(slots_.size());
  for (const auto& [name, slot] : slots_)
    names.push_back(name);
  for (const std::string& name : names)
    consider(name);
}

void Slots::consider(const std::string& name) {
  const auto found = slots_.find(name);
  if (found == slots_.end() || found->second.busy) return;
  switch (step_of(found->second)) {
    case SlotStep::look:
    case SlotStep::take:
      found->second.busy = true;
      waiting_.push_back(name);
      send();
      break;
    case SlotStep::forget:
      slots_.erase(found);
      if (leaving_ && slots_.empty() && !empty_->requested()) empty_->request();
      break;
    case SlotStep::wait:
    case SlotStep::keep:
    case SlotStep::hand_over: break;  // begin_hand_overs() chooses which.
  }
}

// --- Looking and taking ----------------------------------------------------------------------------------------------

void Slots::send() {
  while (in_flight_ < max_in_flight && !waiting_.empty()) {
    const std::string name = std::move(waiting_.front());
    waiting_.pop_front();
    work(name);
  }
}

void Slots::work(const std::string& name) {
  const SlotStep step = step_of(slots_.at(name));  // It may have changed since.
  if (step != SlotStep::look && step != SlotStep::take) return done(name);
  ++in_flight_;
  zk::spawn(step == SlotStep::look ? look(shared_from_this(), name) : take(shared_from_this(), name));
}

// The coroutine that was at work on it has ended.
void Slots::done(const std::string& name) {
  slots_.at(name).busy = false;
  consider(name);
}

Awaitable<void> Slots::look(std::shared_ptr<Slots> self, std::string name) {
  const auto fired = std::make_shared<bool>(false);
  const auto on_event = [weak = self->weak_from_this(), fired, name](WatchEventType type) {
    *fired = true;
    const auto alive = weak.lock();
    if (alive == nullptr) return;
    const auto found = alive->slots_.find(name);
    if (found == alive->slots_.end() || found->second.watch == nullptr) return;
    found->second.watch = nullptr;
    found->second.holder = type == WatchEventType::deleted ? SlotHolder::nobody : SlotHolder::unknown;
    alive->consider(name);
  };
  const auto watch = std::make_shared<zk::LoopWatch>(self->spec_.client, zk::WatchRegistry::Kind::data, on_event);
  // With get, not exists: a watch on a node that is not there would stay.
  Request get = zk::make_request(OpType::get, zk::child_path(self->directory_of(name), slot_owner));
  Reply seen = co_await self->spec_.client->perform_watching(std::move(get), self->call(), watch);
  --self->in_flight_;
  self->send();
  Slot& slot = self->slots_.at(name);
  if (seen.ok()) {
    slot.holder = *fired ? SlotHolder::unknown : SlotHolder::another;
    if (!*fired) slot.watch = watch;
    self->clear_problem();
  } else if (seen.failed(Errc::no_node)) {
    slot.holder = SlotHolder::nobody;
  } else if (needs_pause(*seen.error)) {
    self->show_problem(zk::to_error(seen, self->spec_.operation, self->spec_.path));
    co_await pause(self, Clock::now() + long_pause);
  }
  if (self->spec_.client->closing()) slot.wanted = false;
  self->done(name);
}

Awaitable<void> Slots::take(std::shared_ptr<Slots> self, std::string name) {
  SingleNodeSpec spec;
  spec.client = self->spec_.client;
  spec.path = self->spec_.path;
  spec.directory = self->directory_of(name);
  spec.name = slot_owner;
  spec.acl = self->spec_.acl;
  spec.operation = self->spec_.operation;
  spec.watch_at_once = true;  // Slots are held for long.
  spec.revocable = false;     // By its members alone.
  spec.conditions = self->slots_.at(name).conditions;
  auto shared = std::make_shared<const SingleNodeSpec>(std::move(spec));
  std::string data = self->spec_.data;
  auto taking = contend_for_node(std::move(shared), std::move(data), Patience::try_once, self->call());
  Result<LeasePtr> taken = co_await std::move(taking);
  --self->in_flight_;
  self->send();
  self->slots_.at(name).holder = SlotHolder::unknown;
  const bool slow = !taken && taken.error().errc() == Errc::connection_too_slow;
  if (taken) self->quick_again();
  if (taken && *taken != nullptr) {
    self->granted(name, std::move(*taken));
  } else if (taken) {
    self->clear_problem();
  } else if (needs_pause(taken.error().errc())) {
    self->show_problem(taken.error());
    if (slow) {
      co_await pause_for_slowness(self);
    } else {
      co_await pause(self, Clock::now() + (was_refused(taken.error()) ? after_refusal : long_pause));
    }
  }
  if (self->spec_.client->closing()) self->slots_.at(name).wanted = false;
  self->done(name);
}

// All slots have the same connection. So one of them is tried again soon, and the others once that has been successful.
Awaitable<void> Slots::pause_for_slowness(std::shared_ptr<Slots> self) {
  self->slow_ = true;
  const bool first = !std::exchange(self->trying_, true);
  co_await pause(self, Clock::now() + (first ? self->slowness_.next() : longest_after_slowness));
  if (first) self->trying_ = false;
}

void Slots::quick_again() {
  if (!std::exchange(slow_, false)) return;
  slowness_.reset();
  std::exchange(news_, std::make_shared<zk::CancelScope>())->request();
}

void Slots::granted(const std::string& name, LeasePtr lease) {
  Slot& slot = slots_.at(name);
  slot.lease = lease;
  if (slot.wanted) {
    {
      const std::lock_guard lock(mutex_);
      held_[name] = lease;
      problem_.reset();
    }
    taken_(name, lease);
  } else {  // Not any more; the user has not heard of it.
    slot.moving = true;
    ++moving_;
    lease->drop();
  }
  zk::spawn(hold(shared_from_this(), name, std::move(lease)));
}

// --- Holding, and handing over ---------------------------------------------------------------------------------------

Awaitable<void> Slots::hold(std::shared_ptr<Slots> self, std::string name, LeasePtr lease) {
  const Errc why = co_await lease->over(Call());
  const bool given_back = why == Errc::not_held;
  if (given_back) {
    co_await lease->removed(Call());
  } else if (!lease->session()->over()) {  // What is left of it goes once the holder has been told.
    Call bound;
    bound.bound = lease->session();
    Waiter waiter(self->spec_.client, std::move(bound));
    Reply there = co_await waiter.enter();
    if (there.ok()) co_await waiter.wait_until_gone(lease->grant().path, "");
  }
  {
    const std::lock_guard lock(self->mutex_);
    self->held_.erase(name);
  }
  Slot& slot = self->slots_.at(name);
  slot.lease = nullptr;
  slot.holder = SlotHolder::unknown;
  const bool asked = std::exchange(slot.moving, false);
  if (asked) --self->moving_;
  if (self->spec_.client->closing()) slot.wanted = false;
  if (given_back && slot.wanted && !asked && !slot.busy) {
    slot.busy = true;
    co_await pause(self, Clock::now() + after_giving_back);
    self->done(name);
  } else {
    self->consider(name);
  }
  self->begin_hand_overs();
}

void Slots::begin_hand_overs() {
  const bool settling = !leaving_ && Clock::now() < settled_;  // settle() calls again.
  if (settling || cause_) return;
  for (auto& [name, slot] : slots_) {
    if (moving_ >= spec_.max_moving) return;
    if (slot.moving || step_of(slot) != SlotStep::hand_over) continue;
    slot.moving = true;
    ++moving_;
    slot.lease->request_revocation();
    zk::spawn(limit_hand_over(shared_from_this(), slot.lease));
  }
}

Awaitable<void> Slots::limit_hand_over(std::shared_ptr<Slots> self, LeasePtr lease) {
  Call grace;
  grace.deadline = from_now(self->spec_.grace);
  const Errc why = co_await lease->over(std::move(grace));
  if (why == Errc::deadline_exceeded) lease->lose_node("it was not given back in time");
}

Awaitable<void> Slots::settle(std::shared_ptr<Slots> self) {
  while (!self->leaving_ && !self->spec_.client->closing() && Clock::now() < self->settled_)
    co_await pause(self, self->settled_);
  self->settling_ = false;
  self->begin_hand_overs();
}

// Ends early with the next wish, as that may come from what was missing; when a connection that was slow is quick again;
// when this member leaves; and when the client is closed. Does not end without a connection.
Awaitable<void> Slots::pause(std::shared_ptr<Slots> self, Clock::time_point until) {
  const std::shared_ptr<zk::CancelScope> news = self->news_;
  while (Clock::now() < until && !self->leave_->requested() && !news->requested()) {
    Reply connected = co_await self->spec_.client->connected(self->call());
    if (!connected.ok()) break;
    zk::Signal wake(self->spec_.client->events());
    const zk::SessionEnd end(connected.session, wake);
    const zk::CancelScope::Guard leaving(self->leave_, [&wake] { wake.set(); });
    const zk::CancelScope::Guard wished(news, [&wake] { wake.set(); });
    const bool over = connected.session->over() || self->leave_->requested() || news->requested();
    if (!over) co_await wake.wait(until);
  }
}

Awaitable<Result<void>> Slots::until_empty(std::shared_ptr<Slots> self, Call call) {
  zk::Signal wake(self->spec_.client->events());
  const zk::CancelScope::Guard emptied(self->empty_, [&wake] { wake.set(); });
  const bool cancelled = call.cancel != nullptr && call.cancel->requested();
  zk::CancelScope::Guard cancelling;
  if (!cancelled) cancelling = zk::CancelScope::Guard(call.cancel, [&wake] { wake.set(); });
  if (self->leaving_ && self->slots_.empty()) co_return Result<void>();
  if (!cancelled) co_await wake.wait(call.deadline);
  if (self->empty_->requested()) co_return Result<void>();
  const bool stopped = call.cancel != nullptr && call.cancel->requested();
  co_return Error(stopped ? Errc::cancelled : Errc::deadline_exceeded, self->spec_.operation, self->spec_.path);
}

}  // namespace zkrecipes::detail
