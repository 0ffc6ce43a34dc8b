#include "zkclient/detail/lease_keeper.hpp"

#include <algorithm>

#include "zkclient/detail/log.hpp"

namespace zkclient::detail {
namespace {

// A heartbeat checks at most this much; with more leases each is checked every few heartbeats.
constexpr std::size_t max_checks = 256;
constexpr std::size_t max_check_bytes = 256 * 1024;
constexpr auto settling_time = std::chrono::milliseconds(20);

}  // namespace

LeaseKeeper::LeaseKeeper(EventLoop& events, std::shared_ptr<SessionState> session, Hooks hooks)
    : session_(std::move(session)), hooks_(std::move(hooks)), timer_(events) {}

void LeaseKeeper::connected() {
  if (stopped_) return;
  const auto timeout = session_->timeout();
  const bool shrank = clock_ != nullptr && timeout < clock_timeout_;
  if (shrank && holding()) {  // The server may end the session before what was promised.
    const auto lose = hooks_.lose;
    lose();
    return;
  }
  if (clock_ == nullptr || shrank) {  // If it grew, the shorter one stays safe.
    clock_ = std::make_unique<LeaseClock>(timeout);
    clock_timeout_ = timeout;
    session_->set_valid_until(TimePoint{});
  }
  next_beat_ = TimePoint{};  // After an outage the proof is old: renew it now.
  if (holding()) beat();
}

void LeaseKeeper::stop() {
  stopped_ = true;
  held_.clear();
  unsettled_.clear();
  hooks_ = {};
  timer_.cancel();
}

void LeaseKeeper::acknowledged(BootClock::time_point sent) {
  if (stopped_ || clock_ == nullptr) return;
  const TimePoint now = BootClock::now();
  // Once the clock has run out under a lease, nothing revives it: the timer is about to say so.
  if (holding() && now >= clock_->valid_until()) return;
  if (clock_->acknowledged(sent, now)) session_->set_valid_until(clock_->valid_until());
  next_beat_ = clock_->next();
}

bool LeaseKeeper::proven() const noexcept {
  return !stopped_ && clock_ != nullptr && BootClock::now() < clock_->valid_until();
}

std::chrono::nanoseconds LeaseKeeper::pause_before_proof() const noexcept {
  const std::chrono::nanoseconds least = session_->timeout() / 60;
  if (clock_ == nullptr) return least;
  return std::max<std::chrono::nanoseconds>(clock_->not_before() - BootClock::now(), least);
}

LeaseKeeper::HoldId LeaseKeeper::hold(const std::string& path, std::function<void()> gone,
                                      std::function<void()> settled) {
  const HoldId id = next_id_++;
  if (settled) unsettled_.emplace_back(BootClock::now() + settling_time, id);
  held_.emplace(id, Held{path, std::move(gone), std::move(settled)});
  session_->set_armed(true);
  arm(next_date());
  return id;
}

void LeaseKeeper::drop(HoldId id) {
  // Once the clock has run out under a lease the session is lost, also if the timer has not said so yet.
  if (!stopped_ && holding() && BootClock::now() >= clock_->valid_until()) {
    const auto lose = hooks_.lose;
    lose();
  }
  held_.erase(id);
  // A lease that was short never settles: without this each would cost a wake-up of the timer.
  while (!unsettled_.empty() && !held_.contains(unsettled_.front().second))
    unsettled_.pop_front();
  if (!holding()) session_->set_armed(false);
}

// The next heartbeat, the end of the lease clock, or a lease that settles: one timer serves them all.
LeaseKeeper::TimePoint LeaseKeeper::next_date() const {
  TimePoint date = clock_->valid_until();
  const bool connected = session_->raw_state() == ConnectionState::connected;
  if (connected && !beating_) date = std::min(date, next_beat_);  // Else connected() sends it.
  if (!unsettled_.empty()) date = std::min(date, unsettled_.front().first);
  return date;
}

void LeaseKeeper::on_time() {
  const TimePoint now = BootClock::now();
  settle(now);
  if (stopped_ || !holding()) return;
  if (now >= clock_->valid_until()) {
    const auto lose = hooks_.lose;
    lose();
    return;
  }
  if (now >= next_beat_) beat();
  if (!stopped_) arm(next_date());
}

void LeaseKeeper::settle(TimePoint now) {
  while (!unsettled_.empty() && unsettled_.front().first <= now) {
    const auto held = held_.find(unsettled_.front().second);
    unsettled_.pop_front();
    if (held == held_.end()) continue;
    const auto settled = std::move(held->second.settled);
    settled();
  }
}

void LeaseKeeper::beat() {
  if (beating_ || session_->raw_state() != ConnectionState::connected) return;
  Request request;
  request.type = OpType::multi;
  std::vector<HoldId> ids;
  std::size_t bytes = 0;
  auto next = held_.upper_bound(cursor_);
  while (ids.size() < std::min(held_.size(), max_checks) && bytes < max_check_bytes) {
    if (next == held_.end()) next = held_.begin();
    request.operations.emplace_back(Check{Path(next->second.path)});
    bytes += next->second.path.size() + 16;
    ids.push_back(next->first);
    cursor_ = next->first;
    ++next;
  }
  beating_ = true;
  const auto send = hooks_.send;
  send(std::move(request),
       [self = shared_from_this(), ids = std::move(ids)](const Reply& reply) { self->on_beat(ids, reply); });
}

void LeaseKeeper::on_beat(const std::vector<HoldId>& ids, const Reply& reply) {
  beating_ = false;
  if (stopped_) return;
  if (reply.ok()) {
    acknowledged(reply.sent);
    if (holding()) arm(next_date());
    return;
  }
  if (!reply.failed(Errc::transaction_failed)) {
    // Lost on the way: connected() sends the next one. Or refused as a whole, which says nothing of the nodes.
    next_beat_ = BootClock::now() + clock_->interval() / 4;
    if (holding()) arm(next_date());
    return;
  }
  for (std::size_t i = 0; i < ids.size() && i < reply.codes.size(); ++i) {
    if (reply.codes[i] == rc::ok || reply.codes[i] == rc::runtime_inconsistency) continue;
    const auto held = held_.find(ids[i]);
    if (held == held_.end()) continue;  // Released while the heartbeat was on its way.
    const auto gone = held->second.gone;
    if (log_enabled(LogLevel::warning)) {
      log(LogLevel::warning, "lease lost, its node is gone: " + held->second.path);
    }
    drop(ids[i]);
    gone();
  }
  if (!stopped_ && holding()) beat();
}

void LeaseKeeper::arm(TimePoint due) {
  if (stopped_ || due >= timer_.due()) return;
  timer_.set(due, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && !self->stopped_) self->on_time();
  });
}

}  // namespace zkclient::detail
