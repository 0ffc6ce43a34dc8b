#include "simulation/servers/process.hpp"

#include <iterator>
#include <utility>

namespace zktesting::simulated {

using namespace std::chrono_literals;

void Process::begin() {
  alive_ = true;
  paused_ = false;
}

void Process::end() {
  alive_ = false;
  paused_ = false;
  ++life_;
  held_.clear();
}

void Process::pause() { paused_ = alive_; }

void Process::resume() {
  if (!paused_) return;
  paused_ = false;
  resumed_at_ = events_.now();
  drain();
}

void Process::arrive(Lane lane, Act act) {
  if (!alive_) return;
  if (paused_ || draining_)
    held_[lane].push_back(std::move(act));
  else
    act();
}

void Process::after(Lane lane, Nanos delay, Act act) {
  events_.after(delay, [this, lane, life = life_, act = std::move(act)]() mutable {
    if (life == life_) arrive(lane, std::move(act));
  });
}

Nanos Process::hesitation() {
  const bool waking = events_.now() - resumed_at_ < 50ms;
  return Nanos(events_.random().between(0, Nanos(waking ? 15ms : 50us).count()));
}

void Process::drain() {
  draining_ = true;
  while (alive_ && !paused_ && !held_.empty())
    take_held()();
  draining_ = false;
}

Process::Act Process::take_held() {
  const auto lane = std::next(held_.begin(), static_cast<std::ptrdiff_t>(events_.random().below(held_.size())));
  Act act = std::move(lane->second.front());
  lane->second.pop_front();
  if (lane->second.empty()) held_.erase(lane);
  return act;
}

void Timer::set(Nanos delay, Process::Act act) {
  const std::uint64_t mine = ++*setting_;
  process_.after(lane_, delay, [setting = setting_, mine, act = std::move(act)] {
    if (*setting == mine) act();
  });
}

void Silence::expect(Nanos limit, Process::Act over) {
  limit_ = limit;
  over_ = std::move(over);
  heard();
  wait();
}

void Silence::wait() {
  const Nanos due = heard_at_ + limit_;
  timer_.set(due - process_.now(), [this, due] { check(process_.now() == due); });
}

void Silence::check(bool read_all) {
  if (process_.now() - heard_at_ < limit_) return wait();
  if (read_all) {
    const auto over = over_;  // Which may destroy this.
    return over();
  }
  timer_.set(Nanos(0), [this] { check(true); });
}

}  // namespace zktesting::simulated
