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

Awaitable<void> remove_marked(std::shared_ptr<ClientCore> client, std::string parent, std::string marker,
                              std::shared_ptr<SessionState> session) {
  auto pause = first_delete_pause;
  for (;;) {
    Call call;
    call.bound = session;
    Reply list = co_await fresh_by_quorum(client, make_request(OpType::children, parent), call);
    if (list.failed(Errc::no_node) || list.failed(Errc::session_lost) || list.failed(Errc::closed)) co_return;
    if (!list.ok()) {
      co_await pause_before_delete(*client, pause);
      continue;
    }
    for (const std::string& name : list.names) {
      if (!name.starts_with(marker)) continue;
      std::string path = child_path(parent, name);
      co_await remove_until_gone(client, std::move(path), session);
    }
    co_return;
  }
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
  spawn(remove_marked(std::move(client), std::move(parent), std::move(marker), std::move(session)));
}

}  // namespace zkclient::detail
