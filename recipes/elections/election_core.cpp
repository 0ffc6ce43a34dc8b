#include "recipes/elections/election_core.hpp"
#include "recipes/kernel/acl_check.hpp"

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* operation = "campaign";
constexpr const char* resigning = "resign";
constexpr const char* waiting = "wait for leader";

// A leadership whose handler never runs, because an executor drops its tasks, is given up: so it travels as a Lease.
Awaitable<Result<Lease>> own_leadership(Awaitable<Result<LeasePtr>> contending) {
  Result<LeasePtr> won = co_await std::move(contending);
  if (!won) co_return won.error();
  co_return Lease(std::move(*won));
}

}  // namespace

ElectionCore::ElectionCore(zkclient::Client client, zkclient::Path path, std::string id, ElectionKind kind)
    : owner_(std::move(client)),
      path_(std::move(path)),
      id_(id.empty() ? process_name() : std::move(id)),
      kind_(std::move(kind)),
      place_(std::make_shared<const LeaderPlace>(kind_.place)) {}

// --- Campaigning --------------------------------------------------------------------------------------------------

std::stop_token ElectionCore::join() {
  if (owner_.impl()->loop()->forked())
    return {};  // The campaign is refused. The lock may be another thread's for ever.
  const std::lock_guard lock(mutex_);
  return campaigns_.get_token();
}

// A campaign that joined with `token` was won; throws if resign() was called meanwhile.
void ElectionCore::remember(const Lease& lease, const std::stop_token& joined) {
  const std::lock_guard lock(mutex_);
  if (joined != campaigns_.get_token()) {
    lease.impl()->drop();
    throw Error(Errc::cancelled, operation, path_.str(), "resigned");
  }
  std::erase_if(won_, [](const auto& weak) { return weak.expired(); });
  won_.push_back(lease.impl());
}

zk::Work<Lease> ElectionCore::campaign_work() const {
  return [contend = kind_.contend, id = id_](Call call) { return own_leadership(contend(id, std::move(call))); };
}

Lease ElectionCore::campaign(const CallOptions& call) {
  const std::stop_token joined = join();
  const CallOptions limits{.deadline = call.deadline, .stop = zkclient::AnyStop(call.stop, joined)};
  Lease lease = form(operation).endless().wait(limits, campaign_work());
  remember(lease, joined);
  return lease;
}

void ElectionCore::async_campaign(zkclient::Handler<Lease> handler, const CallOptions& call) {
  const std::stop_token joined = join();
  auto wrapped = [self = shared_from_this(), joined, handler = std::move(handler)](Result<Lease> result) mutable {
    try {
      if (result) self->remember(*result, joined);
    } catch (const Error& resigned) {
      handler(resigned);
      return;
    }
    handler(std::move(result));
  };
  const CallOptions limits{.deadline = call.deadline, .stop = zkclient::AnyStop(call.stop, joined)};
  form(operation).endless().start(limits, campaign_work(), std::move(wrapped));
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
    co_return Error(cancelled ? Errc::cancelled : Errc::deadline_exceeded, resigning, lease->node(),
                    "the node is being removed in the background");
  }
  co_return Result<void>();
}

zk::Work<void> removal_work(std::vector<LeasePtr> leases) {
  return [leases = std::move(leases)](Call limits) { return wait_until_removed(leases, std::move(limits)); };
}

}  // namespace

// From here on nothing is held. Those that are being given back already are waited for as well.
std::vector<LeasePtr> ElectionCore::give_up() {
  if (owner_.impl()->loop()->forked()) return {};
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
  std::erase_if(
      leases, [](const LeasePtr& lease) { return !lease->begin_release() && lease->state() != LeaseState::releasing; });
  return leases;
}

void ElectionCore::resign(const CallOptions& call) {
  const std::vector<LeasePtr> leases = give_up();
  if (leases.empty() && !owner_.impl()->loop()->forked()) return;
  form(resigning).wait(call, removal_work(leases));
}

void ElectionCore::async_resign(zkclient::Handler<void> handler, const CallOptions& call) {
  zk::require_handler(handler, resigning, path_.str());
  form(resigning).start(call, removal_work(give_up()), std::move(handler));
}

// --- The leader and the candidates --------------------------------------------------------------------------------

zk::Work<std::optional<Leader>> ElectionCore::leader_work() const {
  return [place = place_](Call limits) { return find_leader(place, std::move(limits)); };
}

zk::Work<std::vector<Contender>> ElectionCore::candidates_work() const {
  return [list = kind_.candidates](Call limits) { return list(std::move(limits)); };
}

std::optional<Leader> ElectionCore::leader(const CallOptions& call) const {
  return form("leader").wait(call, leader_work());
}
void ElectionCore::async_leader(zkclient::Handler<std::optional<Leader>> handler, const CallOptions& call) const {
  form("leader").start(call, leader_work(), std::move(handler));
}

std::vector<Contender> ElectionCore::candidates(const CallOptions& call) const {
  return form("candidates").wait(call, candidates_work());
}
void ElectionCore::async_candidates(zkclient::Handler<std::vector<Contender>> handler, const CallOptions& call) const {
  form("candidates").start(call, candidates_work(), std::move(handler));
}

// --- Waiting for another state -------------------------------------------------------------------------------------

zk::Work<Leader> ElectionCore::wait_work(const LeaderCondition& condition) const {
  return [place = place_, condition](Call limits) { return await_leader(place, condition, std::move(limits)); };
}

zk::Work<std::optional<Leader>> ElectionCore::change_work(const std::optional<Leader>& known) const {
  return [place = place_, known](Call limits) { return await_change(place, known, std::move(limits)); };
}

Leader ElectionCore::wait_for_leader(const LeaderCondition& condition, const CallOptions& call) const {
  return form(waiting).endless().wait(call, wait_work(condition));
}
void ElectionCore::async_wait_for_leader(const LeaderCondition& condition, zkclient::Handler<Leader> handler,
                                         const CallOptions& call) const {
  form(waiting).endless().start(call, wait_work(condition), std::move(handler));
}

std::optional<Leader> ElectionCore::wait_for_change(const std::optional<Leader>& known, const CallOptions& call) const {
  return form(waiting).endless().wait(call, change_work(known));
}
void ElectionCore::async_wait_for_change(const std::optional<Leader>& known,
                                         zkclient::Handler<std::optional<Leader>> handler,
                                         const CallOptions& call) const {
  form(waiting).endless().start(call, change_work(known), std::move(handler));
}

// --- Fair elections -----------------------------------------------------------------------------------------------

std::shared_ptr<ElectionCore> make_fair_election(zkclient::Client client, zkclient::Path path, std::string id,
                                                 Layout layout, zkclient::AclList acl, FairElection names) {
  require_acl("leader election", path, acl);
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
