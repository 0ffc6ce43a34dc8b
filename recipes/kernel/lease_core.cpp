#include "recipes/kernel/lease_core.hpp"

#include <algorithm>
#include <chrono>

#include <fmt/format.h>

#include "recipes/kernel/lost_leases.hpp"
#include "recipes/kernel/revocation.hpp"
#include "recipes/kernel/words.hpp"
#include "zkclient/detail/recipe_probes.hpp"

namespace zkrecipes::detail {

namespace {

constexpr auto retry_pause = std::chrono::milliseconds(100);

}  // namespace

LeaseCore::LeaseCore(Grant grant) : grant_(std::move(grant)) {
  zk::Meter* const meter = grant_.client->meter();
  if (grant_.internal) return;
  zk::probe::lease_granted(grant_.path, grant_.session->id(), token().value);
  if (meter != nullptr || grant_.client->spans() != nullptr) begin_.emplace();
  if (meter == nullptr) return;
  meter->count(zkclient::Metrics::Counter::leases_granted);
  meter->change(zkclient::Metrics::Gauge::leases_held, 1);
}

// One that nobody took, because an executor dropped the handler that was to get it.
LeaseCore::~LeaseCore() { leave(Status::released, "nobody took it"); }

// False when it was not held any more.
bool LeaseCore::leave(Status next, std::string_view cause) noexcept {
  const bool told = !grant_.internal && !grant_.client->loop()->forked();
  const bool late = told && next != Status::lost && state() == LeaseState::lost;
  if (late) cause = "its lease clock ran out before it was given back";
  Status held = Status::held;
  if (!status_.compare_exchange_strong(held, next)) return false;
  if (!told) return true;
  const bool lost = (next == Status::lost || late) && grant_.session->raw_state() != ConnectionState::closed;
  probe_end(lost, cause);
  if (!begin_) return true;
  try {
    meter_end(lost, cause);
  } catch (...) {  // NOLINT(bugprone-empty-catch): a span that is not told is no reason to keep a lease.
  }
  return true;
}

void LeaseCore::probe_end(bool lost, std::string_view cause) const noexcept {
  if (lost) {
    zk::probe::lease_lost(grant_.path, grant_.session->id(), token().value, cause);
  } else {
    zk::probe::lease_released(grant_.path, grant_.session->id(), token().value);
  }
}

void LeaseCore::meter_end(bool lost, std::string_view cause) const {
  if (zk::Meter* meter = grant_.client->meter()) {
    meter->change(zkclient::Metrics::Gauge::leases_held, -1);
    meter->count(lost ? zkclient::Metrics::Counter::leases_lost : zkclient::Metrics::Counter::leases_released);
    meter->time(zkclient::Metrics::Timing::lease_held, begin_->since());
  }
  zk::SpanTeller* const spans = grant_.client->spans();
  if (spans == nullptr) return;
  spans->tell({.kind = zkclient::Span::Kind::lease,
               .operation = "lease",
               .path = node(),
               .begin = *begin_,
               .error = lost ? make_error_code(Errc::not_held) : std::error_code(),
               .detail = std::string(cause),
               .session = grant_.session->id(),
               .token = token().value});
}

LeaseState LeaseCore::state() const noexcept {
  switch (status_.load(std::memory_order_acquire)) {
    case Status::lost: return LeaseState::lost;
    case Status::releasing: return LeaseState::releasing;
    case Status::released: return LeaseState::released;
    case Status::held: break;
  }
  // Not only what we were told: the clock decides.
  if (zkclient::BootClock::now() >= grant_.session->valid_until()) return LeaseState::lost;
  switch (grant_.session->state()) {
    case ConnectionState::connected: return LeaseState::held;
    case ConnectionState::connecting:
    case ConnectionState::suspended: return LeaseState::uncertain;
    case ConnectionState::lost:
    case ConnectionState::closed: break;
  }
  return LeaseState::lost;
}

void LeaseCore::begin() {
  attached_ = true;
  node_paused_ = false;
  if (ended_->requested()) ended_ = std::make_shared<zk::CancelScope>();
  zk::LeaseKeeper::Holder holder = make_holder();
  // Mostly, but not always, because there is no such node.
  holder.gone = [weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->lose_node("its node is gone");
  };
  if (!grant_.watch_at_once) {
    holder.settled = [weak = weak_from_this()] {
      if (const auto self = weak.lock(); self != nullptr && self->attached_) self->watch_own_node();
    };
  }
  hold_ = grant_.keeper->hold(grant_.path, std::move(holder));
  observer_ = grant_.session->observe([weak = weak_from_this(), session = grant_.session.get()] {
    const auto self = weak.lock();
    if (self != nullptr && session->over()) self->lose("its session is over", {});
  });
  if (grant_.watch_at_once) watch_own_node();
}

zk::LeaseKeeper::Holder LeaseCore::make_holder() {
  zk::LeaseKeeper::Holder holder;
  holder.gone = [] {};
  holder.expired = [weak = weak_from_this()](const std::string& cause) {
    if (const auto self = weak.lock()) self->lose_node(cause);
  };
  return holder;
}

// Stops everything that looks after the node.
void LeaseCore::detach() {
  if (!attached_) return;
  attached_ = false;
  grant_.keeper->drop(hold_);
  grant_.session->forget(observer_);
  own_watch_ = nullptr;
  if (!ended_->requested()) ended_->request();
}

void LeaseCore::lose(std::string_view cause, std::vector<HeldNodes> left) {
  end(cause, [client = grant_.client, session = grant_.session,
              left = std::move(left)](std::shared_ptr<zk::CancelScope> told) mutable {
    if (!left.empty()) remove_when_told(client, session, std::move(left), std::move(told));
  });
}

// The lease is over and its session is not: what is left of the nodes goes.
void LeaseCore::lose_node(std::string_view cause) {
  if (!grant_.clear_up) {
    lose(cause, {nodes()});
    return;
  }
  end(cause, [self = shared_from_this()](std::shared_ptr<zk::CancelScope> told) {
    zk::spawn([](std::shared_ptr<LeaseCore> lost, std::shared_ptr<zk::CancelScope> known) -> zk::Awaitable<void> {
      co_await until_told(lost->grant_.client, lost->grant_.session, std::move(known));
      if (!lost->grant_.session->over()) lost->grant_.clear_up();
    }(self, std::move(told)));
  });
}

void LeaseCore::notice_end() {
  if (attached_) grant_.keeper->notice_end();
}

void LeaseCore::lose_deleted_node() {
  constexpr std::string_view cause = "its node was deleted";
  const bool something_left = !grant_.companion.empty() || grant_.clear_up;
  something_left ? lose_node(cause) : lose(cause, {});
}

// First the holder learns of it, then `clear_up` may let others have what was held.
void LeaseCore::end(std::string_view cause, std::function<void(std::shared_ptr<zk::CancelScope> told)> clear_up) {
  const auto self = shared_from_this();
  detach();
  const auto told = std::make_shared<zk::CancelScope>();
  if (leave(Status::lost, cause)) {
    if (zk::log_enabled(zkclient::LogLevel::warning)) {
      const std::string trouble = grant_.client->trouble();
      warn_of_loss(grant_.client, grant_.path, fmt::format("{}{}{}", cause, trouble.empty() ? "" : ": ", trouble));
    }
    if (grant_.on_lost) grant_.on_lost();
    grant_.client->callbacks()->post(
        [self, told] {
          self->grant_.lost.request_stop();
          self->grant_.client->loop()->post([told] { told->request(); });
        },
        true);
  } else {
    told->request();  // Nothing was held any more.
  }
  tell_over();
  clear_up(told);
}

void LeaseCore::tell_over() {
  if (!over_->requested()) over_->request();
}

zk::Awaitable<zkclient::Errc> LeaseCore::over(zk::Call call) {
  const auto self = shared_from_this();
  zk::Signal wake(grant_.client->events());
  const zk::CancelScope::Guard ended(over_, [&wake] { wake.set(); });
  const bool cancelled = call.cancel != nullptr && call.cancel->requested();
  zk::CancelScope::Guard cancelling;
  if (!cancelled) cancelling = zk::CancelScope::Guard(call.cancel, [&wake] { wake.set(); });
  if (!over_->requested() && !cancelled) co_await wake.wait(call.deadline);
  if (over_->requested()) co_return status_.load() == Status::lost ? Errc{} : Errc::not_held;
  co_return call.cancel != nullptr&& call.cancel->requested() ? Errc::cancelled : Errc::deadline_exceeded;
}

zk::Call LeaseCore::bound_call() const {
  zk::Call call;
  call.bound = grant_.session;
  call.cancel = ended_;
  return call;
}

void LeaseCore::watch_own_node() {
  const auto current = std::make_shared<std::weak_ptr<zk::LoopWatch>>();
  const auto on_event = [weak = weak_from_this(), current](zkclient::WatchEventType type) {
    const auto self = weak.lock();
    if (self == nullptr || !self->watching(current->lock())) return;
    if (type == zkclient::WatchEventType::deleted) {
      self->lose_deleted_node();
    } else if (type == zkclient::WatchEventType::data_changed) {
      self->watch_own_node();  // Whatever was written, the node is still there; see what it is.
    }
  };
  own_watch_ = std::make_shared<zk::LoopWatch>(grant_.client, zk::WatchRegistry::Kind::data, on_event);
  *current = own_watch_;
  zk::spawn(
      [](std::shared_ptr<LeaseCore> self, std::shared_ptr<zk::LoopWatch> watch, zk::Call call) -> zk::Awaitable<void> {
        co_await self->look_at_own_node(std::move(watch), std::move(call));
      }(shared_from_this(), own_watch_, bound_call()));
}

zk::Awaitable<void> LeaseCore::look_at_own_node(std::shared_ptr<zk::LoopWatch> watch, zk::Call call) {
  zk::Request request = zk::make_request(zk::OpType::get, grant_.companion.empty() ? grant_.path : grant_.companion);
  const zk::Reply reply = co_await grant_.client->perform_watching(std::move(request), call, watch);
  if (!watching(watch)) co_return;
  if (reply.failed(Errc::no_node)) {
    lose_deleted_node();
  } else if (reply.ok() && reply.stat.czxid == grant_.czxid) {
    look_at(reply);
  } else if (reply.ok()) {
    // Another client has made another node of that name. It stays; only what is still ours goes.
    std::vector<HeldNodes> left;
    if (!grant_.companion.empty()) left.push_back(HeldNodes{grant_.path});
    lose("its node was replaced", std::move(left));
  } else if (reply.failed(Errc::connection_loss) || reply.failed(Errc::overloaded)) {
    // Not armed, and without it the holder would not hear of a revocation.
    co_await zk::pause_for(retry_pause, grant_.client->events(), grant_.session);
    if (watching(watch) && !grant_.session->over()) watch_own_node();
  }
}

// Another client has asked for the lease by writing into the node. The holder's words go back there, so that operators
// can read again whose it is: once the holder was told, for then nothing else says that it was asked.
void LeaseCore::look_at(const zk::Reply& own_node) {
  if (!grant_.revocable || !is_revocation(own_node.data)) return;
  auto restore = [self = shared_from_this(), version = own_node.stat.version, call = bound_call()]() mutable {
    zk::spawn([](std::shared_ptr<LeaseCore> told, std::int32_t seen, zk::Call limits) -> zk::Awaitable<void> {
      co_await told->restore_words(seen, std::move(limits));
    }(std::move(self), version, std::move(call)));
  };
  grant_.client->callbacks()->post(
      [self = shared_from_this(), restore = std::move(restore)]() mutable {
        self->grant_.revoke.request_stop();
        self->grant_.client->loop()->post(std::move(restore));
      },
      true);
}

void LeaseCore::request_revocation() {
  grant_.client->callbacks()->post([self = shared_from_this()] { self->grant_.revoke.request_stop(); }, true);
}

// With the version it may be sent as often as it takes: it has an effect once.
zk::Awaitable<void> LeaseCore::restore_words(std::int32_t version, zk::Call call) {
  for (;;) {
    zk::Request restore = zk::make_request(zk::OpType::set, grant_.companion.empty() ? grant_.path : grant_.companion);
    restore.data = grant_.data;
    restore.version = version;
    const zk::Reply reply = co_await grant_.client->perform(std::move(restore), call);
    const bool lost = reply.failed(Errc::in_doubt) || reply.failed(Errc::connection_loss);
    if (!lost || !attached_) co_return;
    co_await zk::pause_for(retry_pause, grant_.client->events(), grant_.session);
    if (!attached_ || grant_.session->over()) co_return;
  }
}

bool LeaseCore::pause() {
  if (status_.load(std::memory_order_acquire) != Status::held || !attached_ || node_paused_) return false;
  detach();
  return true;
}

bool LeaseCore::pause_node() {
  if (status_.load(std::memory_order_acquire) != Status::held || !attached_ || node_paused_) return false;
  // Heartbeats go on; they check what is there in any case.
  const zk::LeaseKeeper::HoldId former = hold_;
  hold_ = grant_.keeper->hold(zk::parent_of(grant_.path), make_holder());
  grant_.keeper->drop(former);
  own_watch_ = nullptr;
  node_paused_ = true;
  return status_.load(std::memory_order_acquire) == Status::held;
}

void LeaseCore::resume() {
  if (status_.load(std::memory_order_acquire) != Status::held) return;
  detach();
  begin();
  if (grant_.session->over()) lose("its session is over", {});  // That is not told again.
}

bool LeaseCore::replaced() {
  if (!leave(Status::released)) return false;
  gone_ = true;
  detach();
  tell_over();
  return true;
}

bool LeaseCore::begin_release() noexcept { return leave(Status::releasing); }

void LeaseCore::drop() noexcept {
  if (!begin_release()) return;
  try {
    grant_.client->loop()->post([self = shared_from_this()] { self->remove_node(); });
  } catch (...) {
    // Out of memory: the node goes with its session.
  }
}

void LeaseCore::remove_node() {
  if (removing_) return;
  removing_ = true;
  detach();
  tell_over();
  // The first attempt is sent right now, before anything else that this session does.
  zk::Call call;
  call.bound = grant_.session;
  auto pending = grant_.client->launch(removal(nodes_to_hand_over()), call);
  zk::spawn([](std::shared_ptr<LeaseCore> self, zk::PendingReply first) -> zk::Awaitable<void> {
    zk::Reply reply = co_await first.get();
    HeldNodes nodes = self->nodes_to_hand_over();
    co_await finish_removal(self->grant_.client, self->grant_.session, std::move(nodes), std::move(reply));
    self->gone_ = true;
    self->status_.store(Status::released, std::memory_order_release);
    self->removed_->request();
  }(shared_from_this(), std::move(pending)));
}

zk::Awaitable<void> LeaseCore::removed(zk::Call call) {
  const auto self = shared_from_this();
  zk::Signal wake(grant_.client->events());
  if (gone_) co_return;
  const zk::CancelScope::Guard removed(removed_, [&wake] { wake.set(); });
  zk::CancelScope::Guard cancelled;
  if (call.cancel != nullptr && call.cancel->requested()) co_return;
  cancelled = zk::CancelScope::Guard(call.cancel, [&wake] { wake.set(); });
  co_await wake.wait(call.deadline);
}

}  // namespace zkrecipes::detail
