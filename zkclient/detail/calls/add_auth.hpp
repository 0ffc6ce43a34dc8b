#pragma once

#include <memory>

#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

/// Proves an identity to the server, on this session and on all that follow.
Awaitable<Reply> add_auth(std::shared_ptr<ClientCore> client, Credential credential, Call call);

}  // namespace zkclient::detail
