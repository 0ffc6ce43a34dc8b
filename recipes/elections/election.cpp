#include <zkrecipes/election.hpp>

#include "recipes/elections/election_core.hpp"

namespace zkrecipes {

using namespace words;

Election::Election(std::shared_ptr<detail::ElectionCore> core) noexcept : core_(std::move(core)) {}
Election::~Election() = default;
Election::Election(Election&&) noexcept = default;
Election& Election::operator=(Election&&) noexcept = default;

const std::string& Election::id() const noexcept { return core_->id(); }
const zkclient::Path& Election::path() const noexcept { return core_->path(); }

Leadership Election::campaign(const CallOptions& call) { return Leadership(core_->campaign(call)); }

void Election::async_campaign(zkclient::Handler<Leadership> handler, const CallOptions& call) {
  zk::require_handler(handler, "campaign", core_->path().str());
  auto wrapped = [handler = std::move(handler)](Result<Lease> result) mutable {
    if (result) {
      handler(Leadership(std::move(*result)));
    } else {
      handler(result.error());
    }
  };
  core_->async_campaign(std::move(wrapped), call);
}

void Election::resign(const CallOptions& call) { core_->resign(call); }
void Election::async_resign(zkclient::Handler<void> handler, const CallOptions& call) {
  core_->async_resign(std::move(handler), call);
}

std::optional<Leader> Election::leader(const CallOptions& call) const { return core_->leader(call); }
void Election::async_leader(zkclient::Handler<std::optional<Leader>> handler, const CallOptions& call) const {
  core_->async_leader(std::move(handler), call);
}

std::vector<Contender> Election::candidates(const CallOptions& call) const { return core_->candidates(call); }
void Election::async_candidates(zkclient::Handler<std::vector<Contender>> handler, const CallOptions& call) const {
  core_->async_candidates(std::move(handler), call);
}

Leader Election::wait_for_leader(const LeaderCondition& condition, const CallOptions& call) const {
  return core_->wait_for_leader(condition, call);
}
void Election::async_wait_for_leader(const LeaderCondition& condition, zkclient::Handler<Leader> handler,
                                     const CallOptions& call) const {
  core_->async_wait_for_leader(condition, std::move(handler), call);
}

std::optional<Leader> Election::wait_for_change(const std::optional<Leader>& known, const CallOptions& call) const {
  return core_->wait_for_change(known, call);
}
void Election::async_wait_for_change(const std::optional<Leader>& known,
                                     zkclient::Handler<std::optional<Leader>> handler, const CallOptions& call) const {
  core_->async_wait_for_change(known, std::move(handler), call);
}

zkclient::Subscription Election::observe(detail::LeaderListener listener) const {
  return detail::observe_leader(core_->place(), std::move(listener));
}

}  // namespace zkrecipes
