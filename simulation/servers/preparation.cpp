#include "simulation/servers/preparation.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <optional>
#include <utility>

#include "simulation/servers/access.hpp"
#include "simulation/servers/owner.hpp"

namespace zktesting::simulated {
namespace {

/// The next code point of UTF-8; nothing if there is none, and U+FFFD in a real server.
std::optional<std::uint32_t> code_point(std::string_view& text) {
  const auto first = static_cast<unsigned char>(text.front());
  const std::size_t size = first < 0x80 ? 1 : first >> 5 == 6 ? 2 : first >> 4 == 14 ? 3 : first >> 3 == 30 ? 4 : 0;
  if (size == 0 || text.size() < size) return std::nullopt;
  std::uint32_t point = size == 1 ? first : first & (0xffu >> (size + 1));
  for (std::size_t i = 1; i < size; ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    if (byte >> 6 != 2) return std::nullopt;
    point = (point << 6) | (byte & 0x3fu);
  }
  text.remove_prefix(size);
  constexpr std::array<std::uint32_t, 5> least{0, 0, 0x80, 0x800, 0x10000};
  if (point < least[size]) return std::nullopt;
  return point;
}

/// Beyond U+FFFF, Java sees two surrogates, and those it refuses.
bool is_allowed(std::uint32_t point) {
  return point > 0x1f && (point < 0x7f || point > 0x9f) && (point < 0xd800 || point > 0xf8ff) && point < 0xfff0;
}

bool is_valid_name(std::string_view name) {
  if (name.empty() || name == "." || name == "..") return false;
  while (!name.empty()) {
    const std::optional<std::uint32_t> point = code_point(name);
    if (!point || !is_allowed(*point)) return false;
  }
  return true;
}

bool is_special(std::string_view path) {
  return path == "/" || path == "/zookeeper" || path == "/zookeeper/quota" || path == "/zookeeper/config";
}

/// Nothing: no path at all.
std::optional<std::string> parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  if (slash == std::string::npos || path.find('\0') != std::string::npos) return std::nullopt;
  return path.substr(0, slash);
}

std::optional<std::string> parent_of_removed(const std::string& path) {
  return is_special(path) ? std::nullopt : parent_of(path);
}

bool fits(std::int32_t version, std::int32_t expected) { return expected == -1 || expected == version; }

std::int32_t next(std::int32_t number) { return static_cast<std::int32_t>(static_cast<std::uint32_t>(number) + 1); }

std::string numbered(const std::string& path, std::int32_t number) {
  std::array<char, 16> digits{};
  std::snprintf(digits.data(), digits.size(), "%010d", number);
  return path + digits.data();
}

/// What the leader believes until the transaction is applied: it goes by the mode, not by the operation.
std::int64_t owner_by_mode(const Request& request, SessionId session) {
  if (request.flags == mode::container) return container_owner;
  if (mode::is_ttl(request.flags)) return ttl_owner(request.ttl);
  return mode::is_ephemeral(request.flags) ? session : 0;
}

/// What the servers do: they go by the operation. A create with a container's mode makes a usual node.
std::int64_t owner_by_operation(const Request& request, SessionId session) {
  if (request.op == Op::create_container) return container_owner;
  if (request.op == Op::create_ttl) return ttl_owner(request.ttl);
  return mode::is_ephemeral(request.flags) ? session : 0;
}

}  // namespace

bool is_valid_path(std::string_view path) {
  if (path == "/") return true;
  if (!path.starts_with('/')) return false;
  while (!path.empty()) {
    path.remove_prefix(1);
    const std::size_t slash = std::min(path.find('/'), path.size());
    if (!is_valid_name(path.substr(0, slash))) return false;
    path.remove_prefix(slash);
  }
  return true;
}

std::int32_t Preparation::prepare(const Request& request, Change& change) {
  change.op = request.op;
  change.path = request.path;
  switch (request.op) {
    case Op::create:
    case Op::create2:
    case Op::create_container:
    case Op::create_ttl: return create(request, change);
    default: break;
  }
  if (caller_.session_error != code::ok) return caller_.session_error;
  switch (request.op) {
    case Op::remove: return remove(request);
    case Op::set_data: return set_data(request, change);
    case Op::set_acl: return set_acl(request, change);
    case Op::check: return check(request, change);
    default: return code::unimplemented;
  }
}

std::int32_t Preparation::check_create(const Request& request) const {
  if (!mode::is_valid(request.flags)) return code::bad_arguments;
  const bool ttl = mode::is_ttl(request.flags);
  if (ttl && !tree_.options_.extended_types) return code::unimplemented;
  const Millis asked = request.op == Op::create_ttl ? request.ttl : -1;
  if (ttl ? asked <= 0 || asked > longest_ttl : asked >= 0) return code::bad_arguments;
  if (caller_.session_error != code::ok) return caller_.session_error;
  return parent_of(request.path) ? code::ok : code::bad_arguments;
}

std::int32_t Preparation::create(const Request& request, Change& change) {
  if (const std::int32_t error = check_create(request); error != code::ok) return error;
  const std::string parent_path = *parent_of(request.path);
  std::optional<std::vector<Acl>> acl = expanded(request.acl, caller_.auth);
  if (!acl) return code::invalid_acl;
  Record parent = find(parent_path);
  if (!parent.exists) return code::no_node;
  if (!permits(*parent.acl, perms::create, caller_.auth)) return code::no_auth;
  if (mode::is_sequential(request.flags)) change.path = numbered(request.path, parent.creations);
  if (!is_valid_path(change.path)) return code::bad_arguments;
  if (find(change.path).exists) return code::node_exists;
  if (kind_of(parent.owner, tree_.options_.extended_types) == OwnerKind::session)
    return code::no_children_for_ephemerals;

  parent.creations = next(parent.creations);
  ++parent.children;
  change.version = parent.creations;
  change.owner = owner_by_operation(request, caller_.session);
  change.data = request.data;
  change.acl = std::move(*acl);
  records_[parent_path] = std::move(parent);
  records_[change.path] = {.exists = true, .acl = change.acl, .owner = owner_by_mode(request, caller_.session)};
  return code::ok;
}

std::int32_t Preparation::remove(const Request& request) {
  const std::optional<std::string> parent_path = parent_of_removed(request.path);
  if (!parent_path) return code::bad_arguments;
  Record parent = find(*parent_path);
  if (!parent.exists) return code::no_node;
  if (!permits(*parent.acl, perms::remove, caller_.auth)) return code::no_auth;
  const Record node = find(request.path);
  if (!node.exists) return code::no_node;
  if (!fits(node.version, request.version)) return code::bad_version;
  if (node.children > 0) return code::not_empty;
  forget(request.path, *parent_path, std::move(parent));
  return code::ok;
}

std::int32_t Preparation::prepare_delete_container(const std::string& path, Change& change) {
  const std::optional<std::string> parent_path = parent_of_removed(path);
  if (!parent_path) return code::bad_arguments;
  const Record node = find(path);
  if (!node.exists) return code::no_node;
  if (node.children > 0) return code::not_empty;
  if (kind_of(node.owner, tree_.options_.extended_types) == OwnerKind::session) return code::bad_version;
  change.op = Op::remove;
  change.path = path;
  forget(path, *parent_path, find(*parent_path));
  return code::ok;
}

void Preparation::forget(const std::string& path, const std::string& parent_path, Record parent) {
  --parent.children;
  records_[parent_path] = std::move(parent);
  records_[path] = {};
}

std::int32_t Preparation::find_for(const Request& request, std::int32_t wanted, Record& record) const {
  record = find(request.path);
  if (!record.exists) return code::no_node;
  return permits(*record.acl, wanted, caller_.auth) ? code::ok : code::no_auth;
}

std::int32_t Preparation::set_data(const Request& request, Change& change) {
  if (!is_valid_path(request.path)) return code::bad_arguments;
  Record node;
  if (const std::int32_t error = find_for(request, perms::write, node); error != code::ok) return error;
  if (!fits(node.version, request.version)) return code::bad_version;
  node.version = next(node.version);
  change.version = node.version;
  change.data = request.data;
  records_[request.path] = std::move(node);
  return code::ok;
}

std::int32_t Preparation::set_acl(const Request& request, Change& change) {
  if (!is_valid_path(request.path)) return code::bad_arguments;
  std::optional<std::vector<Acl>> acl = expanded(request.acl, caller_.auth);
  if (!acl) return code::invalid_acl;
  Record node;
  if (const std::int32_t error = find_for(request, perms::admin, node); error != code::ok) return error;
  if (!fits(node.aversion, request.version)) return code::bad_version;
  change.version = next(node.aversion);
  change.acl = std::move(*acl);
  return code::ok;
}

std::int32_t Preparation::check(const Request& request, Change& change) {
  if (!is_valid_path(request.path)) return code::bad_arguments;
  Record node;
  if (const std::int32_t error = find_for(request, perms::read, node); error != code::ok) return error;
  if (!fits(node.version, request.version)) return code::bad_version;
  change.version = next(node.version);
  return code::ok;
}

Preparation::Record Preparation::find(const std::string& path) const {
  if (const auto known = records_.find(path); known != records_.end()) return known->second;
  const Tree::Node* node = tree_.find(path);
  if (node == nullptr) return {};
  return {.exists = true,
          .acl = node->acl,
          .owner = node->stat.ephemeral_owner,
          .version = node->stat.version,
          .aversion = node->stat.aversion,
          .creations = node->stat.cversion,
          .children = static_cast<std::int64_t>(node->children.size())};
}

}  // namespace zktesting::simulated
