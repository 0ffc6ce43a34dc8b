#include <zkrecipes/revoke.hpp>

#include <algorithm>
#include <cstdint>

#include "recipes/kernel/held_nodes.hpp"
#include "recipes/kernel/revocation.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/kernel/timed.hpp"
#include "recipes/kernel/wait_order.hpp"
#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::Waiter;

const char* to_string(RevokeOutcome outcome) noexcept {
  switch (outcome) {
    case RevokeOutcome::requested: return "requested";
    case RevokeOutcome::released: return "released";
    case RevokeOutcome::broken: return "broken";
  }
  return "unknown";
}

namespace {

constexpr const char* revoking = "revoke";
using ClientPtr = std::shared_ptr<zk::ClientCore>;
using TimePoint = std::chrono::steady_clock::time_point;

// All that can hold, by their names.
const detail::ContenderNames& known_names() {
  static const detail::ContenderNames names = {{"lock-", "__lock__", "__WRIT__", "latch-"},
                                               {"__READ__", "__rlock__", "lease-"}};
  return names;
}

// The name of the recipes' single nodes (see detail/single_node.hpp).
constexpr std::string_view single_name = "lock";

struct Target {
  std::string node;          ///< Full path of the node that the holder watches.
  std::string holding = {};  ///< Of a single node: full path of the one whose name is this holding's alone.
};

// Writes do what they do however often they are done: a lost reply is resolved by doing it again.
Awaitable<Reply> insist(ClientPtr client, Request request, Call call) {
  Reply reply;
  do {
    Request again = request;
    reply = co_await client->perform(std::move(again), call);
    if (!reply.ok()) reply.error = reply.cause();
  } while (reply.unanswered());
  if (reply.failed(Errc::in_doubt)) reply.error = reply.given_up;
  co_return reply;
}

Awaitable<Reply> request_revocation(ClientPtr client, Target target, Call call) {
  Request request = zk::make_request(OpType::set, target.node);
  request.data = detail::curator_revocation;
  if (!target.holding.empty()) {  // Not the next holder of a node that all want.
    request = zk::make_request(OpType::multi, target.node);
    request.operations.emplace_back(zkclient::Check{zkclient::Path(target.holding)});
    request.operations.emplace_back(zkclient::Transaction::Set{
        zkclient::Path(target.node), std::string(detail::curator_revocation), zkclient::any_version});
  }
  Reply reply = co_await insist(std::move(client), std::move(request), std::move(call));
  co_return reply;
}

// Whether a node is there decides who is said to hold. The server that answers may lag behind the one that has taken the
// holder's node: so a majority has to agree first.
Awaitable<Reply> look_at(ClientPtr client, std::string path, Call call) {
  Request look = zk::make_request(OpType::exists, std::move(path));
  return zk::fresh_by_quorum(std::move(client), std::move(look), std::move(call));
}

// The session that waits may not be the one that has asked, and its server may lag behind: it has never heard of the node.
Awaitable<Reply> wait_until_gone(ClientPtr client, Waiter& waiter, std::string node, Call call) {
  for (;;) {
    Reply gone = co_await waiter.wait_until_gone(node, "held by");
    if (!gone.ok()) co_return gone;
    Reply seen = co_await look_at(client, node, call);
    if (seen.failed(Errc::no_node)) co_return gone;
    if (!seen.ok()) co_return seen;
  }
}

// Waits until `grace_end`, and then deletes the node, unless another holder has it by then.
Awaitable<Result<RevokeOutcome>> break_after_grace(ClientPtr client, Target target, TimePoint grace_end, Call call) {
  Call grace = call;
  grace.deadline = call.deadline ? std::min(*call.deadline, grace_end) : grace_end;
  const auto waiter = std::make_unique<Waiter>(client, grace);
  const std::string watched = target.holding.empty() ? target.node : target.holding;
  Reply gone = co_await waiter->enter();
  if (gone.ok()) gone = co_await wait_until_gone(client, *waiter, watched, grace);
  if (gone.ok()) co_return RevokeOutcome::released;
  const bool grace_is_over = std::chrono::steady_clock::now() >= grace_end;
  if (!grace_is_over || !gone.failed(Errc::deadline_exceeded)) {
    co_return zk::to_error(gone, revoking, client->stripped(target.node));
  }
  const detail::HeldNodes nodes =
      target.holding.empty() ? detail::HeldNodes{target.node} : detail::HeldNodes{target.holding, target.node};
  Request removal = detail::removal(nodes);
  Reply removed = co_await insist(client, std::move(removal), call);
  if (removed.ok()) co_return RevokeOutcome::broken;
  if (removed.failed(Errc::no_node)) co_return RevokeOutcome::released;
  co_return zk::to_error(removed, revoking, client->stripped(target.node));
}

Awaitable<Result<RevokeOutcome>> revoke_all(ClientPtr client, std::vector<Target> targets, RevokeOptions options,
                                            Call call) {
  RevokeOutcome outcome = RevokeOutcome::released;
  std::vector<Target> asked;
  for (const Target& target : targets) {
    Reply reply = co_await request_revocation(client, target, call);
    if (reply.failed(Errc::no_node)) continue;
    if (!reply.ok()) co_return zk::to_error(reply, revoking, client->stripped(target.node));
    asked.push_back(target);
  }
  if (asked.empty()) co_return outcome;
  if (!options.break_after) co_return RevokeOutcome::requested;
  const TimePoint grace_end = detail::from_now(*options.break_after);
  for (const Target& target : asked) {
    Result<RevokeOutcome> one = co_await break_after_grace(client, target, grace_end, call);
    if (!one) co_return one;
    if (*one == RevokeOutcome::broken) outcome = *one;
  }
  co_return outcome;
}

Awaitable<Reply> list_of(ClientPtr client, std::string directory, Call call) {
  Request list = zk::make_request(OpType::children, std::move(directory));
  return zk::fresh_by_quorum(std::move(client), std::move(list), std::move(call));
}

// The single node, and the child that goes with it: the one made by the same transaction. nullopt: what has its name is
// no contender's, the directory of another lock for example.
Awaitable<Result<std::optional<Target>>> find_single(ClientPtr client, std::string directory, Call call) {
  constexpr int looks = 3;  // A hand-over may come between the look and the list.
  Target target{zk::child_path(directory, single_name)};
  for (int look = 0; look < looks; ++look) {
    Reply node = co_await look_at(client, target.node, call);
    if (node.failed(Errc::no_node)) break;
    if (!node.ok()) co_return zk::to_error(node, revoking, client->stripped(target.node));
    if (!detail::is_ephemeral(node.stat)) co_return std::optional<Target>();
    Reply listed = co_await list_of(client, directory, call);
    if (listed.failed(Errc::no_node)) continue;
    if (!listed.ok()) co_return zk::to_error(listed, revoking, client->stripped(directory));
    for (const std::string& name : listed.names) {
      if (!detail::is_holding(name, single_name)) continue;
      target.holding = zk::child_path(directory, name);
      Reply holding = co_await look_at(client, target.holding, call);
      if (holding.ok() && holding.stat.czxid == node.stat.czxid) co_return std::optional<Target>(std::move(target));
    }
    target.holding.clear();
  }
  co_return std::optional<Target>(std::move(target));  // Another library's way of taking it, or a busy lock.
}

// The holding with this name, unless it is over, or was none.
Awaitable<Result<std::optional<Target>>> find_holding(ClientPtr client, std::string path, Call call) {
  const std::string directory = zk::parent_of(path);
  Target target{zk::child_path(directory, single_name), path};
  Reply holding = co_await look_at(client, path, call);
  if (holding.failed(Errc::no_node)) co_return std::optional<Target>();
  if (!holding.ok()) co_return zk::to_error(holding, revoking, client->stripped(path));
  Reply node = co_await look_at(client, target.node, call);
  if (!node.ok() && !node.failed(Errc::no_node)) co_return zk::to_error(node, revoking, client->stripped(target.node));
  const bool is_its_own = node.ok() && detail::is_ephemeral(node.stat) && node.stat.czxid == holding.stat.czxid;
  co_return is_its_own ? std::optional<Target>(std::move(target)) : std::nullopt;
}

// Those of `names` that hold, without nodes that no contender made.
Awaitable<Result<std::vector<Target>>> find_contenders(ClientPtr client, std::string directory,
                                                       std::vector<std::string> names, Call call) {
  for (;;) {
    std::vector<Target> targets;
    bool foreign = false;
    const std::vector<std::string> holding = detail::holders(names, known_names());
    std::vector<zk::PendingReply> looks;
    for (const std::string& name : holding)
      looks.push_back(client->launch(zk::make_request(OpType::exists, zk::child_path(directory, name)), call));
    for (std::size_t i = 0; i < holding.size(); ++i) {
      const std::string& name = holding[i];
      Target target{zk::child_path(directory, name)};
      Reply node = co_await looks[i].get();
      if (node.failed(Errc::no_node)) node = co_await look_at(client, target.node, call);  // By another server, maybe.
      if (node.failed(Errc::no_node)) continue;
      if (!node.ok()) co_return zk::to_error(node, revoking, client->stripped(target.node));
      if (detail::is_ephemeral(node.stat)) {
        targets.push_back(std::move(target));
      } else {
        foreign = true;
        std::erase(names, name);
      }
    }
    if (!foreign) co_return targets;
  }
}

Error refusal(const zk::ClientCore& client, const std::string& path) {
  return Error(Errc::invalid_argument, revoking, client.stripped(path), "it is not the node of a contender");
}

Awaitable<Result<RevokeOutcome>> revoke_one(ClientPtr client, std::string path, RevokeOptions options, Call call) {
  const std::string name(zk::name_of(path));
  const std::string directory = zk::parent_of(path);
  std::vector<Target> targets = {Target{path}};
  if (name == single_name) {
    Result<std::optional<Target>> single = co_await find_single(client, directory, call);
    if (!single) co_return single.error();
    const std::optional<Target>& found = *single;
    if (!found) co_return refusal(*client, path);
    targets = {*found};
  } else if (detail::is_holding(name, single_name)) {
    Result<std::optional<Target>> holding = co_await find_holding(client, path, call);
    if (!holding) co_return holding.error();
    const std::optional<Target>& found = *holding;
    if (!found) co_return RevokeOutcome::released;
    targets = {*found};
  } else {
    Reply node = co_await look_at(client, path, call);
    if (node.failed(Errc::no_node)) co_return RevokeOutcome::released;
    if (!node.ok()) co_return zk::to_error(node, revoking, client->stripped(path));
    if (!detail::is_ephemeral(node.stat)) co_return refusal(*client, path);
  }
  Result<RevokeOutcome> outcome = co_await revoke_all(client, std::move(targets), options, call);
  co_return outcome;
}

Awaitable<Result<RevokeOutcome>> revoke_in(ClientPtr client, std::string directory, RevokeOptions options, Call call) {
  Reply listed = co_await list_of(client, directory, call);
  if (listed.failed(Errc::no_node)) co_return RevokeOutcome::released;
  if (!listed.ok()) co_return zk::to_error(listed, revoking, client->stripped(directory));
  Result<std::vector<Target>> targets = co_await find_contenders(client, directory, listed.names, call);
  if (!targets) co_return targets.error();
  if (std::find(listed.names.begin(), listed.names.end(), single_name) != listed.names.end()) {
    Result<std::optional<Target>> single = co_await find_single(client, directory, call);
    if (!single) co_return single.error();
    const std::optional<Target>& found = *single;
    if (found) targets->push_back(*found);
  }
  Result<RevokeOutcome> outcome = co_await revoke_all(client, std::move(*targets), options, call);
  co_return outcome;
}

using Body = Awaitable<Result<RevokeOutcome>> (*)(ClientPtr, std::string, RevokeOptions, Call);

zk::Work<RevokeOutcome> make_work(Body body, const zkclient::Client& client, const zkclient::Path& path,
                                  const RevokeOptions& options, const CallOptions& call) {
  if (options.break_after && options.break_after->count() < 0) {
    throw Error(Errc::invalid_argument, revoking, path.str(), "break_after is negative");
  }
  // Without a deadline of the caller's, the default is meant for what comes after the grace time as well.
  const auto more =
      call.deadline ? std::chrono::milliseconds(0) : options.break_after.value_or(std::chrono::milliseconds(0));
  return [body, core = client.impl(), full = client.impl()->full(path), options, more](Call limits) {
    if (limits.deadline) limits.deadline = detail::after(*limits.deadline, more);
    return body(core, full, options, std::move(limits));
  };
}

}  // namespace

RevokeOutcome revoke(const zkclient::Client& client, const zkclient::Path& node, const RevokeOptions& options,
                     const CallOptions& call) {
  auto work = make_work(revoke_one, client, node, options, call);
  return zk::CallForm(client.impl(), revoking, node.str()).wait(call, std::move(work));
}

void async_revoke(const zkclient::Client& client, const zkclient::Path& node, const RevokeOptions& options,
                  zkclient::Handler<RevokeOutcome> handler, const CallOptions& call) {
  auto work = make_work(revoke_one, client, node, options, call);
  zk::CallForm(client.impl(), revoking, node.str()).start(call, std::move(work), std::move(handler));
}

RevokeOutcome revoke_holders(const zkclient::Client& client, const zkclient::Path& path, const RevokeOptions& options,
                             const CallOptions& call) {
  auto work = make_work(revoke_in, client, path, options, call);
  return zk::CallForm(client.impl(), revoking, path.str()).wait(call, std::move(work));
}

void async_revoke_holders(const zkclient::Client& client, const zkclient::Path& path, const RevokeOptions& options,
                          zkclient::Handler<RevokeOutcome> handler, const CallOptions& call) {
  auto work = make_work(revoke_in, client, path, options, call);
  zk::CallForm(client.impl(), revoking, path.str()).start(call, std::move(work), std::move(handler));
}

}  // namespace zkrecipes
