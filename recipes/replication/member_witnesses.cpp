#include "recipes/replication/member_witnesses.hpp"

#include <cstddef>
#include <utility>
#include <vector>

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

}  // namespace zkrecipes::detail
