#pragma once

#include <memory>

#include <zkclient/export.hpp>

namespace zkclient::detail {

class ClientCore;
class SessionState;

/// A use for the nodes of a session; it ends with the last copy.
using NodeUse = std::shared_ptr<void>;

/// As long as it lasts, the client does not close the session at the servers when it gives the session up (see
/// FormerSessions). On the loop thread, as is the end of the use.
ZKRECIPES_INTERNAL_API NodeUse use_nodes(ClientCore& client, const SessionState& session);

}  // namespace zkclient::detail
