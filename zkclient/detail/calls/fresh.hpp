#pragma once

#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

/// Reads what the leader has: the server that answers may lag behind the one that took an earlier write, so the read
/// goes out behind a sync, in one flight. The failure of the sync is the reply's, if the read itself worked.
ZKRECIPES_INTERNAL_API Awaitable<Reply> fresh(std::shared_ptr<ClientCore> client, Request read, Call call);

}  // namespace zkclient::detail
