#include "recipes/values/transaction_set.hpp"

#include <algorithm>
#include <cstdio>
#include <set>
#include <utility>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

using Operations = std::vector<Transaction::Operation>;

namespace {

constexpr const char* probe_prefix = "_c_";

std::int32_t version_after(std::int32_t version) noexcept {
  return static_cast<std::int32_t>(static_cast<std::uint32_t>(version) + 1);
}

// Leaves nothing behind, and fails if it is there.
void add_absence_check(Operations& operations, const std::string& path, const zkclient::AclList& acl) {
  operations.emplace_back(Transaction::Create{Path(path), std::string(), CreateMode::persistent, acl});
  operations.emplace_back(Transaction::Remove{Path(path), any_version});
}

void add_list_check(Operations& operations, const std::string& path, const SeenList& list, const zkclient::AclList& acl,
                    std::string_view id) {
  if (!list.fixed) {
    const std::string probe = zk::child_path(path, probe_prefix + std::string(id) + "-");
    char number[16] = {};
    std::snprintf(number, sizeof number, "%010d", list.created);
    operations.emplace_back(Transaction::Create{Path(probe), std::string(), CreateMode::persistent_sequential, acl});
    operations.emplace_back(Transaction::Remove{Path(probe + number), any_version});
  }
  for (const std::string& name : list.names)
    operations.emplace_back(Check{Path(zk::child_path(path, name)), any_version});
}

}  // namespace

// The server counts creations, and shows that number twice, less the children that are left.
std::int32_t creations_of(const zkclient::Stat& stat) noexcept {
  const auto twice =
      static_cast<std::uint32_t>(stat.children_version) + static_cast<std::uint32_t>(stat.children_count);
  return static_cast<std::int32_t>(twice / 2);
}

void TransactionSet::add(const std::string& path, SeenNode seen) {
  Node node;
  if (seen.exists) node.data = seen.data;
  node.version = seen.version;
  node.seen = std::move(seen);
  nodes_.emplace(path, std::move(node));
}

void TransactionSet::add_list(const std::string& path, SeenList list) { lists_.emplace(path, std::move(list)); }

std::vector<std::string> TransactionSet::paths() const {
  std::vector<std::string> all;
  for (const auto& [path, node] : nodes_)
    all.push_back(path);
  return all;
}

const std::optional<std::string>& TransactionSet::data(const std::string& path) const { return nodes_.at(path).data; }

std::vector<std::string> TransactionSet::names(const std::string& path) const {
  const SeenList& list = lists_.at(path);
  std::set<std::string> names(list.names.begin(), list.names.end());
  for (const Change& change : changes_) {
    if (zk::parent_of(change.path) != path || change.path == path) continue;
    const std::string name(zk::name_of(change.path));
    if (change.kind == Kind::create) names.insert(name);
    if (change.kind == Kind::remove) names.erase(name);
  }
  return {names.begin(), names.end()};
}

// Behind the first change of a node the transaction itself knows what is there.
void TransactionSet::change(Kind kind, const std::string& path, Node& node, std::string data) {
  const std::int32_t expected = node.first ? any_version : node.version;
  if (!node.first) node.first = kind;
  changes_.push_back({kind, path, data, expected});
  node.version = kind == Kind::set ? version_after(node.version) : 0;
  // -1 means any version: nobody could expect it.
  if (kind == Kind::set && node.version == any_version) {
    changes_.push_back({kind, path, data, any_version});
    node.version = version_after(node.version);
  }
  node.data = std::move(data);
  if (kind == Kind::remove) node.data.reset();
}

std::optional<Errc> TransactionSet::set(const std::string& path, std::string data) {
  Node& node = nodes_.at(path);
  if (!node.data) return Errc::no_node;
  change(Kind::set, path, node, std::move(data));
  return std::nullopt;
}

std::optional<Errc> TransactionSet::create(const std::string& path, std::string data) {
  Node& node = nodes_.at(path);
  if (node.data) return Errc::node_exists;
  const std::string parent = zk::parent_of(path);
  const auto known = nodes_.find(parent);
  // Of a parent that was not read is known whether it was there.
  const bool below_nothing =
      known != nodes_.end() ? !known->second.data.has_value() : !node.seen.exists && node.seen.missing != path;
  if (below_nothing) return Errc::no_node;
  change(Kind::create, path, node, std::move(data));
  return std::nullopt;
}

std::optional<Errc> TransactionSet::remove(const std::string& path) {
  Node& node = nodes_.at(path);
  if (!node.data) return Errc::no_node;
  if (knows_list(path) && !names(path).empty()) return Errc::not_empty;
  change(Kind::remove, path, node, {});
  return std::nullopt;
}

Operations TransactionSet::operations(const zkclient::AclList& acl, std::string_view id, bool writing) const {
  Operations all;
  // Lists first: the other checks make children, too.
  for (const auto& [path, list] : lists_)
    add_list_check(all, path, list, acl, id);
  std::set<std::string> missing;
  for (const auto& [path, node] : nodes_) {
    const bool changed = writing && node.first.has_value();
    if (!node.seen.exists) {
      if (!changed) missing.insert(node.seen.missing);
    } else if (!changed) {
      all.emplace_back(Check{Path(path), node.seen.version});
    }
  }
  for (const std::string& path : missing) {
    const auto known = nodes_.find(path);
    const bool made = writing && known != nodes_.end() && known->second.first.has_value();
    if (!made) add_absence_check(all, path, acl);
  }
  if (!writing) return all;
  for (const Change& change : changes_) {
    switch (change.kind) {
      case Kind::set: all.emplace_back(Transaction::Set{Path(change.path), change.data, change.version}); break;
      case Kind::create:
        all.emplace_back(Transaction::Create{Path(change.path), change.data, CreateMode::persistent, acl});
        break;
      case Kind::remove: all.emplace_back(Transaction::Remove{Path(change.path), change.version}); break;
    }
  }
  return all;
}

std::string TransactionSet::uncheckable() const {
  for (const auto& [path, node] : nodes_) {
    if (node.seen.exists && node.seen.version == any_version) return path;
  }
  return {};
}

bool TransactionSet::is_conflict(const std::string& path, int code) const {
  if (code == zk::rc::not_empty) return knows_list(path);
  return code == zk::rc::bad_version || code == zk::rc::no_node || code == zk::rc::node_exists;
}

const SeenNode* TransactionSet::first_set(const std::string& path) const {
  const auto found = nodes_.find(path);
  const bool set = found != nodes_.end() && found->second.first == Kind::set;
  return set ? &found->second.seen : nullptr;
}

}  // namespace zkrecipes::detail
