#include "recipes/replication/member_witnesses.hpp"

#include <cstddef>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "recipes/replication/replica_format.hpp"

namespace zkrecipes::detail {

namespace {

constexpr std::size_t most_witnesses = 1'000;  // A group has far fewer members.

/// A UUID. Foreign nodes beside them have other names, so that nobody need look at them.
bool may_be_witness(const std::string& name) {
  constexpr std::size_t length = 36;
  return name.size() == length && name.find_first_not_of("0123456789abcdef-") == std::string::npos;
}

}  // namespace

Awaitable<Result<WitnessNames>> look_for_witnesses(std::shared_ptr<zk::ClientCore> client, std::string directory,
                                                   const char* operation, std::string shown, Call call) {
  WitnessNames witnesses;
  const Reply listed = co_await client->perform(zk::make_request(OpType::children, directory), call);
  if (listed.failed(Errc::no_node)) co_return witnesses;
  if (!listed.ok()) co_return zk::to_error(listed, operation, shown);
  std::vector<std::string> names = listed.names;
  std::erase_if(names, [](const std::string& name) { return !may_be_witness(name); });
  if (names.size() > most_witnesses)
    co_return Error(Errc::foreign_node, operation, shown, "members-presence has far more nodes than a group");
  std::vector<PendingReply> pending;
  for (const std::string& name : names)
    pending.push_back(client->launch(zk::make_request(OpType::exists, zk::child_path(directory, name)), call));
  for (std::size_t i = 0; i < names.size(); ++i) {
    const Reply seen = co_await pending[i].get();
    if (seen.failed(Errc::no_node)) continue;
    if (!seen.ok()) co_return zk::to_error(seen, operation, shown);
    witnesses.emplace(seen.stat.czxid, names[i]);
  }
  co_return witnesses;
}

// A member that has left may have erased its storage. One that is back with an empty disk has a node of the same version,
// but another witness.
Awaitable<Result<StandingMember>> find_standing_member(std::shared_ptr<zk::ClientCore> client, Path group,
                                                       std::string id, const char* operation, Call call) {
  const Path node = group / "members" / id;
  Request get = zk::make_request(OpType::get, client->full(node));
  const Reply seen = co_await zk::fresh(client, std::move(get), call);
  if (seen.failed(Errc::no_node))
    co_return Error(Errc::no_node, operation, group.str(), fmt::format("member {} is not there", id));
  if (!seen.ok()) co_return zk::to_error(seen, operation, group.str());
  auto member = decode_replica_member(id, seen.data);
  if (!member) co_return Error(Errc::foreign_node, operation, node.str(), "it is not what this recipe writes");
  const std::string directory = client->full(witnesses_of(group));
  const auto witnesses =
      co_await look_for_witnesses(client, directory, operation, witnesses_of(group).str(), std::move(call));
  if (!witnesses) co_return witnesses.error();
  const auto witness = witnesses->find(seen.stat.czxid);
  if (witness == witnesses->end())
    co_return Error(Errc::no_node, operation, group.str(), fmt::format("member {} comes or goes", id));
  co_return StandingMember{std::move(*member), zkclient::Check{Path(client->full(node)), seen.stat.version},
                           zkclient::Check{Path(zk::child_path(directory, witness->second))}};
}

}  // namespace zkrecipes::detail
