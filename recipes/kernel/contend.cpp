#include "recipes/kernel/contend.hpp"

#include "recipes/kernel/contend_attempt.hpp"

namespace zkrecipes::detail {

ContendAttempt::ContendAttempt(ContendSpecPtr spec, std::string data, Patience patience, Call call)
    : Attempt(spec->client, std::move(call), spec->operation, spec->path),
      spec_(std::move(spec)),
      data_(std::move(data)),
      patience_(patience) {}

ContendAttempt::~ContendAttempt() {
  if (!leaves_nodes()) return;
  std::vector<std::string> known;
  if (!node_.path.empty()) known.push_back(node_.path);
  remove_sequential(spec_->directory, marker_, known);
}

Awaitable<Attempt::Outcome> ContendAttempt::run() {
  Reply seen = co_await enter();
  if (!seen.ok()) co_return fail(std::move(seen));
  while (seen.ok()) {
    const WaitStep step = decide_wait(children_, name(), spec_->names);
    if (step.kind == WaitStep::Kind::acquired) {
      co_return co_await prove_and_grant(existence_check(node_.path), make_grant());
    }
    if (step.kind == WaitStep::Kind::vanished) co_return Outcome::vanished;
    if (patience_ == Patience::try_once) co_return Outcome::busy;
    seen = co_await wait_for(step);
    if (seen.ok()) seen = co_await look_again(step);
  }
  co_return end(std::move(seen));
}

Awaitable<Reply> ContendAttempt::enter() {
  Reply connected = co_await waiter_.enter_to_hold();
  if (!connected.ok()) co_return connected;
  for (;;) {
    Reply created = co_await create_and_list();
    if (!created.failed(Errc::no_node)) co_return created;
    Reply parents =
        co_await zk::ensure(client_, spec_->directory, spec_->layout.parent_mode(), spec_->acl, waiter_.call());
    if (!parents.ok()) co_return parents;
  }
}

Awaitable<Reply> ContendAttempt::create_and_list() {
  const std::string uuid = zk::make_uuid();
  marker_ = spec_->layout.marker(uuid, spec_->kind);
  node_ = Reply();  // The one before, if any, went with the directory.
  Request create =
      zk::make_request(OpType::create, zk::child_path(spec_->directory, spec_->layout.name(uuid, spec_->kind)));
  create.data = data_;
  create.mode = zkclient::CreateMode::ephemeral_sequential;
  create.acl = spec_->acl;
  may_exist_ = true;
  // One flight: the server works off a session's requests in order, so the list holds the new node.
  const PendingReply creating = client_->launch(create, waiter_.call());
  const PendingReply listing = client_->launch(zk::make_request(OpType::children, spec_->directory), waiter_.call());
  Reply created = co_await creating.get();
  Reply listed = co_await listing.get();
  const bool unknown = created.unanswered();
  if (unknown) {
    created = co_await recover(std::move(create));
    if (created.ok()) listed = co_await list();
  }
  const bool refused = created.error && !created.failed(Errc::in_doubt);
  if (refused) may_exist_ = false;
  if (!created.ok()) co_return created;
  if (created.stat.ephemeral_owner != waiter_.session()->id()) {  // Claim nothing that is not this session's.
    created.error = Errc::session_lost;
    co_return created;
  }
  node_ = created;
  if (!unknown) waiter_.keeper()->acknowledged(created.sent);  // Else it was read, which proves nothing; see prove().
  learn(listed);
  co_return listed;
}

// The reply of the create was lost: the node is there and is found by its marker, or it has to be made again.
Awaitable<Reply> ContendAttempt::recover(Request create) {
  Reply found = co_await zk::find_marked(client_, spec_->directory, marker_, waiter_.call());
  if (!found.failed(Errc::no_node)) {
    // A look that failed leaves the node in doubt, unless it is over with the session.
    const bool over = found.failed(Errc::session_lost) || found.failed(Errc::closed);
    if (!found.ok() && !over) found.error = Errc::in_doubt;
    co_return found;
  }
  Reply made = co_await zk::create_marked(client_, std::move(create), spec_->directory, marker_, waiter_.call());
  co_return made;
}

Awaitable<Reply> ContendAttempt::list() {
  Reply listed = co_await client_->perform(zk::make_request(OpType::children, spec_->directory), waiter_.call());
  co_return listed;
}

LeaseCore::Grant ContendAttempt::make_grant() const {
  LeaseCore::Grant grant = Attempt::make_grant(node_.path, node_.stat.czxid);
  grant.data = data_;
  grant.watch_at_once = spec_->watch_at_once;
  grant.internal = spec_->internal;
  if (spec_->hands_over && crowded_ && record_version_) {
    grant.record = spec_->directory;
    grant.record_version = *record_version_;
  }
  return grant;
}

Awaitable<Result<LeasePtr>> contend(ContendSpecPtr spec, std::string data, Patience patience, Call call) {
  const bool requeue = spec->requeue_on_session_loss;
  auto make = [spec = std::move(spec), data = std::move(data), patience, call = std::move(call)] {
    return std::make_unique<ContendAttempt>(spec, data, patience, call);
  };
  return drive(std::move(make), requeue);
}

}  // namespace zkrecipes::detail
