// What ClientCore builds out of single requests: ensure, protected create, resolving set, guaranteed delete.

#include <algorithm>
#include <optional>

#include "zkclient/detail/log.hpp"
#include "zkclient/detail/requests/set_decider.hpp"
#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {
namespace {

constexpr auto first_delete_pause = std::chrono::milliseconds(50);
constexpr auto last_delete_pause = std::chrono::milliseconds(10'000);

}  // namespace

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string child_of(const std::string& parent, const std::string& name) {
  return parent == "/" ? "/" + name : parent + "/" + name;
}

std::shared_ptr<Op> ClientCore::prepare(Request request, const Call& call, Op::Done done) {
  const auto op = std::make_shared<Op>();
  op->request = std::move(request);
  op->done = std::move(done);
  op->deadline = call.deadline;
  op->bound = call.bound;
  if (call.cancel == nullptr) return op;
  op->cancel_guard = CancelScope::Guard(call.cancel, [this, weak = std::weak_ptr<Op>(op)] {
    if (const auto alive = weak.lock()) give_up(alive, Errc::cancelled);
  });
  return op;
}

PendingReply ClientCore::launch(Request request, const Call& call) {
  const PendingReply pending;
  const auto op = prepare(std::move(request), call, pending.handler());
  if (call.cancel != nullptr && call.cancel->requested()) {
    give_up(op, Errc::cancelled);
  } else {
    start_op(op);
  }
  return pending;
}

Awaitable<Reply> ClientCore::connected(Call call) {
  const bool cancelled = call.cancel != nullptr && call.cancel->requested();
  if (!closing_ && !cancelled && call.bound == nullptr && waiting_.empty() &&
      current()->raw_state() == ConnectionState::connected) {
    Reply now;  // The usual case.
    now.session = current();
    co_return now;
  }
  Request request = make_request(OpType::connect, "/");
  Reply reply = co_await perform(std::move(request), call);
  co_return reply;
}

Awaitable<Reply> ClientCore::ensure(std::string path, CreateMode mode, AclList acl, Call call) {
  for (;;) {
    Request request = make_request(OpType::create, path);
    request.data = "";
    request.mode = mode;
    request.acl = acl;
    Reply reply = co_await perform(std::move(request), call);
    if (reply.failed(Errc::node_exists)) reply.error.reset();
    if (reply.failed(Errc::no_node) && path != "/") {
      std::string parent = parent_of(path);
      Reply above = co_await ensure(std::move(parent), mode, acl, call);
      if (!above.ok()) co_return above;
      continue;
    }
    if (reply.failed(Errc::no_auth)) {
      // The server asks for the right to create before it looks whether there is anything to be created.
      Reply seen = co_await perform(make_request(OpType::exists, path), call);
      if (!seen.failed(Errc::no_node)) co_return seen;
    }
    // Whoever created it, what counts is that it exists: a lost reply is resolved by trying again.
    if (reply.failed(Errc::in_doubt) && !reply.given_up) continue;
    co_return reply;
  }
}

Awaitable<Reply> ClientCore::find_marked(std::string parent, std::string marker, Call call) {
  for (;;) {
    // The server that answers now may lag behind the one that took the create: sync first.
    const PendingReply synced = launch(make_request(OpType::sync, parent), call);
    const PendingReply listed = launch(make_request(OpType::children, parent), call);
    Reply sync = co_await synced.get();
    Reply list = co_await listed.get();
    if (!list.ok()) co_return list;
    if (!sync.ok()) co_return sync;
    const auto found = std::find_if(list.names.begin(), list.names.end(),
                                    [&](const std::string& name) { return name.starts_with(marker); });
    if (found == list.names.end()) {
      list.error = Errc::no_node;
      co_return list;
    }
    std::string path = child_of(parent, *found);
    Reply node = co_await perform(make_request(OpType::exists, path), call);
    if (node.failed(Errc::no_node)) continue;  // Gone again.
    node.path = std::move(path);
    co_return node;
  }
}

Awaitable<Reply> ClientCore::create_marked(Request request, std::string parent, std::string marker, Call call) {
  for (;;) {
    Request attempt = request;
    Reply reply = co_await perform(std::move(attempt), call);
    // What the caller or the deadline ended is the caller's to clean up.
    if (!reply.failed(Errc::in_doubt) || reply.given_up) co_return reply;
    Reply found = co_await find_marked(parent, marker, call);
    if (found.failed(Errc::no_node)) {
      if (found.session == reply.session) continue;
      // A session sees all its creates; that one is over, and its create may still come to light.
      found.error = Errc::in_doubt;
      found.detail = "the session that sent it was lost";
      co_return found;
    }
    // Still unknown, unless the session is over, and the node with it.
    if (!found.ok() && !found.failed(Errc::session_lost)) found.error = Errc::in_doubt;
    co_return found;
  }
}

Awaitable<Reply> ClientCore::set_resolving(Request request, Stat expected, Call call) {
  bool doubted = false;
  for (;;) {
    Request attempt = request;
    Reply reply = co_await perform(std::move(attempt), call);
    const bool in_doubt = reply.failed(Errc::in_doubt);
    if (reply.ok() || (in_doubt && reply.given_up) || (!in_doubt && !doubted)) co_return reply;
    doubted = true;  // From here on a failure of an attempt says nothing about those before it.
    // The server that answers now may lag behind the one that took the set: sync first.
    const PendingReply synced = launch(make_request(OpType::sync, request.path), call);
    const PendingReply read = launch(make_request(OpType::get, request.path), call);
    Reply sync = co_await synced.get();
    Reply node = co_await read.get();
    if (!sync.ok() || !node.ok()) {
      node.error = Errc::in_doubt;
      node.detail = "what the node is now could not be read";
      co_return node;
    }
    switch (decide_set(expected, *request.data, node.stat, node.data, node.is_null)) {
      case SetOutcome::applied: co_return node;
      case SetOutcome::not_applied: break;
      case SetOutcome::superseded: node.error = Errc::bad_version; co_return node;
      case SetOutcome::unknown:
        node.error = Errc::in_doubt;
        node.detail = "the node was replaced or written again since";
        co_return node;
    }
    // Not for want of an answer: a server that refuses it (access rights, quota) would do so for ever.
    if (!in_doubt) co_return reply;
  }
}

void ClientCore::delete_in_background(std::string path, std::shared_ptr<SessionState> session) {
  spawn(remove_until_gone(std::move(path), std::move(session)));
}

void ClientCore::delete_marked_in_background(std::string parent, std::string marker,
                                             std::shared_ptr<SessionState> session) {
  spawn(remove_marked(std::move(parent), std::move(marker), std::move(session)));
}

// Ends early when the session does.
Awaitable<void> ClientCore::pause_before_delete(std::chrono::milliseconds& pause) {
  Signal timer(events());
  const auto now = current();
  const auto observer = now->observe([&timer, raw = now.get()] {
    if (raw->over()) timer.set();
  });
  if (now->over()) timer.set();  // That will not be told again.
  co_await timer.wait(std::chrono::steady_clock::now() + pause);
  now->forget(observer);
  pause = std::min(pause * 2, last_delete_pause);
}

Awaitable<void> ClientCore::remove_until_gone(std::string path, std::shared_ptr<SessionState> session) {
  const auto self = shared_from_this();
  auto pause = first_delete_pause;
  for (;;) {
    Call call;
    call.bound = session;
    Reply reply = co_await perform(make_request(OpType::remove, path), call);
    if (reply.failed(Errc::in_doubt)) continue;  // The next attempt waits for the connection.
    if (!co_await remains(path, reply, pause)) co_return;
  }
}

Awaitable<void> ClientCore::remove_this_one(std::string path, std::shared_ptr<SessionState> session) {
  const auto self = shared_from_this();
  auto pause = first_delete_pause;
  std::optional<std::int64_t> meant;
  for (;;) {
    Call call;
    call.bound = session;
    const PendingReply synced = launch(make_request(OpType::sync, path), call);
    const PendingReply looked = launch(make_request(OpType::exists, path), call);
    Reply sync = co_await synced.get();
    Reply reply = co_await looked.get();
    if (!sync.ok()) reply = std::move(sync);
    if (reply.ok()) {
      if (meant && *meant != reply.stat.czxid) co_return;
      meant = reply.stat.czxid;
      reply = co_await perform(make_request(OpType::remove, path), call);
      if (reply.failed(Errc::in_doubt)) continue;
    }
    if (!co_await remains(path, reply, pause)) co_return;
  }
}

// False when the answer to a delete says that there is nothing left to do.
Awaitable<bool> ClientCore::remains(const std::string& path, const Reply& reply, std::chrono::milliseconds& pause) {
  const bool over = reply.failed(Errc::session_lost) || reply.failed(Errc::closed);
  if (reply.ok() || reply.failed(Errc::no_node) || over) co_return false;
  // The server refuses it for now (children, access rights): that may change.
  if (log_enabled(LogLevel::warning)) log(LogLevel::warning, "a node that has to go is still there: " + path);
  co_await pause_before_delete(pause);
  co_return true;
}

Awaitable<void> ClientCore::remove_marked(std::string parent, std::string marker,
                                          std::shared_ptr<SessionState> session) {
  const auto self = shared_from_this();
  auto pause = first_delete_pause;
  for (;;) {
    Call call;
    call.bound = session;
    const PendingReply synced = launch(make_request(OpType::sync, parent), call);
    const PendingReply listed = launch(make_request(OpType::children, parent), call);
    Reply sync = co_await synced.get();
    Reply list = co_await listed.get();
    if (list.failed(Errc::no_node) || list.failed(Errc::session_lost) || list.failed(Errc::closed)) co_return;
    if (!list.ok() || !sync.ok()) {
      co_await pause_before_delete(pause);
      continue;
    }
    for (const std::string& name : list.names) {
      if (!name.starts_with(marker)) continue;
      std::string path = child_of(parent, name);
      co_await remove_until_gone(std::move(path), session);
    }
    co_return;
  }
}

}  // namespace zkclient::detail
