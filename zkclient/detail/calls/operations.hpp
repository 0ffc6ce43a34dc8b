#pragma once

#include <memory>
#include <string>

#include <zkclient/export.hpp>

#include "zkclient/detail/session/core.hpp"

/// Calls that consist of several requests. All paths are full ones; everything here lives on the loop thread.
namespace zkclient::detail {

/// Creates `path` and what is missing above it, down from below the prefix.
ZKRECIPES_INTERNAL_API Awaitable<Reply> ensure(std::shared_ptr<ClientCore> client, std::string path, CreateMode mode,
                                               AclList acl, Call call);
/// A `set` whose data no other client writes, on the node that had the Stat `expected`: a lost reply is resolved by
/// looking.
ZKRECIPES_INTERNAL_API Awaitable<Reply> set_resolving(std::shared_ptr<ClientCore> client, Request request,
                                                      Stat expected, Call call);
/// Looks for the child of `parent` whose name starts with `marker`: its path and Stat, or no_node. Sees every
/// create of this session whose reply was lost, whichever server it went to.
ZKRECIPES_INTERNAL_API Awaitable<Reply> find_marked(std::shared_ptr<ClientCore> client, std::string parent,
                                                    std::string marker, Call call);
/// Creates a node whose name starts with the unique `marker`, below `parent`, which exists. A lost reply is
/// resolved by looking for the marker.
ZKRECIPES_INTERNAL_API Awaitable<Reply> create_marked(std::shared_ptr<ClientCore> client, Request request,
                                                      std::string parent, std::string marker, Call call);

}  // namespace zkclient::detail
