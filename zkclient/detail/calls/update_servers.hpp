#pragma once

#include <memory>
#include <vector>

#include "zkclient/detail/servers/hosts.hpp"
#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

/// Replaces the list of servers; the session moves to the new ones. Waits until it is connected to one of them.
Awaitable<Reply> update_servers(std::shared_ptr<ClientCore> client, std::vector<Host> hosts, Call call);

}  // namespace zkclient::detail
