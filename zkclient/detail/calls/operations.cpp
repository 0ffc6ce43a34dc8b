#include "zkclient/detail/calls/operations.hpp"

#include <algorithm>

#include "zkclient/detail/calls/fresh.hpp"
#include "zkclient/detail/requests/paths.hpp"
#include "zkclient/detail/requests/set_decider.hpp"

namespace zkclient::detail {

Awaitable<Reply> ensure(std::shared_ptr<ClientCore> client, std::string path, CreateMode mode, AclList acl, Call call) {
  for (;;) {
    Request request = make_request(OpType::create, path);
    request.data = "";
    request.mode = mode;
    request.acl = acl;
    Reply reply = co_await client->perform(std::move(request), call);
    if (reply.failed(Errc::node_exists)) reply.error.reset();
    if (reply.failed(Errc::no_node) && path != "/") {
      std::string parent = parent_of(path);
      Reply above = co_await ensure(client, std::move(parent), mode, acl, call);
      if (!above.ok()) co_return above;
      continue;
    }
    if (reply.failed(Errc::no_auth)) {
      // The server asks for the right to create before it looks whether there is anything to be created.
      Reply seen = co_await client->perform(make_request(OpType::exists, path), call);
      if (!seen.failed(Errc::no_node)) co_return seen;
    }
    // All that counts is that it exists: a lost reply is resolved by trying again.
    if (reply.failed(Errc::in_doubt) && !reply.given_up) continue;
    co_return reply;
  }
}

Awaitable<Reply> find_marked(std::shared_ptr<ClientCore> client, std::string parent, std::string marker, Call call) {
  for (;;) {
    // The server that answers now may lag behind the one that took the create.
    Reply list = co_await fresh_by_quorum(client, make_request(OpType::children, parent), call);
    if (!list.ok()) co_return list;
    const auto found = std::find_if(list.names.begin(), list.names.end(),
                                    [&](const std::string& name) { return name.starts_with(marker); });
    if (found == list.names.end()) {
      list.error = Errc::no_node;
      co_return list;
    }
    std::string path = child_path(parent, *found);
    Reply node = co_await client->perform(make_request(OpType::exists, path), call);
    if (node.failed(Errc::no_node)) continue;  // Gone again.
    node.path = std::move(path);
    co_return node;
  }
}

Awaitable<Reply> create_marked(std::shared_ptr<ClientCore> client, Request request, std::string parent,
                               std::string marker, Call call) {
  for (;;) {
    Request attempt = request;
    Reply reply = co_await client->perform(std::move(attempt), call);
    // The caller cleans up after a call that it, or its deadline, has ended.
    if (!reply.failed(Errc::in_doubt) || reply.given_up) co_return reply;
    Reply found = co_await find_marked(client, parent, marker, call);
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

Awaitable<Reply> set_resolving(std::shared_ptr<ClientCore> client, Request request, Stat expected, Call call) {
  bool doubted = false;
  for (;;) {
    Request attempt = request;
    Reply reply = co_await client->perform(std::move(attempt), call);
    const bool in_doubt = reply.failed(Errc::in_doubt);
    if (reply.ok() || (in_doubt && reply.given_up) || (!in_doubt && !doubted)) co_return reply;
    doubted = true;  // From here on a failure of an attempt says nothing about those before it.
    // The server that answers now may lag behind the one that took the set, and so may a leader that a majority has left.
    Reply node = co_await fresh_by_quorum(client, make_request(OpType::get, request.path), call);
    if (!node.ok()) {
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

}  // namespace zkclient::detail
