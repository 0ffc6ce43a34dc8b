#pragma once

#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>

namespace zkr {

/// A node of a tree that was read.
struct TreeNode {
  std::string below = {};                // "" for the tree's root, "/a/b".
  std::optional<std::string> data = {};  // Null data, or not asked for.
  zkclient::Stat stat = {};
  zkclient::AclList acl = {};  // If it was asked for.
};

struct TreeQuestion {
  bool data = false;
  bool acl = false;
  std::optional<int> depth = {};  // Levels below the root.
};

/// The node and all below it, a parent before its children, these by their names. Not of one instant: what vanishes
/// meanwhile is left out, and so is what no Path can name. ZooKeeper's own nodes are left out below "/". Errors: Error, of
/// any node.
std::vector<TreeNode> read_tree(const zkclient::Client& client, const zkclient::Path& path,
                                const TreeQuestion& question);

zkclient::Path path_below(const zkclient::Path& root, const std::string& below);
/// Whether path_below() can be asked for, and the client for what is there: servers have nodes with longer names.
bool has_a_path(const zkclient::Client& client, const zkclient::Path& root, const std::string& below);

struct TreeWriting {
  bool overwrite = false;     // Nodes that are there get the data.
  bool has_identity = false;  // The client has proved who it is.
};

/// Makes the nodes below `path`, the root included; parents of the root as well. `nodes`: parents first. A node whose
/// access control list may not let us make its children gets that list last; until then it lets us (or, without an
/// identity, everybody) make them as well. Errors: Error, of any node (node_exists); the others of its level may have
/// been made.
void write_tree(const zkclient::Client& client, const zkclient::Path& path, const std::vector<TreeNode>& nodes,
                const TreeWriting& how);

}  // namespace zkr
