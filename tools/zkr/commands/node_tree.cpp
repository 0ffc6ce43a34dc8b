#include "tools/zkr/commands/node_tree.hpp"

#include <algorithm>
#include <future>
#include <memory>
#include <set>
#include <utility>

#include "tools/zkr/cli/json.hpp"

namespace zkr {
namespace {

using zkclient::Client;
using zkclient::Errc;
using zkclient::Path;
using zkclient::Result;

/// So many nodes at a time: enough to hide the round trips, little enough to bound memory.
constexpr std::size_t batch_size = 500;

/// A call on its way.
template <typename T>
class Asked {
 public:
  /// `launch` gets the handler.
  template <typename Launch>
  explicit Asked(Launch launch) {
    auto promise = std::make_shared<std::promise<Result<T>>>();
    answer_ = promise->get_future();
    launch([promise](Result<T> result) { promise->set_value(std::move(result)); });
  }
  Result<T> take() { return answer_.get(); }

 private:
  std::future<Result<T>> answer_;
};

/// All that is asked about one node.
struct Question {
  Asked<zkclient::Children> children;
  std::optional<Asked<zkclient::NodeData>> data;
  std::optional<Asked<zkclient::NodeAcl>> acl;
};

Question ask(const Client& client, const Path& path, const TreeQuestion& wanted) {
  Question question{Asked<zkclient::Children>([&](auto handler) { client.async_children(path, std::move(handler)); }),
                    std::nullopt, std::nullopt};
  if (wanted.data) question.data.emplace([&](auto handler) { client.async_get(path, std::move(handler)); });
  if (wanted.acl) question.acl.emplace([&](auto handler) { client.async_get_acl(path, std::move(handler)); });
  return question;
}

/// False: the node has gone.
template <typename T>
bool is_there(const Result<T>& result) {
  if (!result && result.error().errc() == Errc::no_node) return false;
  if (!result) throw result.error();
  return true;
}

/// What was asked, into `node`; the names of its children. Nothing: the node has gone.
std::optional<std::vector<std::string>> answer(Question question, TreeNode& node) {
  auto children = question.children.take();
  std::optional<Result<zkclient::NodeData>> data;
  if (question.data) data = question.data->take();
  std::optional<Result<zkclient::NodeAcl>> acl;
  if (question.acl) acl = question.acl->take();
  if (!is_there(children) || (data && !is_there(*data)) || (acl && !is_there(*acl))) return std::nullopt;
  node.stat = data ? (*data)->stat : children->stat;
  if (data && !(*data)->is_null) node.data = std::move((*data)->data);
  if (acl) node.acl = std::move((*acl)->acl);
  return std::move(children->names);
}

/// A parent right before its children.
bool precedes(const TreeNode& a, const TreeNode& b) {
  return std::lexicographical_compare(
      a.below.begin(), a.below.end(), b.below.begin(), b.below.end(), [](char x, char y) {
        const auto rank = [](char c) { return c == '/' ? 0 : static_cast<unsigned char>(c) + 1; };
        return rank(x) < rank(y);
      });
}

/// Reads the nodes of one level, and tells the places of the next one.
std::vector<std::string> read_level(const Client& client, const Path& root, const std::vector<std::string>& level,
                                    const TreeQuestion& wanted, std::vector<TreeNode>& nodes) {
  const bool has_own_nodes = root.is_root() && client.prefix().is_root();
  std::vector<std::string> next;
  for (std::size_t begin = 0; begin < level.size(); begin += batch_size) {
    const std::size_t end = std::min(level.size(), begin + batch_size);
    std::vector<Question> questions;
    for (std::size_t i = begin; i < end; ++i)
      questions.push_back(ask(client, path_below(root, level[i]), wanted));
    for (std::size_t i = begin; i < end; ++i) {
      TreeNode node{.below = level[i]};
      const auto names = answer(std::move(questions[i - begin]), node);
      if (!names) continue;
      nodes.push_back(std::move(node));
      for (const std::string& name : *names) {
        std::string child = level[i] + "/" + name;
        if (has_own_nodes && child == "/zookeeper") continue;
        if (has_a_path(client, root, child)) next.push_back(std::move(child));
      }
    }
  }
  return next;
}

std::size_t depth_of(const TreeNode& node) {
  return static_cast<std::size_t>(std::count(node.below.begin(), node.below.end(), '/'));
}

bool lets_all_create(const zkclient::AclList& acl) {
  return acl.empty() || std::any_of(acl.begin(), acl.end(), [](const zkclient::Acl& entry) {
           return entry.scheme == "world" && (entry.permissions & zkclient::Acl::create) != 0;
         });
}

/// Makes a tree level by level.
class TreeWriter {
 public:
  TreeWriter(const Client& client, Path root, const TreeWriting& how)
      : client_(client), root_(std::move(root)), how_(how) {}

  void write(std::vector<TreeNode> nodes) {
    for (const TreeNode& node : nodes)
      if (!node.below.empty()) parents_.insert(node.below.substr(0, node.below.rfind('/')));
    std::stable_sort(nodes.begin(), nodes.end(),
                     [](const TreeNode& a, const TreeNode& b) { return depth_of(a) < depth_of(b); });
    for (std::size_t begin = 0; begin < nodes.size() && !trouble_;) {
      std::size_t end = begin;
      while (end < nodes.size() && end < begin + batch_size && depth_of(nodes[end]) == depth_of(nodes[begin]))
        ++end;
      write_batch(&nodes[begin], &nodes[begin] + (end - begin));
      begin = end;
    }
    close_lists();
    if (trouble_) throw *trouble_;
  }

 private:
  void write_batch(const TreeNode* begin, const TreeNode* end) {
    std::vector<Asked<zkclient::Created>> made;
    for (const TreeNode* node = begin; node != end; ++node) {
      made.emplace_back([&](auto handler) {
        client_.async_create(path_below(root_, node->below), node->data, options_for(*node), std::move(handler));
      });
    }
    std::vector<Asked<zkclient::Stat>> changed;
    for (std::size_t i = 0; i < made.size(); ++i) {
      const TreeNode& node = begin[i];
      const auto created = made[i].take();
      if (created) {
        if (gets_list_last(node)) open_.push_back(&node);
      } else if (how_.overwrite && created.error().errc() == Errc::node_exists) {
        changed.emplace_back([&](auto handler) {
          client_.async_set(path_below(root_, node.below), node.data, zkclient::any_version, std::move(handler));
        });
      } else {
        fail(created.error());
      }
    }
    for (auto& asked : changed) {
      const auto set = asked.take();
      if (!set) fail(set.error());
    }
  }

  bool gets_list_last(const TreeNode& node) const {
    return parents_.contains(node.below) && !lets_all_create(node.acl);
  }

  zkclient::CreateOptions options_for(const TreeNode& node) const {
    zkclient::CreateOptions options;
    if (!node.acl.empty()) options.acl = node.acl;
    if (gets_list_last(node)) {
      zkclient::Acl ours;
      ours.permissions = zkclient::Acl::create + zkclient::Acl::admin;
      if (how_.has_identity) {
        ours.scheme = "auth";
        ours.id = "";
      }
      options.acl.push_back(std::move(ours));
    }
    if (node.below.empty()) options.parents = true;
    return options;
  }

  /// Also when something has failed: no node is to stay open.
  void close_lists() {
    for (std::size_t begin = 0; begin < open_.size(); begin += batch_size) {
      std::vector<Asked<void>> closed;
      for (std::size_t i = begin; i < std::min(open_.size(), begin + batch_size); ++i) {
        closed.emplace_back([&](auto handler) {
          client_.async_set_acl(path_below(root_, open_[i]->below), open_[i]->acl, zkclient::any_version,
                                std::move(handler));
        });
      }
      for (auto& asked : closed) {
        const auto set = asked.take();
        if (!set) fail(set.error());
      }
    }
  }

  /// The first trouble is the one that is told.
  void fail(const zkclient::Error& error) {
    if (!trouble_) trouble_ = error;
  }

  const Client& client_;
  const Path root_;
  const TreeWriting how_;
  std::set<std::string> parents_;      // Of nodes that are written.
  std::vector<const TreeNode*> open_;  // Their lists are still to be set.
  std::optional<zkclient::Error> trouble_;
};

}  // namespace

Path path_below(const Path& root, const std::string& below) {
  if (below.empty()) return root;
  return root.is_root() ? Path(below) : Path(root.str() + below);
}

bool has_a_path(const Client& client, const Path& root, const std::string& below) {
  try {
    const Path path = path_below(root, below);
    return client.prefix().str().size() + path.str().size() <= Path::max_size;
  } catch (const zkclient::Error&) {
    return false;
  }
}

std::vector<TreeNode> read_tree(const Client& client, const Path& path, const TreeQuestion& question) {
  std::vector<TreeNode> nodes;
  std::vector<std::string> level = {""};
  for (int depth = 0; !level.empty() && (!question.depth || depth <= *question.depth); ++depth)
    level = read_level(client, path, level, question, nodes);
  if (nodes.empty()) throw zkclient::Error(Errc::no_node, "read", path.str());
  std::sort(nodes.begin(), nodes.end(), precedes);
  return nodes;
}

void write_tree(const Client& client, const Path& path, const std::vector<TreeNode>& nodes, const TreeWriting& how) {
  TreeWriter(client, path, how).write(nodes);
}

}  // namespace zkr
