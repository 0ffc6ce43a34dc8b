#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/prepared_call.hpp"
#include "recipes/replication/replica_decider.hpp"
#include "recipes/replication/replica_format.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::Reply;
using zk::Request;
using zkclient::any_version;
using zkclient::CallOptions;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;

namespace {

constexpr const char* forcing = "force primary";

struct ForcedGroup {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;   // As the user wrote it.
  std::string state;  // Full, as all that follow.
  std::string member;
  std::string primary;
  std::string id;

  Error error(Errc code, std::string_view detail) const { return Error(code, forcing, path, detail); }
};
using ForcedGroupPtr = std::shared_ptr<const ForcedGroup>;

// Made and removed in the same transaction: so nobody is the primary when the state is set.
Request setting(const ForcedGroup& group, const std::string& data, std::int32_t version) {
  const Path owner(zk::child_path(group.primary, "owner"));
  Request all = zk::make_request(OpType::multi, group.state);
  all.operations.emplace_back(zkclient::Check{Path(group.member)});
  all.operations.emplace_back(Transaction::Create{owner, "", CreateMode::ephemeral, zkclient::open_acl()});
  all.operations.emplace_back(Transaction::Remove{owner, any_version});
  all.operations.emplace_back(Transaction::Set{Path(group.state), data, version});
  return all;
}

Awaitable<Result<void>> force(ForcedGroupPtr group, Call call) {
  std::optional<ReplicaState> sent;
  for (;;) {
    Request get_state = zk::make_request(OpType::get, group->state);
    const Reply state_node = co_await zk::fresh(group->client, std::move(get_state), call);
    if (!state_node.ok()) co_return zk::to_error(state_node, forcing, group->path);
    detail::ReplicaDefect defect = detail::ReplicaDefect::none;
    const auto state = detail::decode_replica_state(state_node.data, &defect);
    if (!state) co_return group->error(Errc::foreign_node, to_string(defect));
    if (sent && state->forced == sent->forced && state->in_sync == sent->in_sync) co_return Result<void>();
    Request get_member = zk::make_request(OpType::get, group->member);
    const Reply member_node = co_await group->client->perform(std::move(get_member), call);
    if (!member_node.ok()) co_return zk::to_error(member_node, forcing, group->path);
    const auto member = detail::decode_replica_member(group->id, member_node.data);
    if (!member) co_return group->error(Errc::foreign_node, "the member's node is not what this recipe writes");

    ReplicaState next = detail::forced(*state, *member);
    Request all = setting(*group, detail::encode(next), state_node.stat.version);
    Reply reply = co_await group->client->perform(std::move(all), call);
    if (reply.ok()) co_return Result<void>();
    if (reply.refused(1, zk::rc::no_node)) {
      Reply made =
          co_await zk::ensure(group->client, group->primary, CreateMode::persistent, zkclient::open_acl(), call);
      if (!made.ok()) co_return zk::to_error(made, forcing, group->path);
      continue;
    }
    if (reply.unanswered()) {
      if (!sent) sent = std::move(next);
      continue;
    }
    if (reply.refused(3, zk::rc::bad_version)) continue;
    if (reply.refused(1, zk::rc::node_exists)) co_return group->error(Errc::node_exists, "there is a primary");
    if (reply.failed(Errc::transaction_failed)) reply.error = reply.cause();
    co_return zk::to_error(reply, forcing, group->path);
  }
}

detail::PreparedCall<void> forcing_call(const zkclient::Client& client, const Path& path, const std::string& id) {
  if (const char* defect = detail::replica_id_defect(id))
    throw Error(Errc::invalid_argument, forcing, path.str(), defect);
  const auto& core = client.impl();
  auto group = std::make_shared<const ForcedGroup>(ForcedGroup{core, path.str(), core->full(path / "state"),
                                                               core->full(path / "members" / id),
                                                               core->full(path / "primary"), id});
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
