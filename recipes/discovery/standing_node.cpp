#include "recipes/discovery/standing_node.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::PendingReply;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;

namespace {

constexpr const char* registering_standing = "register instance";
constexpr const char* unregistering_standing = "unregister instance";
constexpr auto short_rest = std::chrono::milliseconds(500);

/// What was read is not what is there any more: look again.
bool has_changed(Errc cause) {
  return cause == Errc::bad_version || cause == Errc::no_node || cause == Errc::node_exists;
}

/// What does not last, though no answer came in spite of the client's own attempts.
bool is_passing(const Reply& reply) {
  return reply.failed(Errc::throttled) || reply.failed(Errc::connection_loss) || reply.failed(Errc::session_lost);
}

bool creates(const Request& request) { return std::holds_alternative<Transaction::Create>(request.operations.back()); }

}  // namespace

Error StandingNode::error(const Reply& reply, const char* operation) const {
  return Error(reply.cause(), operation, spec_.path, reply.detail);
}

std::shared_ptr<StandingNode> StandingNode::make(StandingNodeSpec spec) {
  const auto retire = [client = spec.client, process = zk::ProcessGeneration()](StandingNode* node) {
    if (process.forked()) return zk::keep_for_ever(std::shared_ptr<StandingNode>(node));
    client->loop()->post([owned = std::unique_ptr<StandingNode>(node)]() mutable { owned.reset(); });
  };
  auto node = std::make_unique<StandingNode>(std::move(spec));
  return {node.release(), retire};
}

// --- Looking ---------------------------------------------------------------------------------------------------------

PendingReply StandingNode::launch_look(const Call& call, SightPtr& sight) {
  sight = std::make_shared<Sight>();
  sight->watch = std::make_shared<zk::LoopWatch>(spec_.client, zk::WatchRegistry::Kind::data,
                                                 [weak = std::weak_ptr(sight)](zkclient::WatchEventType) {
                                                   if (const auto seen = weak.lock()) seen->heard = true;
                                                 });
  if (const auto& session = spec_.client->current()) sight->doubt = std::make_unique<Sight::Doubt>(session, *sight);
  sight->removals = removals_;
  sight_ = sight;
  return spec_.client->launch_watching(zk::make_request(OpType::get, spec_.node), call, sight->watch);
}

Awaitable<Reply> StandingNode::look(Call call, SightPtr& sight) {
  if (const std::uint64_t doubts = doubts_; doubts != settled_) {
    // Before the read, not along with it: each is repeated by itself when the connection breaks.
    const Reply synced = co_await spec_.client->perform(zk::make_request(OpType::sync, spec_.node), call);
    if (synced.ok()) settled_ = std::max(settled_, doubts);
  }
  const PendingReply node = launch_look(call, sight);
  Reply seen = co_await node.get();
  judge(*sight, seen);
  co_return seen;
}

// Not longer than the call lasts, nor than the session.
Awaitable<void> StandingNode::rest(Call call) {
  zk::Signal over(spec_.client->events());
  const zk::CancelScope::Guard cancelled(call.cancel, [&over] { over.set(); });
  if (call.cancel != nullptr && call.cancel->requested()) co_return;
  std::optional<zk::SessionEnd> end;
  const auto session = spec_.client->current();
  if (session != nullptr && !session->over()) end.emplace(session, over);
  auto until = std::chrono::steady_clock::now() + short_rest;
  if (call.deadline) until = std::min(until, *call.deadline);
  co_await over.wait(until);
}

// Nobody else can have made a node with the czxid of ours. While that is not known, the data tells, but not of the node
// that the create was to replace: a registrar that writes what it has read writes the same bytes.
bool StandingNode::is_ours(const Reply& seen) const {
  if (!seen.ok() || seen.stat.ephemeral_owner != 0) return false;
  if (czxid_ != 0) return seen.stat.czxid == czxid_;
  return seen.stat.czxid != former_ && creates_.contains(seen.data);
}

// A removal that was sent since may be applied before the next one, and another registrar's node be there in between.
bool StandingNode::is_sure(const SightPtr& sight) const {
  return sight != nullptr && sight->ours && !sight->heard && sight->removals == removals_;
}

// What is heard of one session tells nothing about an answer of another one.
void StandingNode::judge(Sight& sight, const Reply& seen) const {
  sight.ours = is_ours(seen) && sight.doubt != nullptr && sight.doubt->is_of(seen.session);
  sight.version = seen.stat.version;
}

void StandingNode::know(const Reply& seen) {
  czxid_ = seen.stat.czxid;
  token_ = czxid_;
  creates_.clear();
  registered_ = true;
  if (!leaving_) state_ = PresenceState::present;
}

void StandingNode::gone() {
  sight_ = nullptr;
  creates_.clear();
  state_ = PresenceState::left;
}

// --- Writing ---------------------------------------------------------------------------------------------------------

Awaitable<Result<void>> StandingNode::put(std::shared_ptr<StandingNode> self, std::string data, Call call) {
  if (self->leaving_) co_return Error(Errc::closed, registering_standing, self->spec_.path, "it was unregistered");
  const bool first = !self->registered_;
  Result<void> result = co_await self->write(std::move(data), std::move(call));
  // What may have been created must not stay.
  const bool may_be_there = self->czxid_ != 0 || !self->creates_.empty();
  if (!result && first && may_be_there) drop(self);
  co_return result;
}

Result<Request> StandingNode::request_for(const Reply& seen, const std::string& data) const {
  Request request = zk::make_request(OpType::multi, spec_.node);
  if (is_ours(seen)) {
    request.operations.emplace_back(Transaction::Set{Path(spec_.node), data, seen.stat.version});
    return request;
  }
  if (seen.ok()) {
    if (seen.stat.ephemeral_owner != 0 && spec_.conflict == Conflict::wait) {
      return Error(Errc::node_exists, registering_standing, spec_.path,
                   fmt::format("session {:#x} has it", seen.stat.ephemeral_owner));
    }
    if (registered_)
      return Error(Errc::foreign_node, registering_standing, spec_.path, "another registrar has replaced it");
    // Another node, not other data: readers shall see that this registrar is not the former one.
    request.operations.emplace_back(Transaction::Remove{Path(spec_.node), seen.stat.version});
  }
  request.operations.emplace_back(Transaction::Create{Path(spec_.node), data, CreateMode::persistent, spec_.acl});
  return request;
}

// It is going to be another node.
void StandingNode::begin_create(const Reply& seen, const std::string& data) {
  czxid_ = 0;
  if (seen.ok()) former_ = seen.stat.czxid;
  ++creates_[data];
}

// A refusal is a proof that the node was not made; anything else leaves that open.
void StandingNode::end_create(const Reply& reply, const std::string& data) {
  if (reply.ok() || reply.failed(Errc::in_doubt)) return;
  const auto create = creates_.find(data);
  if (create != creates_.end() && --create->second == 0) creates_.erase(create);
}

Awaitable<Result<void>> StandingNode::write(std::string data, Call call) {
  data_ = data;
  bool sent = false;
  bool looked_again = false;
  SightPtr sight;
  Reply seen = co_await look(call, sight);
  for (;;) {
    if (is_passing(seen)) {
      ++doubts_;
      co_await rest(call);
      seen = co_await look(call, sight);
      continue;
    }
    if (!seen.ok() && !seen.failed(Errc::no_node)) co_return error(seen, registering_standing);
    if (leaving_) co_return Error(Errc::closed, registering_standing, spec_.path, "it was unregistered");
    const bool ours = is_ours(seen);
    if (ours) know(seen);
    // Other data may have been asked for meanwhile, and is in force: that came later.
    const bool done = ours && sent && (seen.data == data || data_ != data);
    if (done || looked_again) {
      if (looked_again || is_sure(sight)) co_return Result<void>();
      // The event of this write may have come for the watch that was armed behind it.
      looked_again = true;
      seen = co_await look(call, sight);
      continue;
    }
    Result<Request> request = request_for(seen, data);
    if (!request) co_return request.error();
    const bool creating = creates(*request);
    if (creating) begin_create(seen, data);
    sent = true;
    Request copy = *request;
    const PendingReply writing = spec_.client->launch(std::move(copy), call);
    const PendingReply looking = launch_look(call, sight);
    Reply reply = co_await writing.get();
    if (creating) end_create(reply, data);
    seen = co_await looking.get();
    judge(*sight, seen);
    if (reply.ok()) continue;
    ++doubts_;
    bool busy = is_passing(reply);
    if (!reply.unanswered() && !busy) {
      if (reply.lacks_parent(*request)) {
        const Reply made =
            co_await zk::ensure(spec_.client, zk::parent_of(spec_.node), CreateMode::container, spec_.acl, call);
        busy = is_passing(made);
        if (!made.ok() && !busy) co_return error(made, registering_standing);
      } else if (!has_changed(reply.cause())) {
        co_return error(reply, registering_standing);
      }
    }
    if (busy) co_await rest(call);
    seen = co_await look(call, sight);
  }
}

// --- Taking away -----------------------------------------------------------------------------------------------------

// Only a look that does not find our node, or the server's word that it was deleted, ends the registration.
Awaitable<Result<void>> StandingNode::take_away(Call call) {
  leaving_ = true;
  SightPtr sight = sight_;
  for (;;) {
    if (state_ == PresenceState::left) co_return Result<void>();
    if (!is_sure(sight) || doubts_ != settled_) {
      const Reply seen = co_await look(call, sight);
      if (is_passing(seen) || seen.failed(Errc::overloaded)) {
        ++doubts_;
        co_await rest(call);
        continue;
      }
      if (!seen.ok() && !seen.failed(Errc::no_node)) co_return error(seen, unregistering_standing);
      if (!is_ours(seen)) {
        gone();
        co_return Result<void>();
      }
      know(seen);
      if (!is_sure(sight)) continue;
    }
    Request removal = zk::make_request(OpType::remove, spec_.node);
    removal.version = sight->version;
    ++removals_;
    const Reply reply = co_await spec_.client->perform(std::move(removal), call);
    if (reply.ok() || reply.failed(Errc::no_node)) {
      gone();
      co_return Result<void>();
    }
    ++doubts_;
    const bool busy = is_passing(reply) || reply.failed(Errc::overloaded);
    if (busy) co_await rest(call);
    if (!busy && !reply.unanswered() && !has_changed(reply.cause())) co_return error(reply, unregistering_standing);
  }
}

Awaitable<Result<void>> StandingNode::remove(std::shared_ptr<StandingNode> self, Call call) {
  Result<void> result = co_await self->take_away(std::move(call));
  if (!result && self->state_ != PresenceState::left) drop(self);
  co_return result;
}

Awaitable<void> StandingNode::remove_in_background(std::shared_ptr<StandingNode> self) {
  // Without a deadline: it ends with the node, the client, or for a reason that repeating does not change.
  const Call call;
  const Result<void> result = co_await self->take_away(call);
  // It may still be there, and unregister() be called again.
  if (!result) self->sight_ = nullptr;
}

void StandingNode::drop(const std::shared_ptr<StandingNode>& self) noexcept {
  self->spec_.client->loop()->post([self] { zk::spawn(remove_in_background(self)); });
}

}  // namespace zkrecipes::detail
