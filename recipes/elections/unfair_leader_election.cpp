#include <zkrecipes/unfair_leader_election.hpp>

#include "recipes/elections/election_core.hpp"
#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/single_node.hpp"

namespace zkrecipes {

using namespace words;
using detail::LeasePtr;

namespace {

zk::Awaitable<Result<std::vector<Contender>>> list_candidates(detail::SingleNodeSpecPtr spec, zk::Call call) {
  std::string operation = "candidates";
  auto reading = detail::read_holder(std::move(spec), std::move(operation), std::move(call));
  Result<std::optional<Contender>> holder = co_await std::move(reading);
  if (!holder) co_return holder.error();
  std::vector<Contender> candidates;
  if (*holder) candidates.push_back(std::move(**holder));
  co_return candidates;
}

std::shared_ptr<detail::ElectionCore> make_core(zkclient::Client client, zkclient::Path path,
                                                UnfairLeaderElectionOptions options) {
  detail::require_acl("unfair leader election", path, options.acl);
  detail::SingleNodeSpec spec;
  spec.client = client.impl();
  spec.path = path.str();
  spec.directory = spec.client->full(path);
  spec.name = "leader";
  spec.acl = std::move(options.acl);
  spec.operation = "campaign";
  spec.requeue_on_session_loss = true;
  spec.watch_at_once = true;
  const auto shared = std::make_shared<const detail::SingleNodeSpec>(std::move(spec));

  detail::ElectionKind kind;
  kind.contend = [shared](std::string id, zk::Call call) {
    return detail::contend_for_node(shared, std::move(id), detail::Patience::wait, std::move(call));
  };
  kind.candidates = [shared](zk::Call call) { return list_candidates(shared, std::move(call)); };
  kind.place = {shared->client, shared->path, shared->directory, {}, shared->name};
  return std::make_shared<detail::ElectionCore>(std::move(client), std::move(path), std::move(options.id),
                                                std::move(kind));
}

}  // namespace

UnfairLeaderElection::UnfairLeaderElection(zkclient::Client client, zkclient::Path path,
                                           UnfairLeaderElectionOptions options)
    : Election(make_core(std::move(client), std::move(path), std::move(options))) {}

}  // namespace zkrecipes
