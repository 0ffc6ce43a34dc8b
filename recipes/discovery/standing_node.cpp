#include "recipes/discovery/standing_node.hpp"

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

/// What was read is not what is there any more: look again.
bool has_changed(Errc cause) {
  return cause == Errc::bad_version || cause == Errc::no_node || cause == Errc::node_exists;
}

bool lacks_directory(const Request& request, const Reply& reply) {
  const auto refusal = reply.refusal();
  return refusal && refusal->code == zk::rc::no_node &&
         std::holds_alternative<Transaction::Create>(request.operations[refusal->index]);
}

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

// Until the watch tells otherwise, the node is as this look finds it.
PendingReply StandingNode::launch_look(Call call) {
  watch_ = std::make_shared<zk::LoopWatch>(spec_.client, zk::WatchRegistry::Kind::data,
                                           [weak = weak_from_this()](zkclient::WatchEventType) {
                                             if (const auto self = weak.lock()) self->known_ = false;
                                           });
  doubt_ = nullptr;
  if (const auto& session = spec_.client->current()) doubt_ = std::make_unique<Doubt>(session, *this);
  known_ = doubt_ != nullptr;
  return spec_.client->launch_watching(zk::make_request(OpType::get, spec_.node), call, watch_);
}

Awaitable<Reply> StandingNode::look(Call call) {
  std::optional<PendingReply> sync;
  if (std::exchange(stale_, false)) sync = spec_.client->launch(zk::make_request(OpType::sync, spec_.node), call);
  const PendingReply node = launch_look(call);
  if (sync) {
    const Reply synced = co_await sync->get();
    if (!synced.ok()) stale_ = true;
  }
  Reply seen = co_await node.get();
  judge(seen);
  co_return seen;
}

bool StandingNode::is_ours(const Reply& seen) const {
  if (seen.stat.ephemeral_owner != 0) return false;
  const std::int64_t known = czxid_;
  return known != 0 ? seen.stat.czxid == known : written_ && seen.data == data_;
}

// Only of our own node anything is known.
void StandingNode::judge(const Reply& seen) {
  if (seen.ok() && is_ours(seen)) {
    version_ = seen.stat.version;
  } else {
    known_ = false;
  }
}

void StandingNode::know(const Reply& seen) {
  czxid_ = seen.stat.czxid;
  if (!leaving_) state_ = PresenceState::present;
}

void StandingNode::gone() {
  watch_ = nullptr;
  doubt_ = nullptr;
  known_ = false;
  written_ = false;
  state_ = PresenceState::left;
}

// --- Writing ---------------------------------------------------------------------------------------------------------

Awaitable<Result<void>> StandingNode::put(std::shared_ptr<StandingNode> self, std::string data, Call call) {
  if (self->leaving_) co_return Error(Errc::closed, registering_standing, self->spec_.path, "it was unregistered");
  const bool first = self->czxid_ == 0;
  Result<void> result = co_await self->write(std::move(data), std::move(call));
  // What may have been created must not stay.
  if (!result && first && self->written_) drop(self);
  co_return result;
}

Result<Request> StandingNode::request_for(const Reply& seen, const std::string& data, bool replacing) const {
  Request request = zk::make_request(OpType::multi, spec_.node);
  if (seen.ok() && is_ours(seen)) {
    request.operations.emplace_back(Transaction::Set{Path(spec_.node), data, seen.stat.version});
    return request;
  }
  if (seen.ok()) {
    if (seen.stat.ephemeral_owner != 0 && spec_.conflict == Conflict::wait) {
      return Error(Errc::node_exists, registering_standing, spec_.path,
                   fmt::format("session {:#x} has it", seen.stat.ephemeral_owner));
    }
    if (!replacing)
      return Error(Errc::foreign_node, registering_standing, spec_.path, "another registrar has replaced it");
    // Another node, not other data: readers shall see that this registrar is not the former one.
    request.operations.emplace_back(Transaction::Remove{Path(spec_.node), seen.stat.version});
  }
  request.operations.emplace_back(Transaction::Create{Path(spec_.node), data, CreateMode::persistent, spec_.acl});
  return request;
}

Awaitable<Result<void>> StandingNode::write(std::string data, Call call) {
  data_ = data;
  const bool replacing = czxid_ == 0;
  bool sent = false;
  bool looked_again = false;
  Reply seen = co_await look(call);
  for (;;) {
    if (!seen.ok() && !seen.failed(Errc::no_node)) co_return error(seen, registering_standing);
    if (leaving_) co_return Error(Errc::closed, registering_standing, spec_.path, "it was unregistered");
    // Other data may have been asked for meanwhile, and is in force: that came later.
    const bool done = seen.ok() && sent && is_ours(seen) && (seen.data == data || data_ != data);
    if (done || looked_again) {
      if (seen.ok() && is_ours(seen)) know(seen);
      if (known_ || looked_again) co_return Result<void>();
      // The event of this write may have come for the watch that was armed behind it.
      looked_again = true;
      seen = co_await look(call);
      continue;
    }
    Result<Request> request = request_for(seen, data, replacing);
    if (!request) co_return request.error();
    if (request->operations.size() > 1 || std::holds_alternative<Transaction::Create>(request->operations.front())) {
      czxid_ = 0;  // It is going to be another node.
    }
    written_ = sent = true;
    Request copy = *request;
    const PendingReply writing = spec_.client->launch(std::move(copy), call);
    const PendingReply looking = launch_look(call);
    Reply reply = co_await writing.get();
    seen = co_await looking.get();
    judge(seen);
    if (reply.ok()) continue;
    stale_ = true;
    if (!reply.unanswered()) {
      if (lacks_directory(*request, reply)) {
        const Reply made =
            co_await zk::ensure(spec_.client, zk::parent_of(spec_.node), CreateMode::container, spec_.acl, call);
        if (!made.ok()) co_return error(made, registering_standing);
      } else if (!has_changed(reply.cause())) {
        co_return error(reply, registering_standing);
      }
    }
    seen = co_await look(call);
  }
}

// --- Taking away -----------------------------------------------------------------------------------------------------

Awaitable<Result<void>> StandingNode::take_away(Call call) {
  leaving_ = true;
  for (;;) {
    if (state_ == PresenceState::left) co_return Result<void>();
    if (!known_ || stale_) {
      const Reply seen = co_await look(call);
      if (!seen.ok() && !seen.failed(Errc::no_node)) co_return error(seen, unregistering_standing);
      if (!seen.ok() || !is_ours(seen)) {
        gone();
        co_return Result<void>();
      }
      know(seen);
    }
    Request removal = zk::make_request(OpType::remove, spec_.node);
    removal.version = version_;
    const Reply reply = co_await spec_.client->perform(std::move(removal), call);
    if (reply.ok() || reply.failed(Errc::no_node)) {
      gone();
      co_return Result<void>();
    }
    stale_ = true;
    if (!reply.unanswered() && !has_changed(reply.cause())) co_return error(reply, unregistering_standing);
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
  if (!result) self->gone();
}

void StandingNode::drop(const std::shared_ptr<StandingNode>& self) noexcept {
  self->spec_.client->loop()->post([self] { zk::spawn(remove_in_background(self)); });
}

}  // namespace zkrecipes::detail
