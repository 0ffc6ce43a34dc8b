#pragma once

#include <memory>
#include <string>

#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

/// Deletes `path` (a full one) and everything below it; a node that is missing is no error.
Awaitable<Reply> remove_tree(std::shared_ptr<ClientCore> client, std::string path, Call call);

}  // namespace zkclient::detail
