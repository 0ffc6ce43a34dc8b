#pragma once

#include <optional>
#include <string>

#include <zkclient/error.hpp>

#include "recipes/commit/commit_tree.hpp"

namespace zkrecipes::detail {

/// Creates a transaction, with an entry in the inbox of each participant; the failure, if there is one.
zk::Awaitable<std::optional<zkclient::Error>> begin_transaction(TreePtr tree, std::string id, TransactionHeader header,
                                                                zk::Call call);

}  // namespace zkrecipes::detail
