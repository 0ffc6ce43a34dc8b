#include "simulation/servers/session_tracker.hpp"

#include <algorithm>
#include <utility>

namespace zktesting::simulated {

using namespace std::chrono_literals;

SessionTracker::SessionTracker(Process& process, Nanos tick, Nanos phase, Expire expire)
    : process_(process), tick_(tick), phase_(phase), expire_(std::move(expire)), thread_(process, lane::expirer) {}

void SessionTracker::begin() {
  due_ = next_tick(process_.now());
  sleep();
}

Nanos SessionTracker::next_tick(Nanos time) const { return ((time + phase_) / tick_ + 1) * tick_ - phase_; }

void SessionTracker::track(SessionId session, Millis timeout) { move(session, sessions_[session], timeout); }

bool SessionTracker::touch(SessionId session, Millis timeout) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.closing) return false;
  move(session, found->second, timeout);
  return true;
}

void SessionTracker::move(SessionId session, Session& state, Millis timeout) {
  const Nanos bucket = next_tick(process_.now() + std::chrono::milliseconds(timeout));
  if (bucket == state.bucket) return;
  if (const auto old = buckets_.find(state.bucket); old != buckets_.end()) std::erase(old->second, session);
  buckets_[bucket].push_back(session);
  state.bucket = bucket;
}

void SessionTracker::closing(SessionId session) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) found->second.closing = true;
}

void SessionTracker::remove(SessionId session) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end()) return;
  if (const auto bucket = buckets_.find(found->second.bucket); bucket != buckets_.end())
    std::erase(bucket->second, session);
  sessions_.erase(found);
}

void SessionTracker::set_owner(SessionId session, Owner owner) {
  if (const auto found = sessions_.find(session); found != sessions_.end()) found->second.owner = owner;
}

std::int32_t SessionTracker::check(SessionId session, Owner owner) {
  const auto found = sessions_.find(session);
  if (found == sessions_.end() || found->second.closing) return code::session_expired;
  if (!found->second.owner) found->second.owner = owner;
  return *found->second.owner == owner ? code::ok : code::session_moved;
}

void SessionTracker::sleep() {
  const Nanos late(process_.events().random().between(0, Nanos(1ms).count()));
  thread_.set(std::max(due_ - process_.now(), Nanos(0)) + late, [this] { wake(); });
}

void SessionTracker::wake() {
  if (process_.now() < due_) return sleep();
  if (const auto bucket = buckets_.find(due_); bucket != buckets_.end()) {
    polled_ = std::move(bucket->second);
    buckets_.erase(bucket);
  }
  due_ += tick_;
  expire_next();
}

// A session that is heard of between the poll of its tick and its turn here is closed all the same.
void SessionTracker::expire_next() {
  if (polled_.empty()) return process_.now() < due_ ? sleep() : wake();
  thread_.set(process_.hesitation(), [this] {
    const SessionId session = polled_.front();
    polled_.pop_front();
    if (const auto found = sessions_.find(session); found != sessions_.end()) {
      found->second.closing = true;
      expire_(session);
    }
    expire_next();
  });
}

}  // namespace zktesting::simulated
