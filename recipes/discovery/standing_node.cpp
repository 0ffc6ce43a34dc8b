#include "recipes/discovery/standing_node.hpp"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>
#include <variant>

#include <fmt/format.h>

namespace zkrecipes::detail {

namespace {

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

std::shared_ptr<StandingNode> StandingNode::make(OwnedNodeSpec spec) {
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
    Reply settled = co_await settle(call);
    if (zk::is_there_or_not(settled)) {
      settled_ = std::max(settled_, doubts);
    } else if (!creates_.empty()) {
      co_return settled;
    }
  }
  const PendingReply node = launch_look(call, sight);
  Reply seen = co_await node.get();
  judge(*sight, seen);
  co_return seen;
}

// Where a create was not answered, a look that finds nothing counts as its failure, and nobody looks again: so a majority
// has to have agreed on what was sent before. A leader that it has left answers a sync at once.
Awaitable<Reply> StandingNode::settle(Call call) {
  if (creates_.empty()) {
    Reply synced = co_await spec_.client->perform(zk::make_request(OpType::sync, spec_.node), call);
    co_return synced;
  }
  Reply seen = co_await zk::fresh_by_quorum(spec_.client, zk::make_request(OpType::exists, spec_.node), call);
  co_return seen;
}

// Not longer than the call lasts, nor than the session.
Awaitable<void> StandingNode::rest(Call call, std::chrono::milliseconds time) {
  zk::Signal over(spec_.client->events());
  const zk::CancelScope::Guard cancelled(call.cancel, [&over] { over.set(); });
  if (call.cancel != nullptr && call.cancel->requested()) co_return;
  std::optional<zk::SessionEnd> end;
  const auto session = spec_.client->current();
  if (session != nullptr && !session->over()) end.emplace(session, over);
  // Without a session nothing tells that the client is closed, which waits for this.
  auto until = std::chrono::steady_clock::now() + (end ? time : std::min(time, short_rest));
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
  if (leaving_) return;
  shown_.clear_problem();
  show(PresenceState::present);
}

void StandingNode::gone() {
  sight_ = nullptr;
  creates_.clear();
  show(PresenceState::left);
}

// --- Writing ---------------------------------------------------------------------------------------------------------

Awaitable<Result<void>> StandingNode::put(std::shared_ptr<StandingNode> self, std::string data, Call call) {
  if (self->leaving_) co_return Error(Errc::closed, registering_instance, self->spec_.path, "it was unregistered");
  if (self->begun_) {
    Result<void> begun = co_await until_put(self, std::move(data), std::move(call));
    co_return begun;
  }
  const bool first = !self->registered_;
  Result<void> result = co_await self->write(std::move(data), std::move(call));
  // What may have been created must not stay.
  const bool may_be_there = self->czxid_ != 0 || !self->creates_.empty();
  if (!result && first && may_be_there) drop(self);
  co_return result;
}

void StandingNode::begin(const std::shared_ptr<StandingNode>& self, std::string data) {
  self->wanted_ = std::move(data);
  self->begun_ = true;
  const auto& loop = self->spec_.client->loop();
  if (loop->post([self] { zk::spawn(put_in_background(self)); })) return;
  throw Error(loop->refusal(), registering_instance, self->spec_.path);
}

// The only one that writes while it goes on: what update() asks for meanwhile is handed to it.
Awaitable<void> StandingNode::put_in_background(std::shared_ptr<StandingNode> self) {
  Call call;
  call.cancel = self->beginning_;
  const auto ends = [raw = self.get()] { return raw->leaving_ || raw->spec_.client->closing(); };
  while (!ends()) {
    const std::string data = self->wanted_;
    const Result<void> result = co_await self->write(data, call);
    if (ends() || (result && data == self->wanted_)) break;
    if (result || data != self->wanted_) continue;
    // Without a session it is no word of the server's.
    const auto& session = self->spec_.client->current();
    const bool definite = session != nullptr && !session->over();
    self->show_problem(result.error().errc(), result.error().detail(), definite || self->registered_);
    if (self->registered_) break;  // It was there, so this is about an update.
    self->show(PresenceState::absent);
    self->resting_ = std::make_shared<zk::CancelScope>();
    Call pause;
    pause.cancel = self->resting_;
    co_await self->rest(std::move(pause), long_rest);
    self->resting_ = nullptr;
  }
  self->begun_ = false;
  if (!self->leaving_ && !self->registered_) self->show(PresenceState::left);
  self->waiting_.wake_all();
}

Awaitable<Result<void>> StandingNode::until_put(std::shared_ptr<StandingNode> self, std::string data, Call call) {
  self->wanted_ = std::move(data);
  self->shown_.clear_problem();
  if (self->resting_ != nullptr) self->resting_->request();
  const Waiting waiter(self->waiting_, self->spec_.client->events(), call);
  for (;;) {
    waiter->clear();
    const bool closed = self->leaving_ || self->spec_.client->closing();
    const auto problem = self->shown_.problem();
    if (problem && problem->definite && !closed)
      co_return Error(problem->code, registering_instance, self->spec_.path, problem->detail);
    if (!self->begun_ && self->registered_ && !closed) co_return Result<void>();
    if (const auto failure = waiter->failure(closed))
      co_return self->ended_wait(*failure, registering_instance, "the node with its data");
    co_await waiter->wait();
  }
}

Awaitable<Result<void>> StandingNode::wait_present(std::shared_ptr<StandingNode> self, Call call) {
  const Waiting waiter(self->waiting_, self->spec_.client->events(), call);
  for (;;) {
    waiter->clear();
    const bool closed = self->leaving_ || self->spec_.client->closing();
    if (self->state() == PresenceState::present && !closed) co_return Result<void>();
    const auto problem = self->shown_.problem();
    if (problem && problem->definite && !closed)
      co_return Error(problem->code, registering_instance, self->spec_.path, problem->detail);
    if (const auto failure = waiter->failure(closed))
      co_return self->ended_wait(*failure, registering_instance, "the node");
    co_await waiter->wait();
  }
}

Result<Request> StandingNode::request_for(const Reply& seen, const std::string& data) const {
  Request request = zk::make_request(OpType::multi, spec_.node);
  if (is_ours(seen)) {
    request.operations.emplace_back(Transaction::Set{Path(spec_.node), data, seen.stat.version});
    return request;
  }
  if (seen.ok()) {
    if (seen.stat.ephemeral_owner != 0 && spec_.conflict == Conflict::wait) {
      return Error(Errc::node_exists, registering_instance, spec_.path,
                   fmt::format("session {:#x} has it", seen.stat.ephemeral_owner));
    }
    if (registered_)
      return Error(Errc::foreign_node, registering_instance, spec_.path, "another registrar has replaced it");
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
      co_await rest(call, short_rest);
      seen = co_await look(call, sight);
      continue;
    }
    if (!seen.ok() && !seen.failed(Errc::no_node)) co_return error(seen, registering_instance);
    if (leaving_) co_return Error(Errc::closed, registering_instance, spec_.path, "it was unregistered");
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
        if (!made.ok() && !busy) co_return error(made, registering_instance);
      } else if (!has_changed(reply.cause())) {
        co_return error(reply, registering_instance);
      }
    }
    if (busy) co_await rest(call, short_rest);
    seen = co_await look(call, sight);
  }
}

// --- Taking away -----------------------------------------------------------------------------------------------------

// Only a look that does not find our node, or the server's word that it was deleted, ends the registration.
Awaitable<Result<void>> StandingNode::take_away(Call call) {
  leaving_ = true;
  waiting_.wake_all();
  if (begun_) {
    const std::optional<Errc> failure = co_await end_beginning(call);
    if (failure)
      co_return ended_wait(*failure, unregistering_instance, "the end of the registration that is on its way");
    if (!registered_ && creates_.empty()) gone();  // Nothing was sent, so this needs no connection.
  }
  SightPtr sight = sight_;
  for (;;) {
    if (shown_.state() == PresenceState::left) co_return Result<void>();
    if (!is_sure(sight) || doubts_ != settled_) {
      const Reply seen = co_await look(call, sight);
      if (is_passing(seen) || seen.failed(Errc::overloaded)) {
        ++doubts_;
        co_await rest(call, short_rest);
        continue;
      }
      if (!seen.ok() && !seen.failed(Errc::no_node)) co_return error(seen, unregistering_instance);
      if (!is_ours(seen)) {
        if (!creates_.empty() && doubts_ != settled_) continue;  // A create of another call was lost meanwhile.
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
    if (busy) co_await rest(call, short_rest);
    if (!busy && !reply.unanswered() && !has_changed(reply.cause())) co_return error(reply, unregistering_instance);
  }
}

// What it has sent, and not been told about, is in doubt then.
Awaitable<std::optional<Errc>> StandingNode::end_beginning(Call call) {
  beginning_->request();
  if (resting_ != nullptr) resting_->request();
  const Waiting waiter(waiting_, spec_.client->events(), call);
  for (;;) {
    waiter->clear();
    if (!begun_) co_return std::nullopt;
    if (const auto failure = waiter->failure(false)) co_return failure;
    co_await waiter->wait();
  }
}

Awaitable<Result<void>> StandingNode::remove(std::shared_ptr<StandingNode> self, Call call) {
  Result<void> result = co_await self->take_away(std::move(call));
  if (!result && self->state() != PresenceState::left) drop(self);
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
