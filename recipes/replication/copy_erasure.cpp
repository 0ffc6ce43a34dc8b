#include "recipes/replication/copy_erasure.hpp"

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <string_view>
#include <utility>
#include <vector>

#include "recipes/kernel/growing_pause.hpp"
#include "recipes/replication/placement_format.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* erasing = "hosted replicas erase";
// A primary takes out who has left as soon as it sees that. Without a primary it may take for ever.
constexpr auto first_erasure_pause = std::chrono::milliseconds(100);
constexpr auto longest_erasure_pause = std::chrono::seconds(5);

HostIds ids_in(const ReplicaState& state) {
  HostIds ids;
  for (const InSyncReplica& replica : state.in_sync)
    ids.push_back(replica.id);
  return ids;
}

/// What a look has found.
struct ErasureLook {
  ErasureFacts facts = {};
  std::optional<Error> problem = {};  ///< Why it cannot be said.
};

Error unknown(Errc code, const Path& node, std::string_view why) { return {code, erasing, node.str(), why}; }

/// Which of the hosts that are wanted are members with the storage that the state names. All at once, on the session that
/// has read the state: it sees nothing older. The reply is the last one.
Awaitable<Reply> look_at_wanted(ClosedCopyPtr copy, std::shared_ptr<ErasureLook> look, ReplicaState state, Call call) {
  ErasureFacts& facts = look->facts;
  std::vector<PendingReply> pending;
  for (const std::string& id : facts.node->wanted)
    pending.push_back(copy->client->launch(zk::make_request(OpType::get, zk::child_path(copy->members, id)), call));
  Reply reply;
  for (std::size_t i = 0; i < pending.size(); ++i) {
    reply = co_await pending[i].get();
    if (!zk::is_there_or_not(reply)) {
      const bool looks_again = reply.failed(Errc::session_lost);
      if (!looks_again) look->problem = zk::to_error(reply, erasing, copy->group.str());
      co_return reply;
    }
    const std::string& id = facts.node->wanted[i];
    const auto member = reply.ok() ? decode_replica_member(id, reply.data) : std::nullopt;
    if (member && member->storage == state.find(id)->storage) facts.ready.push_back(id);
  }
  co_return reply;
}

/// One read behind the other: the state has to be younger than the look at the member. What was not read forbids to erase.
/// The reply is the last one.
Awaitable<Reply> look_at_facts(ClosedCopyPtr copy, std::shared_ptr<ErasureLook> look, Call call) {
  const auto can_say = [&](const Reply& reply) {
    if (!zk::is_there_or_not(reply)) look->problem = zk::to_error(reply, erasing, copy->group.str());
    return !look->problem;
  };
  ErasureFacts& facts = look->facts;
  Reply reply = co_await zk::fresh_by_quorum(
      copy->client, zk::make_request(OpType::exists, zk::child_path(copy->members, copy->host)), call);
  if (!can_say(reply) || reply.ok()) co_return reply;
  facts.member = false;
  reply = co_await zk::fresh_by_quorum(copy->client, zk::make_request(OpType::get, copy->placement), call);
  if (!can_say(reply)) co_return reply;
  if (reply.ok()) facts.node = decode_placement(reply.data);
  if (!facts.node) {
    look->problem = reply.ok() ? unknown(Errc::foreign_node, copy->placement_node, "it is no placement")
                               : unknown(Errc::no_node, copy->placement_node, "the placement was removed");
    co_return reply;
  }
  if (std::binary_search(facts.node->assigned.begin(), facts.node->assigned.end(), copy->host)) co_return reply;
  reply = co_await zk::fresh_by_quorum(copy->client, zk::make_request(OpType::get, copy->state), call);
  if (!can_say(reply)) co_return reply;
  ReplicaDefect defect = ReplicaDefect::none;
  if (reply.ok()) {
    const auto state = read_replica_state(reply.data, reply.stat.version, defect);
    if (state) {
      copy->allowed_at = BootClock::now();
      facts.in_sync = ids_in(*state);
      const HostIds& wanted = facts.node->wanted;
      if (!std::includes(facts.in_sync->begin(), facts.in_sync->end(), wanted.begin(), wanted.end())) co_return reply;
      call.bound = reply.session;
      co_return co_await look_at_wanted(copy, look, *state, std::move(call));
    }
  }
  const Path node = copy->group / "state";
  look->problem = defect == ReplicaDefect::none ? unknown(Errc::no_node, node, "the group has no state")
                                                : unknown(Errc::foreign_node, node, "it is no state of a group");
  co_return reply;
}

/// A session that ends wakes it: so does a client that is closed. Without a session it waits, too.
Awaitable<void> pause_before_next_look(ClosedCopyPtr copy, std::chrono::milliseconds pause) {
  zk::Signal woken(copy->client->events());
  const zk::SessionEnd ended(copy->client->current(), woken);
  co_await woken.wait(std::chrono::steady_clock::now() + pause);
}

}  // namespace

ClosedCopy::ClosedCopy(std::shared_ptr<zk::ClientCore> core, const Path& placements, std::string name,
                       std::string host_id)
    : client(std::move(core)),
      partition(std::move(name)),
      host(std::move(host_id)),
      group(placements / "groups" / partition),
      placement_node(placements / "placement" / partition),
      members(client->full(group / "members")),
      state(client->full(group / "state")),
      placement(client->full(placement_node)),
      pauses(first_erasure_pause, longest_erasure_pause) {}

Awaitable<Result<void>> until_erasable(ClosedCopyPtr copy, Call call) {
  if (copy->rests.exchange(false)) co_await pause_before_next_look(copy, copy->pauses.next());
  for (;;) {
    const auto look = std::make_shared<ErasureLook>();
    const Reply reply = co_await look_at_facts(copy, look, call);
    {
      const std::lock_guard lock(copy->mutex);
      copy->problem = look->problem;
    }
    if (copy->kept) co_return Error(Errc::cancelled, erasing, copy->group.str());
    if (may_erase(copy->host, look->facts)) co_return Result<void>();
    if (reply.failed(Errc::closed) || copy->client->closing())
      co_return Error(Errc::closed, erasing, copy->group.str());
    co_await pause_before_next_look(copy, copy->pauses.next());
  }
}

}  // namespace zkrecipes::detail
