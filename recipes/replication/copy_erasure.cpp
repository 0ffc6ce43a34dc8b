#include "recipes/replication/copy_erasure.hpp"

#include <chrono>
#include <utility>

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

/// One read behind the other: the state has to be younger than the look at the member. What was not read forbids to erase.
/// The reply is the last one.
Awaitable<Reply> read_facts(ClosedCopyPtr copy, std::shared_ptr<ErasureFacts> facts, Call call) {
  Reply reply = co_await zk::fresh_by_quorum(copy->client, zk::make_request(OpType::exists, copy->member), call);
  if (!reply.failed(Errc::no_node)) co_return reply;
  facts->member = false;
  reply = co_await zk::fresh_by_quorum(copy->client, zk::make_request(OpType::get, copy->placement), call);
  if (reply.ok()) facts->node = decode_placement(reply.data);
  if (!facts->node) co_return reply;
  reply = co_await zk::fresh_by_quorum(copy->client, zk::make_request(OpType::get, copy->state), call);
  if (!reply.ok()) co_return reply;
  ReplicaDefect defect = ReplicaDefect::none;
  if (const auto state = read_replica_state(reply.data, reply.stat.version, defect)) facts->in_sync = ids_in(*state);
  co_return reply;
}

/// A session that ends wakes it: so does a client that is closed. Without a session it waits, too.
Awaitable<void> pause_before_next_look(ClosedCopyPtr copy, std::chrono::milliseconds pause) {
  zk::Signal woken(copy->client->events());
  const zk::SessionEnd ended(copy->client->current(), woken);
  co_await woken.wait(std::chrono::steady_clock::now() + pause);
}

void note_problem(ClosedCopy& copy, const Reply& reply) {
  const bool told = zk::is_there_or_not(reply);
  const std::lock_guard lock(copy.mutex);
  copy.problem = told ? std::nullopt : std::optional(zk::to_error(reply, erasing, copy.group));
}

}  // namespace

ClosedCopy::ClosedCopy(std::shared_ptr<zk::ClientCore> core, const Path& placements, std::string name,
                       std::string host_id)
    : client(std::move(core)),
      partition(std::move(name)),
      host(std::move(host_id)),
      group((placements / "groups" / partition).str()),
      member(client->full(Path(group) / "members" / host)),
      state(client->full(Path(group) / "state")),
      placement(client->full(placements / "placement" / partition)) {}

Awaitable<Result<void>> until_erasable(ClosedCopyPtr copy, Call call) {
  GrowingPause pauses(first_erasure_pause, longest_erasure_pause);
  for (;;) {
    const auto facts = std::make_shared<ErasureFacts>();
    const Reply reply = co_await read_facts(copy, facts, call);
    note_problem(*copy, reply);
    if (may_erase(copy->host, *facts)) co_return Result<void>();
    if (copy->kept) co_return Error(Errc::cancelled, erasing, copy->group);
    if (reply.failed(Errc::closed) || copy->client->closing()) co_return Error(Errc::closed, erasing, copy->group);
    co_await pause_before_next_look(copy, pauses.next());
  }
}

}  // namespace zkrecipes::detail
