#pragma once

#include <string>

#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

/// As launch() of a list of this directory's children; but of all of them, also of those that no recipe gets to see
/// (usable_names.hpp). On the loop thread.
PendingReply launch_full_list(ClientCore& client, std::string directory, const Call& call);

}  // namespace zkclient::detail
