#include "zkclient/detail/lease/lease_keeper.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "zkclient/detail/log.hpp"
#include "zkclient/detail/probes.hpp"

namespace zkclient::detail {
namespace {

// A heartbeat checks at most this much; with more leases each is checked every few heartbeats.
constexpr std::size_t max_checks = 1024;
constexpr auto settling_time = std::chrono::milliseconds(20);

long long in_ms(std::chrono::nanoseconds time) { return std::chrono::ceil<std::chrono::milliseconds>(time).count(); }

}  // namespace

LeaseKeeper::LeaseKeeper(EventLoop& events, std::shared_ptr<SessionState> session,
                         std::optional<std::chrono::milliseconds> tick, Send send)
    : session_(std::move(session)), tick_(tick), send_(std::move(send)), timer_(events) {}

void LeaseKeeper::connected(TimePoint begun) {
  if (stopped_) return;
  const auto timeout = session_->timeout();
  const bool shrank = clock_ && timeout < clock_timeout_;
  if (shrank && holding()) expire();  // The server may end the session before what was promised.
  if (!clock_ || shrank) {            // If it grew, the shorter one stays safe.
    clock_.emplace(timeout, tick_ ? *tick_ : LeaseClock::assumed_tick(timeout));
    clock_timeout_ = timeout;
    session_->set_valid_until(TimePoint{});
  }
  clock_->connected(begun, BootClock::now());
  next_beat_ = TimePoint{};  // After an outage the proof is old: renew it now.
  beat();
}

void LeaseKeeper::heard(TimePoint sent) {
  if (clock_) clock_->heard(sent, BootClock::now());
}

void LeaseKeeper::woken() {
  if (clock_) clock_->woken(BootClock::now());
}

std::chrono::nanoseconds LeaseKeeper::round_trip() const noexcept {
  return clock_ ? clock_->quickest_answer() : std::chrono::nanoseconds::zero();
}

void LeaseKeeper::stop() {
  stopped_ = true;
  timer_.cancel();
  held_.clear();
  waits_at_.clear();
  holders_ = 0;
  unsettled_.clear();
  send_ = {};
  report_ = {};
}

bool LeaseKeeper::ran_out(TimePoint now) const noexcept { return holding() && now >= clock_->valid_until(); }

void LeaseKeeper::acknowledged(TimePoint sent) {
  if (stopped_ || !clock_) return;
  const TimePoint now = BootClock::now();
  if (ran_out(now)) expire();  // Nothing revives what was held when it ran out, also if the timer has not said so yet.
  if (stopped_) return;
  if (clock_->acknowledged(sent, now)) session_->set_valid_until(clock_->valid_until());
  probe::session_proven(session_->id(), sent, clock_->valid_until());
  next_beat_ = clock_->next();
}

bool LeaseKeeper::proven() const noexcept {
  const std::optional<TimePoint> on_its_way = beating_ ? std::optional(beat_sent_) : std::nullopt;
  return !stopped_ && clock_ && clock_->will_last(BootClock::now(), on_its_way);
}

std::chrono::nanoseconds LeaseKeeper::pause_before_proof() const noexcept {
  if (!clock_) return session_->timeout() / 60;
  return std::max(clock_->next() - BootClock::now(), std::chrono::nanoseconds::zero());
}

bool LeaseKeeper::seems_too_slow() const noexcept { return clock_ && !clock_->round_trip() && !clock_->quick_enough(); }

std::optional<LeaseKeeper::Obstacle> LeaseKeeper::obstacle() const {
  if (!clock_) return std::nullopt;
  const auto limit = clock_->round_trip_limit();
  const auto least = [this](std::chrono::nanoseconds round_trip) {
    return LeaseClock::least_timeout(round_trip, tick_).count();
  };
  if (limit < clock_timeout_ / 20) {
    const std::chrono::nanoseconds tick = tick_ ? *tick_ : LeaseClock::assumed_tick(clock_timeout_);
    return Obstacle{
        Errc::timeout_too_short,
        fmt::format("the server granted a session timeout of {} ms, and its tick {} {} ms: ask for {} ms or "
                    "more (ClientOptions::session_timeout){}",
                    clock_timeout_.count(), tick_ ? "is" : "may be", in_ms(tick), least({}),
                    tick_ ? "" : ", or say what the tick is (ClientOptions::server_tick)")};
  }
  const auto round_trip = clock_->round_trip();
  if (!round_trip || *round_trip <= limit) return std::nullopt;
  return Obstacle{
      Errc::connection_too_slow,
      fmt::format("the server takes {} ms to answer a write, and leases of a session of {} ms need an answer "
                  "within {} ms: ask for a timeout of {} ms or more (ClientOptions::session_timeout)",
                  in_ms(*round_trip), clock_timeout_.count(), limit / std::chrono::milliseconds(1),
                  least(*round_trip))};
}

LeaseKeeper::HoldId LeaseKeeper::hold(const std::string& path, Holder holder) {
  const HoldId id = next_id_++;
  if (holder.settled) unsettled_.emplace_back(BootClock::now() + settling_time, id);
  held_.emplace(id, Held{path, std::move(holder)});
  ++holders_;
  arm(next_date());
  return id;
}

LeaseKeeper::HoldId LeaseKeeper::stay_proven(const std::string& path) {
  const auto [place, first] = waits_at_.try_emplace(path, next_id_);
  if (first) held_.emplace(next_id_++, Held{path, std::nullopt});
  ++held_.at(place->second).waiters;
  arm(next_date());
  return place->second;
}

LeaseKeeper::Held LeaseKeeper::take(std::map<HoldId, Held>::iterator place) {
  Held held = std::move(held_.extract(place).mapped());
  if (held.holder) {
    --holders_;
  } else {
    waits_at_.erase(held.path);
  }
  // A lease that was short never settles: without this each would cost a wake-up of the timer.
  while (!unsettled_.empty() && !held_.contains(unsettled_.front().second))
    unsettled_.pop_front();
  return held;
}

void LeaseKeeper::notice_end() {
  if (!stopped_ && ran_out(BootClock::now())) expire();
}

void LeaseKeeper::drop(HoldId id) {
  notice_end();  // Once the clock has run out under a lease it is lost, also if the timer has not said so yet.
  const auto held = held_.find(id);
  if (held == held_.end() || --held->second.waiters > 0) return;
  take(held);
}

void LeaseKeeper::expire() {
  const auto now = BootClock::now();
  std::string cause = "its lease clock ran out";
  if (session_->raw_state() != ConnectionState::connected) {
    cause += ", there is no connection";
  } else if (beating_) {
    cause += fmt::format(", no answer to a heartbeat for {} ms", in_ms(now - beat_sent_));
  } else if (now >= next_beat_ + clock_->interval()) {
    cause += ", this process stood still";
  }
  std::vector<Held> lost;
  for (auto place = held_.begin(); place != held_.end();) {
    const auto next = std::next(place);
    if (place->second.holder) lost.push_back(take(place));
    place = next;
  }
  for (const Held& held : lost)
    held.holder->expired(cause);
}

// The next heartbeat, the end of the lease clock, or a lease that settles: one timer serves them all.
LeaseKeeper::TimePoint LeaseKeeper::next_date() const {
  TimePoint date = holding() ? clock_->valid_until() : TimePoint::max();
  const bool connected = session_->raw_state() == ConnectionState::connected;
  if (connected && !beating_ && !held_.empty()) date = std::min(date, next_beat_);  // Else connected() sends it.
  if (!unsettled_.empty()) date = std::min(date, unsettled_.front().first);
  return date;
}

void LeaseKeeper::on_time() {
  const TimePoint now = BootClock::now();
  settle(now);
  if (stopped_ || held_.empty()) return;
  if (ran_out(BootClock::now())) expire();
  if (stopped_ || held_.empty()) return;
  if (now >= next_beat_) beat();
  if (!stopped_) arm(next_date());
}

void LeaseKeeper::settle(TimePoint now) {
  while (!unsettled_.empty() && unsettled_.front().first <= now) {
    const auto held = held_.find(unsettled_.front().second);
    unsettled_.pop_front();
    if (held == held_.end()) continue;
    const auto settled = std::move(held->second.holder->settled);
    settled();
  }
}

void LeaseKeeper::beat() {
  if (beating_ || held_.empty() || session_->raw_state() != ConnectionState::connected) return;
  Request request;
  request.type = OpType::multi;
  std::vector<HoldId> ids;
  std::size_t bytes = 0;
  auto next = held_.upper_bound(cursor_);
  while (ids.size() < std::min(held_.size(), max_checks) && bytes < budget_.bytes()) {
    if (next == held_.end()) next = held_.begin();
    request.operations.emplace_back(Check{Path(next->second.path)});
    bytes += next->second.path.size() + 16;
    ids.push_back(next->first);
    cursor_ = next->first;
    ++next;
  }
  beating_ = true;
  beat_bytes_ = bytes;
  beat_sent_ = BootClock::now();
  probe::proof_sent(session_->id(), ids.size());
  const auto send = send_;
  send(std::move(request),
       [self = shared_from_this(), ids = std::move(ids)](const Reply& reply) { self->on_beat(ids, reply); });
}

void LeaseKeeper::on_beat(const std::vector<HoldId>& ids, const Reply& reply) {
  beating_ = false;
  if (stopped_) return;
  probe::proof_received(session_->id(), static_cast<int>(reply.error.value_or(Errc{})));
  if (report_) {
    const auto left = holding() ? clock_->valid_until() - BootClock::now() : std::chrono::nanoseconds::zero();
    report_({beat_sent_, reply.error, left});
  }
  const bool answered = reply.ok() || reply.failed(Errc::transaction_failed);
  answered ? budget_.answered(beat_bytes_) : budget_.lost(beat_bytes_);
  if (reply.ok()) {
    acknowledged(reply.sent);
  } else if (!answered) {
    // Lost on the way: connected() sends the next one. Or refused as a whole, which says nothing of the nodes.
    next_beat_ = BootClock::now() + clock_->interval() / 4;
  } else {
    for (std::size_t i = 0; i < ids.size() && i < reply.codes.size(); ++i) {
      if (reply.codes[i] == rc::ok || reply.codes[i] == rc::runtime_inconsistency) continue;
      const auto place = held_.find(ids[i]);
      if (place == held_.end()) continue;  // Released while the heartbeat was on its way.
      if (ran_out(BootClock::now())) expire();
      const auto still = held_.find(ids[i]);
      if (stopped_ || still == held_.end()) continue;
      const Held held = take(still);
      if (held.holder) held.holder->gone();
    }
    if (!stopped_) beat();
  }
  if (!stopped_ && !held_.empty()) arm(next_date());
}

void LeaseKeeper::arm(TimePoint due) {
  if (stopped_ || due >= timer_.due()) return;
  timer_.set(due, [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self != nullptr && !self->stopped_) self->on_time();
  });
}

}  // namespace zkclient::detail
