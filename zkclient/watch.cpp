#include <zkclient/watch.hpp>

#include "zkclient/detail/calls/watch_state.hpp"

namespace zkclient {
namespace detail {

// The captures of the user's handler do not end on the loop.
WatchState::~WatchState() {
  if (handler_ && core_->loop()->on_loop()) core_->callbacks()->post([unused = std::move(handler_)] {});
}

void WatchState::arm(WatchRegistry::Kind kind, const std::string& full_path,
                     const std::shared_ptr<SessionState>& session) {
  const std::lock_guard lock(mutex_);
  if (!handler_) return;
  session_ = session;
  if (session != core_->current() || session->over()) {  // The answer was the last one of a session that is over.
    const WatchEventType reason = core_->closing() ? WatchEventType::closed : WatchEventType::session_lost;
    core_->callbacks()->post([self = shared_from_this(), reason] { self->deliver(reason); });
    return;
  }
  id_ = core_->watches().add(full_path, kind, [self = shared_from_this()](WatchEventType type) {
    self->core_->callbacks()->post([self, type] { self->deliver(type); });
  });
}

void WatchState::deliver(WatchEventType type) {
  {
    const std::lock_guard lock(mutex_);
    if (held_) {
      kept_ = type;
      return;
    }
  }
  call(type);
}

void WatchState::release() {
  {
    const std::lock_guard lock(mutex_);
    held_ = false;
    if (!kept_) return;
  }
  call(*kept_);
}

void WatchState::call(WatchEventType type) {
  WatchHandler handler;
  {
    const std::lock_guard lock(mutex_);
    handler = std::move(handler_);
    handler_ = nullptr;
  }
  if (handler) handler(WatchEvent{type, path_});
}

void WatchState::drop() {
  if (core_->loop()->forked()) return;  // The watch is the parent's, and so is the thread that may have the lock.
  WatchHandler handler;
  {
    const std::lock_guard lock(mutex_);
    handler = std::move(handler_);
    handler_ = nullptr;
    if (id_ == 0 || !handler) return;
  }
  core_->loop()->post([core = core_, session = session_, id = id_] {
    if (!core->closing() && core->current() == session) core->watches().remove(id);
  });
}

bool WatchState::armed() const {
  if (core_->loop()->forked()) return false;
  const std::lock_guard lock(mutex_);
  return handler_ && !kept_;
}

}  // namespace detail

Watch& Watch::operator=(Watch&& other) noexcept {
  if (this == &other) return *this;
  if (state_ != nullptr) state_->drop();
  state_ = std::move(other.state_);
  return *this;
}

Watch::~Watch() {
  if (state_ != nullptr) state_->drop();
}

bool Watch::armed() const noexcept { return state_ != nullptr && state_->armed(); }

Subscription& Subscription::operator=(Subscription&& other) noexcept {
  if (this == &other) return *this;
  const Subscription ended(std::move(state_));
  state_ = std::move(other.state_);
  return *this;
}

Subscription::~Subscription() {
  if (state_ == nullptr) return;
  state_->queue()->close();
  if (state_->on_end) state_->on_end();
}

}  // namespace zkclient
