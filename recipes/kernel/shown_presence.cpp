#include "recipes/kernel/shown_presence.hpp"

#include <utility>

namespace zkrecipes {

const char* to_string(PresenceState state) noexcept {
  switch (state) {
    case PresenceState::joining: return "joining";
    case PresenceState::present: return "present";
    case PresenceState::absent: return "absent";
    case PresenceState::left: return "left";
  }
  return "unknown";
}

namespace detail {

PresenceState ShownPresence::state() const {
  if (forked()) return PresenceState::left;
  const std::lock_guard lock(mutex_);
  return state_;
}

FencingToken ShownPresence::token() const {
  if (forked()) return {};
  const std::lock_guard lock(mutex_);
  return incarnation_ == nullptr ? FencingToken() : incarnation_->token;
}

std::string ShownPresence::node() const {
  if (forked()) return "";
  const std::lock_guard lock(mutex_);
  return incarnation_ == nullptr ? "" : incarnation_->node;
}

std::stop_token ShownPresence::lost() const {
  if (forked()) return {};
  const std::lock_guard lock(mutex_);
  return incarnation_ == nullptr ? std::stop_token() : incarnation_->lost.get_token();
}

bool ShownPresence::valid() const {
  if (forked()) return false;
  const std::lock_guard lock(mutex_);
  if (state_ != PresenceState::present || incarnation_ == nullptr || incarnation_->over) return false;
  if (!lease_) return true;
  return incarnation_->keeper != nullptr && zkclient::BootClock::now() < incarnation_->session->valid_until();
}

bool ShownPresence::complete() const {
  const std::lock_guard lock(mutex_);
  return state_ == PresenceState::present && (!lease_ || incarnation_->keeper != nullptr);
}

std::optional<ShownPresence::Problem> ShownPresence::problem() const {
  if (forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return problem_;
}

zkclient::Subscription ShownPresence::on_state(const std::shared_ptr<zk::CallbackGroup>& executor,
                                               StateListener listener) {
  return listeners_->add(executor, StateBacklog<PresenceState>(std::move(listener)));
}

void ShownPresence::end_listeners() {
  listeners_->stop();
  if (!listeners_->runs_here()) listeners_->wait();
}

bool ShownPresence::show(PresenceState state) {
  {
    const std::lock_guard lock(mutex_);
    if (state_ == state) return false;
    state_ = state;
  }
  listeners_->tell(state);
  return true;
}

void ShownPresence::show_problem(Problem problem) {
  const std::lock_guard lock(mutex_);
  problem_ = std::move(problem);
}

void ShownPresence::clear_problem() {
  const std::lock_guard lock(mutex_);
  problem_.reset();
}

IncarnationPtr ShownPresence::incarnation() const {
  const std::lock_guard lock(mutex_);
  return incarnation_;
}

void ShownPresence::begin(IncarnationPtr incarnation) {
  const std::lock_guard lock(mutex_);
  incarnation_ = std::move(incarnation);
}

void ShownPresence::begin_lease(Incarnation& incarnation, std::shared_ptr<zk::LeaseKeeper> keeper,
                                zk::LeaseKeeper::HoldId hold) {
  const std::lock_guard lock(mutex_);
  incarnation.keeper = std::move(keeper);
  incarnation.hold = hold;
}

}  // namespace detail
}  // namespace zkrecipes
