#include "zkclient/detail/calls/update_servers.hpp"

#include "zkclient/detail/session/sessions.hpp"

namespace zkclient::detail {

Awaitable<Reply> update_servers(std::shared_ptr<ClientCore> client, std::vector<Host> hosts, Call call) {
  Reply reply;
  if (client->closing()) {
    reply.error = Errc::closed;
    co_return reply;
  }
  ServerDirectory& servers = client->sessions().servers();
  const std::uint64_t list = client->sessions().use_servers(std::move(hosts));
  const auto cancelled = [&] { return call.cancel != nullptr && call.cancel->requested(); };
  {
    Signal wake(client->events());
    const ServerDirectory::Waiter waiter(servers, [&wake] { wake.set(); });
    const CancelScope::Guard guard(call.cancel, [&wake] { wake.set(); });
    const auto waits = [&] {
      const bool late = call.deadline && std::chrono::steady_clock::now() >= *call.deadline;
      return !servers.is_applied(list) && !client->closing() && !cancelled() && !late;
    };
    while (waits()) {
      wake.clear();
      co_await wake.wait(call.deadline);
    }
  }
  if (!servers.is_applied(list) && !client->closing()) {
    reply.error = cancelled() ? Errc::cancelled : Errc::deadline_exceeded;
    reply.detail = "the client goes on trying to reach the new servers";
    co_return reply;
  }
  reply = co_await client->connected(call);
  co_return reply;
}

}  // namespace zkclient::detail
