#include <zkclient/client.hpp>

#include "zkclient/detail/calls/calls.hpp"
#include "zkclient/detail/calls/update_servers.hpp"

namespace zkclient {
namespace {

using detail::Awaitable;
using detail::Call;
using detail::ClientCore;
using detail::Reply;

constexpr const char* operation = "update_servers";

Awaitable<Result<void>> update(std::shared_ptr<ClientCore> core, std::vector<detail::Host> hosts, Call call) {
  Reply reply = co_await detail::update_servers(core, std::move(hosts), std::move(call));
  if (!reply.ok()) co_return detail::to_error(reply, operation, "");
  co_return Result<void>();
}

detail::Work<void> work(const std::shared_ptr<ClientCore>& core, std::string_view hosts) {
  return [core, list = detail::parse_hosts(hosts)](Call call) { return update(core, list, std::move(call)); };
}

}  // namespace

void Client::update_servers(std::string_view hosts, const CallOptions& call) const {
  detail::CallForm(impl(), operation, "").wait(call, work(impl(), hosts));
}

void Client::async_update_servers(std::string_view hosts, Handler<void> handler, const CallOptions& call) const {
  detail::CallForm(impl(), operation, "").start(call, work(impl(), hosts), std::move(handler));
}

}  // namespace zkclient
