#include <zkrecipes/claim.hpp>

#include <algorithm>

#include "recipes/kernel/words.hpp"
#include "recipes/queues/claim_state.hpp"

namespace zkrecipes {

using namespace words;
using detail::ClaimState;
using detail::ItemClaims;
using detail::Taken;

namespace {

constexpr const char* committing = "queue commit";
constexpr const char* returning = "queue give_back";
constexpr const char* rejecting = "queue reject";
constexpr std::size_t longest_reason = 4096;

zk::Work<void> commit_work(const ClaimState& state) {
  return [core = state.core(), taken = state.taken()](zk::Call call) {
    return core->claims()->commit(taken, std::move(call));
  };
}

zk::Work<void> return_work(const ClaimState& state) {
  return [core = state.core(), taken = state.taken()](zk::Call call) {
    return core->claims()->give_back(taken, true, std::move(call));
  };
}

zk::Work<void> reject_work(const ClaimState& state, std::string_view reason) {
  if (reason.size() > longest_reason) {
    throw Error(Errc::invalid_argument, rejecting, state.core()->spec().path, "the reason is longer than 4 KiB");
  }
  Taken rejected = state.taken();
  rejected.rejection = std::string(reason);
  return [core = state.core(), taken = std::move(rejected)](zk::Call call) {
    return core->claims()->give_back(taken, true, std::move(call));
  };
}

zk::CallForm form_of(const ClaimState& state, const char* operation) {
  return zk::CallForm(state.client(), operation, state.core()->spec().path);
}

bool is_ours(const Taken& taken) {
  const LeaseState now = taken.lease->state();
  return now == LeaseState::held || now == LeaseState::uncertain;
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
      if (!is_ours(taken)) return;  // Over already.
      zk::spawn(ItemClaims::give_back_abandoned(core->claims(), std::move(taken)));
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
const std::string& Claim::reason() const noexcept {
  static const std::string none;
  return state_ != nullptr ? state_->taken().reason : none;
}
std::int32_t Claim::priority() const noexcept { return state_ != nullptr ? state_->taken().key.priority : 0; }
std::string Claim::id() const { return std::string(state_ != nullptr ? state_->id() : ""); }
int Claim::deliveries() const noexcept { return state_ != nullptr ? state_->taken().version : 0; }

bool Claim::valid() const noexcept { return state_ != nullptr && is_ours(state_->taken()); }
zkclient::BootClock::time_point Claim::valid_until() const noexcept {
  return valid() ? state_->taken().lease->session()->valid_until() : zkclient::BootClock::time_point::min();
}
std::stop_token Claim::lost() const noexcept {
  return state_ != nullptr ? state_->taken().lease->lost() : std::stop_token();
}
std::optional<zkclient::Session> Claim::session() const {
  if (state_ == nullptr) return std::nullopt;
  return zkclient::Session(state_->taken().lease->session());
}

void Claim::commit(const CallOptions& call) {
  const ClaimState& state = require(state_, committing);
  form_of(state, committing).wait(call, commit_work(state));
}
void Claim::async_commit(zkclient::Handler<void> handler, const CallOptions& call) {
  const ClaimState& state = require(state_, committing);
  form_of(state, committing).start(call, commit_work(state), std::move(handler));
}

void Claim::give_back(const CallOptions& call) {
  const ClaimState& state = require(state_, returning);
  form_of(state, returning).wait(call, return_work(state));
}
void Claim::async_give_back(zkclient::Handler<void> handler, const CallOptions& call) {
  const ClaimState& state = require(state_, returning);
  form_of(state, returning).start(call, return_work(state), std::move(handler));
}

void Claim::give_back_after(Timeout delay) {
  const ClaimState& state = require(state_, returning);
  if (!is_ours(state.taken())) {
    throw Error(Errc::not_held, returning, state.core()->spec().path, "the claim was lost, or ended before");
  }
  constexpr std::chrono::nanoseconds longest = std::chrono::hours(24 * 365);
  const auto pause = std::chrono::ceil<std::chrono::milliseconds>(std::min(delay.get(), longest));
  const auto client = state.client();
  client->loop()->post([owned = std::move(state_), pause] {
    zk::spawn(ItemClaims::give_back_later(owned->core()->claims(), owned->taken(), pause));
  });
}

void Claim::reject(std::string_view reason, const CallOptions& call) {
  const ClaimState& state = require(state_, rejecting);
  form_of(state, rejecting).wait(call, reject_work(state, reason));
}
void Claim::async_reject(std::string_view reason, zkclient::Handler<void> handler, const CallOptions& call) {
  const ClaimState& state = require(state_, rejecting);
  form_of(state, rejecting).start(call, reject_work(state, reason), std::move(handler));
}

}  // namespace zkrecipes
