#include <zkrecipes/claim.hpp>

#include "recipes/detail/claim_state.hpp"
#include "zkclient/detail/calls.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::ClaimState;
using detail::QueueCore;
using detail::Taken;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;

namespace {

constexpr const char* committing = "queue commit";
constexpr const char* returning = "queue give_back";

zk::Work<void> commit_work(const ClaimState& state) {
  return [core = state.core(), taken = state.taken()](zk::Call call) { return core->commit(taken, std::move(call)); };
}

zk::Work<void> return_work(const ClaimState& state) {
  return [core = state.core(), taken = state.taken()](zk::Call call) {
    return core->give_back(taken, true, std::move(call));
  };
}

const ClaimState& require(const std::unique_ptr<ClaimState>& state, const char* operation) {
  if (state == nullptr) throw Error(Errc::not_held, operation, "", "the claim is empty");
  return *state;
}

void drop(std::unique_ptr<ClaimState> state) noexcept {
  if (state == nullptr) return;
  try {
    const auto client = state->client();
    // The last owner of what is attached to the loop has to be there.
    client->loop()->post([owned = std::move(state)] {
      const auto& core = owned->core();
      Taken taken = owned->taken();
      *taken.abandoned = true;
      const LeaseState now = taken.lease->state();
      if (now != LeaseState::held && now != LeaseState::uncertain) return;  // Over already.
      zk::spawn(QueueCore::give_back_abandoned(core, std::move(taken)));
    });
  } catch (...) {
    // Out of memory: it goes back when its session ends.
  }
}

}  // namespace

Claim::Claim() noexcept = default;
Claim::Claim(std::unique_ptr<ClaimState> state) noexcept : state_(std::move(state)) {}
Claim::Claim(Claim&&) noexcept = default;
Claim& Claim::operator=(Claim&& other) noexcept {
  if (this != &other) {
    drop(std::move(state_));
    state_ = std::move(other.state_);
  }
  return *this;
}
Claim::~Claim() { drop(std::move(state_)); }

const std::string& Claim::data() const noexcept {
  static const std::string none;
  return state_ != nullptr ? state_->taken().items.front() : none;
}
const std::vector<std::string>& Claim::items() const noexcept {
  static const std::vector<std::string> none;
  return state_ != nullptr ? state_->taken().items : none;
}
const std::string& Claim::node() const noexcept {
  static const std::string none;
  return state_ != nullptr ? state_->taken().key.name : none;
}
std::int32_t Claim::priority() const noexcept { return state_ != nullptr ? state_->taken().key.priority : 0; }
int Claim::deliveries() const noexcept { return state_ != nullptr ? state_->taken().version : 0; }

bool Claim::valid() const noexcept {
  if (state_ == nullptr) return false;
  const LeaseState now = state_->taken().lease->state();
  return now == LeaseState::held || now == LeaseState::uncertain;
}
std::stop_token Claim::lost() const noexcept {
  return state_ != nullptr ? state_->taken().lease->lost() : std::stop_token();
}

void Claim::commit(const CallOptions& call) {
  const ClaimState& state = require(state_, committing);
  zk::wait_for_work<void>(state.client(), call, commit_work(state), committing, state.core()->spec().path).value();
}
void Claim::async_commit(zkclient::Handler<void> handler, const CallOptions& call) {
  const ClaimState& state = require(state_, committing);
  zk::start_work<void>(state.client(), call, commit_work(state), std::move(handler), committing,
                       state.core()->spec().path);
}

void Claim::give_back(const CallOptions& call) {
  const ClaimState& state = require(state_, returning);
  zk::wait_for_work<void>(state.client(), call, return_work(state), returning, state.core()->spec().path).value();
}
void Claim::async_give_back(zkclient::Handler<void> handler, const CallOptions& call) {
  const ClaimState& state = require(state_, returning);
  zk::start_work<void>(state.client(), call, return_work(state), std::move(handler), returning,
                       state.core()->spec().path);
}

}  // namespace zkrecipes
