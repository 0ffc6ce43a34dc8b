#pragma once

#include <memory>
#include <string>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The nearest node at or above `path` that holds a quota: the reply's `path`. no_node: there is none. Full paths.
zk::Awaitable<zk::Reply> find_quota(std::shared_ptr<zk::ClientCore> client, std::string path, zk::Call call);

/// Where an empty node of our own stands when a quota has no room for it in its place: beside the node that holds the quota,
/// as `<that node>-<kind>-<uuid>`. A name that no other client uses, so its place does not matter: it may be outside of
/// the client's prefix.
///
/// `wanted`: the full path that was refused. The reply's `path` is where it stands instead. A lost reply leaves nothing behind.
/// Fails with quota_exceeded, which tells why, if it may not stand there either; else as a create does.
zk::Awaitable<zk::Reply> create_outside_quota(std::shared_ptr<zk::ClientCore> client, std::string wanted,
                                              std::string kind, zkclient::CreateMode mode, zkclient::AclList acl,
                                              zk::Call call);

}  // namespace zkrecipes::detail
