#include "recipes/elections/election_core.hpp"

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

constexpr const char* operation = "campaign";

}  // namespace

ElectionCore::ElectionCore(zkclient::Client client, zkclient::Path path, std::string id, ElectionKind kind)
    : owner_(std::move(client)),
      path_(std::move(path)),
      id_(id.empty() ? process_name() : std::move(id)),
      kind_(std::move(kind)),
      place_(std::make_shared<const LeaderPlace>(kind_.place)) {}

// --- Campaigning --------------------------------------------------------------------------------------------------

std::stop_token ElectionCore::join() {
  const std::lock_guard lock(mutex_);
  return campaigns_.get_token();
}

// A campaign that joined with `token` was won; throws if resign() was called meanwhile.
void ElectionCore::remember(const LeasePtr& lease, const std::stop_token& joined) {
  const std::lock_guard lock(mutex_);
  if (joined != campaigns_.get_token()) {
    lease->drop();
    throw Error(Errc::cancelled, operation, path_.str(), "resigned");
  }
  std::erase_if(won_, [](const auto& weak) { return weak.expired(); });
  won_.push_back(lease);
}

zk::Work<LeasePtr> ElectionCore::campaign_work(bool has_deadline) const {
  return [contend = kind_.contend, id = id_, has_deadline](Call call) {
    if (!has_deadline) call.deadline.reset();  // The default is meant for single operations.
    return contend(id, std::move(call));
  };
}

LeasePtr ElectionCore::campaign(const CallOptions& call) {
  const std::stop_token joined = join();
  const CallOptions limits{.deadline = call.deadline, .stop = zkclient::AnyStop(call.stop, joined)};
  LeasePtr lease =
      zk::wait_for_work<LeasePtr>(client(), limits, campaign_work(call.deadline.has_value()), operation, path_.str())
          .value();
  remember(lease, joined);
  return lease;
}

void ElectionCore::async_campaign(zkclient::Handler<LeasePtr> handler, const CallOptions& call) {
  const std::stop_token joined = join();
  auto wrapped = [self = shared_from_this(), joined, handler = std::move(handler)](Result<LeasePtr> result) mutable {
    try {
      if (result) self->remember(*result, joined);
    } catch (const Error& resigned) {
      handler(resigned);
      return;
    }
    handler(std::move(result));
  };
  const CallOptions limits{.deadline = call.deadline, .stop = zkclient::AnyStop(call.stop, joined)};
  zk::start_work<LeasePtr>(client(), limits, campaign_work(call.deadline.has_value()), std::move(wrapped), operation,
                           path_.str());
}

// --- Resigning ----------------------------------------------------------------------------------------------------

namespace {

Awaitable<Result<void>> wait_until_removed(std::vector<LeasePtr> leases, Call call) {
  for (const LeasePtr& lease : leases)
    lease->remove_node();
  for (const LeasePtr& lease : leases) {
    co_await lease->removed(call);
    if (lease->node_gone()) continue;
    const bool cancelled = call.cancel != nullptr && call.cancel->requested();
    co_return Error(cancelled ? Errc::cancelled : Errc::deadline_exceeded, "resign", lease->node(),
                    "the node is being removed in the background");
  }
  co_return Result<void>();
}

}  // namespace

void ElectionCore::resign(const CallOptions& call) {
  std::vector<LeasePtr> leases;
  std::stop_source ended;
  {
    const std::lock_guard lock(mutex_);
    for (const auto& weak : won_) {
      if (LeasePtr lease = weak.lock()) leases.push_back(std::move(lease));
    }
    std::swap(ended, campaigns_);  // The next campaign gets a fresh one.
  }
  ended.request_stop();
  // From here on nothing is held. Those that are being given back already are waited for as well.
  std::erase_if(
      leases, [](const LeasePtr& lease) { return !lease->begin_release() && lease->state() != LeaseState::releasing; });
  if (leases.empty()) return;
  zk::Work<void> work = [leases](Call limits) { return wait_until_removed(leases, std::move(limits)); };
  zk::wait_for_work<void>(client(), call, std::move(work), "resign", path_.str()).value();
}

// --- Who leads, who waits -----------------------------------------------------------------------------------------

std::optional<Leader> ElectionCore::leader(const CallOptions& call) const {
  zk::Work<std::optional<Leader>> work = [place = place_](Call limits) {
    return find_leader(place, std::move(limits));
  };
  return zk::wait_for_work<std::optional<Leader>>(client(), call, std::move(work), "leader", path_.str()).value();
}

std::vector<Contender> ElectionCore::candidates(const CallOptions& call) const {
  zk::Work<std::vector<Contender>> work = [list = kind_.candidates](Call limits) { return list(std::move(limits)); };
  return zk::wait_for_work<std::vector<Contender>>(client(), call, std::move(work), "candidates", path_.str()).value();
}

// --- Fair elections -----------------------------------------------------------------------------------------------

std::shared_ptr<ElectionCore> make_fair_election(zkclient::Client client, zkclient::Path path, std::string id,
                                                 Layout layout, zkclient::AclList acl, FairElection names) {
  if (acl.empty()) throw Error(Errc::invalid_acl, "leader election", path.str(), "the list is empty");
  ContendSpec spec;
  spec.client = client.impl();
  spec.path = path.str();
  spec.directory = spec.client->full(path);
  spec.layout = layout;
  spec.kind = names.kind;
  spec.names.exclusive = names.infixes;
  spec.acl = std::move(acl);
  spec.operation = operation;
  spec.requeue_on_session_loss = true;
  spec.watch_at_once = true;
  spec.trusts_list = {};
  const auto shared = std::make_shared<const ContendSpec>(std::move(spec));

  ElectionKind kind;
  kind.contend = [shared](std::string data, Call call) {
    return contend(shared, std::move(data), Patience::wait, std::move(call));
  };
  kind.candidates = [shared](Call call) { return list_contenders(shared, "candidates", std::move(call)); };
  kind.place = {shared->client, shared->path, shared->directory, shared->names.exclusive, {}};
  return std::make_shared<ElectionCore>(std::move(client), std::move(path), std::move(id), std::move(kind));
}

}  // namespace zkrecipes::detail
