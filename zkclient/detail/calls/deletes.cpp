#include "zkclient/detail/calls/deletes.hpp"

#include <algorithm>
#include <chrono>
#include <optional>

#include "zkclient/detail/calls/fresh.hpp"
#include "zkclient/detail/log.hpp"
#include "zkclient/detail/requests/paths.hpp"

namespace zkclient::detail {
namespace {

constexpr auto first_delete_pause = std::chrono::milliseconds(50);
constexpr auto last_delete_pause = std::chrono::milliseconds(10'000);

// Ends early when the session does.
Awaitable<void> pause_before_delete(ClientCore& client, std::chrono::milliseconds& pause) {
  co_await pause_for(pause, client.events(), client.current());
  pause = std::min(pause * 2, last_delete_pause);
}

// False when the answer to a delete says that there is nothing left to do.
Awaitable<bool> remains(ClientCore& client, const std::string& path, const Reply& reply,
                        std::chrono::milliseconds& pause) {
  const bool over = reply.failed(Errc::session_lost) || reply.failed(Errc::closed);
  if (reply.ok() || reply.failed(Errc::no_node) || over) co_return false;
  // The server refuses it for now (children, access rights): that may change.
  if (log_enabled(LogLevel::warning)) {
    log(LogLevel::warning, "a node that has to go is still there: " + path, {.path = client.stripped(path)});
  }
  co_await pause_before_delete(client, pause);
  co_return true;
}

// The session that saw that nothing is left; null: it is over, or the client closed.
Awaitable<std::shared_ptr<SessionState>> remove_marked(std::shared_ptr<ClientCore> client, std::string parent,
                                                       std::string marker, std::shared_ptr<SessionState> session) {
  auto pause = first_delete_pause;
  for (;;) {
    Call call;
    call.bound = session;
    Reply list = co_await fresh_by_quorum(client, make_request(OpType::children, parent), call);
    if (list.failed(Errc::session_lost) || list.failed(Errc::closed)) co_return nullptr;
    if (list.failed(Errc::no_node)) co_return list.session;
    if (!list.ok()) {
      co_await pause_before_delete(*client, pause);
      continue;
    }
    for (const std::string& name : list.names) {
      if (!name.starts_with(marker)) continue;
      std::string path = child_path(parent, name);
      co_await remove_until_gone(client, std::move(path), session);
    }
    co_return list.session;
  }
}

Awaitable<void> remove_marked_once(std::shared_ptr<ClientCore> client, std::string parent, std::string marker,
                                   std::shared_ptr<SessionState> session) {
  co_await remove_marked(std::move(client), std::move(parent), std::move(marker), std::move(session));
}

// False: the client is closed.
Awaitable<bool> let_pass(std::shared_ptr<ClientCore> client, std::chrono::milliseconds time) {
  const auto end = std::chrono::steady_clock::now() + time;
  auto pause = first_delete_pause;
  for (auto now = end - time; now < end; now = std::chrono::steady_clock::now()) {
    const Call call;
    const Reply connected = co_await client->connected(call);
    if (connected.failed(Errc::closed)) co_return false;
    if (connected.ok()) {
      co_await pause_for(std::chrono::ceil<std::chrono::milliseconds>(end - now), client->events(), connected.session);
    } else {
      co_await pause_before_delete(*client, pause);
    }
  }
  co_return true;
}

// A session sees all that it has created. Another one may look too early: a server that stood still hands on what it was
// sent by a session that the client has lost, and the leader does it for as long as it has that session. So there is
// another look when it has none: it ends a session of which it has heard nothing for the timeout and up to a tick, which
// is less than a second timeout.
Awaitable<void> remove_lasting(std::shared_ptr<ClientCore> client, std::string parent, std::string marker,
                               std::shared_ptr<SessionState> sender) {
  const auto seen_by = co_await remove_marked(client, parent, marker, nullptr);
  if (seen_by == nullptr || seen_by == sender) co_return;
  const bool open = co_await let_pass(client, 2 * sender->timeout());
  if (open) co_await remove_marked(client, parent, marker, nullptr);
}

}  // namespace

Awaitable<void> remove_until_gone(std::shared_ptr<ClientCore> client, std::string path,
                                  std::shared_ptr<SessionState> session) {
  auto pause = first_delete_pause;
  for (;;) {
    Call call;
    call.bound = session;
    Reply reply = co_await client->perform(make_request(OpType::remove, path), call);
    if (reply.failed(Errc::in_doubt)) continue;  // The next attempt waits for the connection.
    if (!co_await remains(*client, path, reply, pause)) co_return;
  }
}

Awaitable<void> remove_this_one(std::shared_ptr<ClientCore> client, std::string path,
                                std::shared_ptr<SessionState> session) {
  auto pause = first_delete_pause;
  std::optional<std::int64_t> meant;
  for (;;) {
    Call call;
    call.bound = session;
    Reply reply = co_await fresh_by_quorum(client, make_request(OpType::exists, path), call);
    if (reply.ok()) {
      if (meant && *meant != reply.stat.czxid) co_return;
      meant = reply.stat.czxid;
      reply = co_await client->perform(make_request(OpType::remove, path), call);
      if (reply.failed(Errc::in_doubt)) continue;
    }
    if (!co_await remains(*client, path, reply, pause)) co_return;
  }
}

void delete_in_background(std::shared_ptr<ClientCore> client, std::string path, std::shared_ptr<SessionState> session) {
  spawn(remove_until_gone(std::move(client), std::move(path), std::move(session)));
}

void delete_marked_in_background(std::shared_ptr<ClientCore> client, std::string parent, std::string marker,
                                 std::shared_ptr<SessionState> session) {
  spawn(remove_marked_once(std::move(client), std::move(parent), std::move(marker), std::move(session)));
}

void delete_lasting_in_background(std::shared_ptr<ClientCore> client, std::string parent, std::string marker,
                                  std::shared_ptr<SessionState> sender) {
  spawn(remove_lasting(std::move(client), std::move(parent), std::move(marker), std::move(sender)));
}

}  // namespace zkclient::detail
