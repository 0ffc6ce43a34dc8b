#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <functional>
#include <list>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>

#include <zkclient/clock.hpp>
#include <zkclient/session.hpp>

#include "zkclient/detail/process.hpp"

namespace zkclient::detail {

/// The facts of one session: written by the loop thread, read by any thread.
class SessionState {
 public:
  /// `owner`: the ClientCore that it is of, or nullptr.
  explicit SessionState(std::chrono::milliseconds requested_timeout, const void* owner = nullptr)
      : owner_(owner), timeout_ms_(requested_timeout.count()) {}

  bool is_of_another(const void* owner) const noexcept { return owner_ != nullptr && owner_ != owner; }

  std::int64_t id() const noexcept { return id_.load(std::memory_order_acquire); }
  std::chrono::milliseconds timeout() const noexcept { return std::chrono::milliseconds(timeout_ms_.load()); }
  BootClock::time_point valid_until() const noexcept {
    const ConnectionState state = this->state();
    if (state == ConnectionState::lost || state == ConnectionState::closed) return {};
    return BootClock::time_point(std::chrono::nanoseconds(valid_until_ns_.load(std::memory_order_acquire)));
  }
  /// See set_told_up_to(); the epoch before the first write. Any thread.
  BootClock::time_point told_up_to() const noexcept {
    return BootClock::time_point(std::chrono::nanoseconds(told_up_to_ns_.load(std::memory_order_acquire)));
  }
  /// See set_proven_at(); the epoch before the first write. Any thread.
  BootClock::time_point proven_at() const noexcept {
    return BootClock::time_point(std::chrono::nanoseconds(proven_at_ns_.load(std::memory_order_acquire)));
  }
  /// For a forked child it is over: the session is its parent's.
  ConnectionState state() const noexcept {
    return process_.forked() ? ConnectionState::closed : state_.load(std::memory_order_acquire);
  }
  std::stop_token lost() const noexcept { return lost_.get_token(); }
  std::string password() const {
    const std::lock_guard lock(mutex_);
    return password_;
  }

  // For the loop thread only.
  ConnectionState raw_state() const noexcept { return state_.load(std::memory_order_relaxed); }
  bool over() const noexcept {
    const ConnectionState state = raw_state();
    return state == ConnectionState::lost || state == ConnectionState::closed;
  }
  /// The reason of its end, once it is lost.
  const std::string& end_reason() const noexcept { return end_reason_; }
  void set_end_reason(std::string reason) { end_reason_ = std::move(reason); }
  void set_state(ConnectionState state) noexcept {
    if (state == ConnectionState::connected) ++connections_;
    state_.store(state, std::memory_order_release);
  }
  /// How many connections it has had: tells whether one is still the same.
  std::uint32_t connections() const noexcept { return connections_; }
  void set_identity(std::int64_t id, std::chrono::milliseconds timeout, std::string password) {
    const std::lock_guard lock(mutex_);
    password_ = std::move(password);
    timeout_ms_.store(timeout.count());
    id_.store(id, std::memory_order_release);
  }
  /// A quorum-committed write that was sent at `sent` was acknowledged. What had been committed before `sent` has been
  /// told by now, by events of the session's watches.
  void set_told_up_to(BootClock::time_point sent) noexcept {
    const std::int64_t sent_ns = sent.time_since_epoch().count();
    if (sent_ns > told_up_to_ns_.load(std::memory_order_relaxed)) {
      told_up_to_ns_.store(sent_ns, std::memory_order_release);
    }
  }
  /// A quorum-committed write that was sent at `sent` was acknowledged.
  void set_proven_at(BootClock::time_point sent) noexcept {
    const std::int64_t sent_ns = sent.time_since_epoch().count();
    if (sent_ns > proven_at_ns_.load(std::memory_order_relaxed)) {
      proven_at_ns_.store(sent_ns, std::memory_order_release);
    }
  }
  void set_valid_until(BootClock::time_point until) noexcept {
    valid_until_ns_.store(until.time_since_epoch().count(), std::memory_order_release);
  }
  std::stop_source& lost_source() noexcept { return lost_; }

  /// Called on the loop thread after every change of state; may remove itself or others while it runs.
  using Observer = std::function<void()>;
  using ObserverId = std::list<Observer>::iterator;
  ObserverId observe(Observer observer) { return observers_.insert(observers_.end(), std::move(observer)); }
  void forget(ObserverId id) {
    if (next_ == id) ++next_;
    observers_.erase(id);
  }
  void notify() {
    for (auto current = observers_.begin(); current != observers_.end(); current = next_) {
      next_ = std::next(current);
      const Observer observer = *current;
      observer();
    }
    next_ = observers_.end();
  }

 private:
  const ProcessGeneration process_;
  std::atomic<std::int64_t> id_{0};
  const void* const owner_;
  std::atomic<std::int64_t> timeout_ms_;
  std::atomic<std::int64_t> valid_until_ns_{0};
  std::atomic<std::int64_t> told_up_to_ns_{0};
  std::atomic<std::int64_t> proven_at_ns_{0};
  std::atomic<ConnectionState> state_{ConnectionState::connecting};
  std::uint32_t connections_ = 0;
  std::stop_source lost_;
  mutable std::mutex mutex_;
  std::string password_;
  std::string end_reason_;
  std::list<Observer> observers_;
  ObserverId next_ = observers_.end();
};

}  // namespace zkclient::detail
