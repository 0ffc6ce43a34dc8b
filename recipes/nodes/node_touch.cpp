#include "recipes/nodes/node_touch.hpp"

#include <algorithm>
#include <utility>

namespace zkrecipes::detail {

namespace {

constexpr const char* touching = "touch node";
constexpr const char* removing_both = "remove node";
constexpr std::chrono::milliseconds before_another_try{500};

bool will_pass(const Reply& reply) {
  return reply.unanswered() || reply.failed(Errc::throttled) || reply.failed(Errc::overloaded) ||
         reply.failed(Errc::connection_loss) || reply.failed(Errc::session_lost);
}

}  // namespace

std::shared_ptr<NodeTouch> NodeTouch::start(std::shared_ptr<KeptNode> node, std::string child,
                                            std::chrono::milliseconds ttl) {
  auto touch = std::make_shared<NodeTouch>(std::move(node), std::move(child), ttl);
  const auto& spec = touch->node_->spec();
  if (!spec.client->loop()->post([touch] { zk::spawn(run(touch)); })) {
    throw Error(spec.client->loop()->refusal(), spec.operation, spec.path);
  }
  return touch;
}

NodeTouch::NodeTouch(std::shared_ptr<KeptNode> node, std::string child, std::chrono::milliseconds ttl)
    : node_(std::move(node)), child_(std::move(child)), ttl_(ttl) {}

std::optional<Error> NodeTouch::problem() const {
  if (process_.forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return problem_;
}

void NodeTouch::abandon() noexcept {
  node_->spec().client->loop()->post([self = shared_from_this()] { self->ending_->request(); });
  node_->abandon();
}

bool NodeTouch::over() const {
  return ending_->requested() || node_->state() == PresenceState::left || node_->spec().client->closing();
}

// Three times within the time to live, so that one may be late.
Awaitable<void> NodeTouch::run(std::shared_ptr<NodeTouch> self) {
  const std::chrono::milliseconds interval = std::max(self->ttl_ / 3, std::chrono::milliseconds(1));
  Call call;
  call.cancel = self->ending_;
  while (!self->over()) {
    const bool touched = co_await self->touch(call);
    co_await self->pause(touched ? interval : std::min(interval, before_another_try), call);
  }
}

// Shorter if the node ends.
Awaitable<void> NodeTouch::pause(std::chrono::milliseconds time, const Call& call) const {
  Call limited = call;
  const auto end = std::chrono::steady_clock::now() + time;
  limited.deadline = call.deadline ? std::min(*call.deadline, end) : end;
  return KeptNode::wait_ended(node_, std::move(limited));
}

// It is empty, so it is of no account whether a write is repeated.
Awaitable<bool> NodeTouch::touch(Call call) {
  const Result<void> present = co_await KeptNode::wait_present(node_, call);
  if (!present) co_return false;
  Reply reply = co_await find_own(call);
  if (reply.ok()) {
    call.bound = reply.session;
    call.only_on = reply.session->connections();
    // One of a former owner has that owner's time to live.
    Request request = zk::make_request(made_ ? OpType::set : OpType::remove, child_);
    if (made_) request.data = "";
    reply = co_await node_->spec().client->perform(std::move(request), call);
    if (!made_ || reply.failed(Errc::no_node)) reply = co_await make_child(std::move(reply), call);
  }
  note(reply);
  co_return reply.ok();
}

// What waited for a connection must not be sent into a node that another client has made meanwhile. No_node: it is not ours.
Awaitable<Reply> NodeTouch::find_own(Call call) {
  Reply found = co_await node_->spec().client->perform(zk::make_request(OpType::exists, node_->spec().node), call);
  if (found.ok() && found.stat.czxid != node_->token().value) found.error = Errc::no_node;
  co_return found;
}

// Where there is none: `gone` says so.
Awaitable<Reply> NodeTouch::make_child(Reply gone, Call call) {
  if (!gone.ok() && !gone.failed(Errc::no_node)) co_return gone;
  Request create = zk::make_request(OpType::create, child_);
  create.data = "";
  create.mode = CreateMode::persistent_ttl;
  create.ttl_ms = ttl_.count();
  create.acl = node_->spec().acl;
  Reply made = co_await node_->spec().client->perform(std::move(create), call);
  if (made.ok() || made.failed(Errc::node_exists)) made_ = true;
  co_return made;
}

void NodeTouch::note(const Reply& reply) {
  // With no node above it, that one's owner is at it.
  const bool passes = will_pass(reply) || reply.given_up || reply.failed(Errc::no_node) ||
                      reply.failed(Errc::node_exists) || reply.failed(Errc::closed);
  std::optional<Error> problem;
  if (!reply.ok() && !passes) problem = Error(*reply.error, touching, node_->spec().path, reply.detail);
  const std::lock_guard lock(mutex_);
  problem_ = std::move(problem);
}

// With the node, and only if that is ours.
Awaitable<Result<void>> NodeTouch::remove(std::shared_ptr<NodeTouch> self, Call call) {
  self->ending_->request();
  return KeptNode::leave(self->node_, std::move(call), removing_both);
}

}  // namespace zkrecipes::detail
