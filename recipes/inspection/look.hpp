#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <zkrecipes/inspect.hpp>

#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/wait_order.hpp"
#include "recipes/kernel/words.hpp"

/// What an inspection reads, by parts.
namespace zkrecipes::detail {

inline constexpr const char* inspecting = "inspect";

/// The node that is looked at, and the limits of the call.
struct Look {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< As the user wrote it.
  std::string full;
  Call call;

  std::string child(std::string_view name) const { return zk::child_path(full, name); }
  PendingReply launch(OpType type, std::string node) const {
    return client->launch(zk::make_request(type, std::move(node)), call);
  }
  Error error(const Reply& reply) const { return zk::to_error(reply, inspecting, path); }
};
using LookPtr = std::shared_ptr<const Look>;

using NodeNames = std::vector<std::string>;
using Contenders = std::vector<Contender>;

/// The node as a contender that neither holds nor waits.
Contender to_contender(std::string name, Reply node);

/// Replies to one read of each of these nodes, all in one flight; of one that is gone no_node. Errors: any other one.
Awaitable<Result<std::vector<Reply>>> read_replies(LookPtr look, OpType type, NodeNames nodes);
/// The nodes with these names below `folder`; those that are gone by now are left out.
Awaitable<Result<Contenders>> read_nodes(LookPtr look, std::string folder, NodeNames names);
/// The names of a folder's nodes, ordered; none if it is missing.
Awaitable<Result<NodeNames>> list_folder(LookPtr look, std::string folder);

/// The line of contenders in the folder of this name; "": in the node itself, with foreign ones.
ContendSpecPtr contenders_in(const Look& look, std::string_view folder, const ContenderNames& names);

// Each of these finds RecipeKind::unknown if what is there is none of that kind.

/// A periodic job. `children`: of its node.
Awaitable<Result<Inspection>> find_job(LookPtr look, NodeNames children);
/// The records of the migration set whose folder the node is.
Awaitable<Result<Inspection>> find_migration_set(LookPtr look);
/// The folder of the records of all sets.
Awaitable<Result<Inspection>> find_migrations(LookPtr look, NodeNames children);
/// A placement.
Awaitable<Result<Inspection>> find_placement(LookPtr look);
/// What the node itself tells: a barrier that is up, a latch, a node that somebody keeps.
Awaitable<Result<Inspection>> find_by_node(LookPtr look);
/// A node with a time to live, by the child that shows that its owner lives.
Awaitable<Result<Inspection>> find_ttl_node(LookPtr look);

}  // namespace zkrecipes::detail
