#include <algorithm>
#include <cstdint>
#include <iterator>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include "recipes/kernel/prepared_call.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/replication/member_witnesses.hpp"
#include "recipes/replication/replica_decider.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes {

using namespace words;

namespace {

constexpr const char* forcing = "force primary";

struct ForcedGroup {
  std::shared_ptr<zk::ClientCore> client;
  Path path;          // As the user wrote it.
  std::string state;  // Full, as the owner's.
  std::string owner;
  std::string id;

  Error error(Errc code, std::string_view detail) const { return Error(code, forcing, path.str(), detail); }
  Error error(const Reply& reply) const { return zk::to_error(reply, forcing, path.str()); }
};
using ForcedGroupPtr = std::shared_ptr<const ForcedGroup>;

// Refused at 0 or 1: the member is gone, or has reported another version; or it was gone, and is back.
Request setting_forced(const ForcedGroup& group, const detail::StandingMember& member, const std::string& data,
                       std::int32_t version) {
  Request all = zk::make_request(OpType::multi, group.state);
  all.operations = {member.node, member.witness};
  std::ranges::move(detail::setting_state(Path(group.state), data, version), std::back_inserter(all.operations));
  return all;
}

// After a lost reply behind a transaction: the state behind a sync could be one from before, although the member that was
// forced is the primary already.
zk::Awaitable<Reply> read_state(const ForcedGroup& group, bool doubted, Call call) {
  Request get = zk::make_request(OpType::get, group.state);
  return doubted ? zk::fresh_by_quorum(group.client, std::move(get), std::move(call))
                 : zk::fresh(group.client, std::move(get), std::move(call));
}

// Who takes over changes the version of the state. So if nobody was the primary after that was read, nobody is when it
// is set.
Awaitable<Result<void>> force(ForcedGroupPtr group, Call call) {
  std::vector<std::int64_t> sent;  // Of the states whose replies were lost: `forced`, an epoch.
  for (;;) {
    const Reply state_node = co_await read_state(*group, !sent.empty(), call);
    if (!state_node.ok()) co_return group->error(state_node);
    detail::ReplicaDefect defect = detail::ReplicaDefect::none;
    const auto state = detail::read_replica_state(state_node.data, state_node.stat.version, defect);
    if (!state) co_return group->error(Errc::foreign_node, to_string(defect));
    if (std::ranges::find(sent, state->forced) != sent.end()) {
      // The member may have gone on by now.
      if (state->find(group->id) != nullptr) co_return Result<void>();
      co_return group->error(Errc::in_doubt, "it may have been forced, and taken out since, or another one was forced");
    }
    Request look = zk::make_request(OpType::exists, group->owner);
    const Reply owner = co_await group->client->perform(std::move(look), call);
    if (owner.ok()) co_return group->error(Errc::node_exists, "there is a primary");
    if (!owner.failed(Errc::no_node)) co_return group->error(owner);
    const auto found = co_await detail::find_standing_member(group->client, group->path, group->id, forcing, call);
    if (!found) co_return found.error();

    const ReplicaState next = detail::forced(*state, found->member);
    Request all = setting_forced(*group, *found, detail::encode(next), state_node.stat.version);
    Reply reply = co_await group->client->perform(std::move(all), call);
    if (reply.ok()) co_return Result<void>();
    if (reply.unanswered()) {
      sent.push_back(next.forced);
      continue;
    }
    const bool member_changed =
        reply.refused(0, zk::rc::bad_version) || reply.refused(0, zk::rc::no_node) || reply.refused(1, zk::rc::no_node);
    if (member_changed || reply.refused(2, zk::rc::bad_version)) continue;
    if (reply.failed(Errc::transaction_failed)) reply.error = reply.cause();
    co_return group->error(reply);
  }
}

detail::PreparedCall<void> forcing_call(const zkclient::Client& client, const Path& path, const std::string& id) {
  if (const char* defect = detail::replica_id_defect(id))
    throw Error(Errc::invalid_argument, forcing, path.str(), defect);
  const auto& core = client.impl();
  auto group = std::make_shared<const ForcedGroup>(
      ForcedGroup{core, path, core->full(path / "state"), core->full(path / "primary" / "owner"), id});
  return {zk::CallForm(core, forcing, path.str()),
          [group = std::move(group)](Call call) { return force(group, std::move(call)); }};
}

}  // namespace

void force_primary(const zkclient::Client& client, const Path& path, const std::string& id, const CallOptions& call) {
  forcing_call(client, path, id).wait(call);
}
void async_force_primary(const zkclient::Client& client, const Path& path, const std::string& id,
                         zkclient::Handler<void> handler, const CallOptions& call) {
  forcing_call(client, path, id).start(std::move(handler), call);
}

}  // namespace zkrecipes
