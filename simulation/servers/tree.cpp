#include "simulation/servers/tree.hpp"

#include <algorithm>
#include <utility>

#include "simulation/servers/access.hpp"
#include "simulation/servers/preparation.hpp"

namespace zktesting::simulated {
namespace {

SharedAcl open_to_all(std::int32_t perms) { return std::vector<Acl>{{perms, {"world", "anyone"}}}; }

bool makes_a_node(Op op) {
  return op == Op::create || op == Op::create2 || op == Op::create_container || op == Op::create_ttl;
}

Txn failed(Txn txn, std::int32_t error) {
  txn.op = Op::error;
  txn.error = error;
  txn.changes.clear();
  return txn;
}

/// What follows each part's header in a multi, and the header itself. A container or a TTL node is reported as a create2.
void add_result(Encoder& body, Op op, std::int32_t error, std::string_view result) {
  const Op reported = op == Op::create_container || op == Op::create_ttl ? Op::create2 : op;
  body.int32(static_cast<std::int32_t>(reported)).byte(false).int32(error).raw(result);
}

void end_results(Encoder& body) { body.int32(-1).byte(true).int32(-1); }

void add_error(Encoder& body, std::int32_t error) {
  add_result(body, Op::error, error, Encoder().int32(error).bytes());
}

/// A failed multi has errors only: 0 before the part that failed, runtime_inconsistency behind it.
void fail_all(std::vector<Change>& changes, std::size_t at, std::int32_t error) {
  for (std::size_t i = 0; i < changes.size(); ++i) {
    changes[i] = {};
    changes[i].op = Op::error;
    changes[i].error = i < at ? code::ok : i == at ? error : code::runtime_inconsistency;
  }
}

/// The reaper goes through a copy, which is a Java set.
std::vector<std::string> in_java_order(const std::set<std::string>& paths) {
  std::size_t capacity = 16;
  while (capacity < paths.size() * 4 / 3 + 1)
    capacity *= 2;
  JavaSet ordered(capacity);
  for (const std::string& path : paths)
    ordered.add(path);
  return ordered.names();
}

std::string trimmed(std::string_view text) {
  const auto is_blank = [](char c) { return static_cast<unsigned char>(c) <= ' '; };
  while (!text.empty() && is_blank(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_blank(text.back()))
    text.remove_suffix(1);
  return std::string(text);
}

}  // namespace

Tree::Tree(TreeOptions options) : options_(options) {
  const auto add = [this](const std::string& path, const char* child) {
    Node& node = nodes_[path];
    node.data = "";
    node.acl = open_to_all(perms::all);
    for (; child != nullptr; child = nullptr)
      node.children.add(child);
  };
  add("", "zookeeper");
  add("/zookeeper", "quota");
  add("/zookeeper/quota", nullptr);
  add("/zookeeper/config", nullptr);
  nodes_["/zookeeper"].children.add("config");
  Node& config = nodes_["/zookeeper/config"];
  config.acl = open_to_all(perms::read);
  config.stat.aversion = -1;
}

const Tree::Node* Tree::find(std::string_view path) const {
  const auto found = nodes_.find(path == "/" ? std::string_view() : path);
  return found == nodes_.end() ? nullptr : &found->second;
}

Tree::Node* Tree::find(std::string_view path) { return const_cast<Node*>(std::as_const(*this).find(path)); }

OwnerKind Tree::kind_of_owner(const Node& node) const {
  return kind_of(node.stat.ephemeral_owner, options_.extended_types);
}

Stat Tree::stat_of(const Node& node) const {
  Stat stat = node.stat;
  const auto children = static_cast<std::uint32_t>(node.children.size());
  stat.data_length = node.data ? static_cast<std::int32_t>(node.data->size()) : 0;
  stat.num_children = static_cast<std::int32_t>(children);
  if (kind_of_owner(node) != OwnerKind::session) stat.ephemeral_owner = 0;
  // Creations are counted. For each there was a deletion, but for the children that are there.
  stat.cversion = static_cast<std::int32_t>(static_cast<std::uint32_t>(stat.cversion) * 2 - children);
  return stat;
}

// ---- What the leader proposes -------------------------------------------------------------------

Txn Tree::prepare(const Request& request, const Caller& caller, Zxid zxid, Millis now) const {
  Txn txn{.zxid = zxid, .time = now, .session = caller.session, .op = request.op};
  if (request.malformed) return failed(std::move(txn), code::marshalling_error);
  if (request.op == Op::multi) return prepare_multi(request, caller, zxid, now);
  if (request.op == Op::reconfig) return failed(std::move(txn), code::unimplemented);
  txn.changes.resize(1);
  const std::int32_t error = Preparation(*this, caller).prepare(request, txn.changes.front());
  return error == code::ok ? txn : failed(std::move(txn), error);
}

Txn Tree::prepare_multi(const Request& request, const Caller& caller, Zxid zxid, Millis now) const {
  Txn txn{.zxid = zxid, .time = now, .session = caller.session, .op = Op::multi};
  txn.changes.resize(request.parts.size());
  Preparation preparation(*this, caller);
  for (std::size_t i = 0; i < request.parts.size(); ++i) {
    if (request.parts[i].malformed) return failed(std::move(txn), code::marshalling_error);
    txn.error = preparation.prepare(request.parts[i], txn.changes[i]);
    if (txn.error == code::ok) continue;
    fail_all(txn.changes, i, txn.error);
    break;
  }
  return txn;
}

Txn Tree::prepare_create_session(SessionId session, Millis timeout, Zxid zxid, Millis now) const {
  return {.zxid = zxid, .time = now, .session = session, .op = Op::create_session, .timeout = timeout};
}

Txn Tree::prepare_close_session(SessionId session, Zxid zxid, Millis now) const {
  Txn txn{.zxid = zxid, .time = now, .session = session, .op = Op::close_session};
  for (std::string& path : ephemerals_under("/", session)) {
    Change& change = txn.changes.emplace_back();
    change.op = Op::remove;
    change.path = std::move(path);
  }
  return txn;
}

Txn Tree::prepare_delete_container(const std::string& path, Zxid zxid, Millis now) const {
  Txn txn{.zxid = zxid, .time = now, .op = Op::delete_container};
  txn.changes.resize(1);
  const Caller nobody;
  const std::int32_t error = Preparation(*this, nobody).prepare_delete_container(path, txn.changes.front());
  return error == code::ok ? txn : failed(std::move(txn), error);
}

// ---- What every server does with it ------------------------------------------------------------

Applied Tree::apply(const Txn& txn) {
  Applied applied;
  if (txn.zxid <= last_zxid_) return applied;
  Encoder body;
  switch (txn.op) {
    case Op::error: applied.reply.error = txn.error; break;
    case Op::create_session: sessions_[txn.session] = txn.timeout; break;
    case Op::close_session: close(txn.session, txn, applied.events); break;
    case Op::multi: apply_multi(txn, applied); break;
    default:
      applied.reply.error = apply(txn.changes.front(), txn, body, applied.events);
      if (applied.reply.error == code::ok) applied.reply.body = body.take();
  }
  last_zxid_ = txn.zxid;
  return applied;
}

void Tree::apply_multi(const Txn& txn, Applied& applied) {
  Encoder results;
  for (const Change& change : txn.changes) {
    Encoder result;
    const std::int32_t error = apply(change, txn, result, applied.events);
    if (change.op == Op::error || error != code::ok)
      add_error(results, error);
    else
      add_result(results, change.op, code::ok, result.bytes());
  }
  end_results(results);
  // The reply's header says that all is well; but a session that has moved is the connection's end.
  if (txn.error == code::session_moved)
    applied.reply.error = txn.error;
  else
    applied.reply.body = results.take();
}

void Tree::close(SessionId session, const Txn& txn, std::vector<TreeEvent>& events) {
  const auto own = ephemerals_.extract(session);
  for (const Change& change : txn.changes)
    remove(change.path, txn.zxid, events);
  if (!own.empty())
    for (const std::string& path : own.mapped().names())
      remove(path, txn.zxid, events);
  sessions_.erase(session);
}

std::int32_t Tree::apply(const Change& change, const Txn& txn, Encoder& body, std::vector<TreeEvent>& events) {
  if (change.op == Op::error) return change.error;
  if (change.op == Op::remove) return remove(change.path, txn.zxid, events);
  if (makes_a_node(change.op)) {
    const std::int32_t error = create(change, txn, events);
    if (error != code::ok) return error;
    body.buffer(change.path);
    if (change.op != Op::create) body.stat(stat_of(*find(change.path)));
    return code::ok;
  }
  if (change.op == Op::check) return code::ok;
  Node* node = find(change.path);
  if (node == nullptr) return code::no_node;
  if (change.op == Op::set_data) {
    node->data = change.data;
    node->stat.version = change.version;
    node->stat.mtime = txn.time;
    node->stat.mzxid = txn.zxid;
    events.push_back({EventType::data_changed, change.path, node->acl});
  } else {
    node->acl = change.acl;
    node->stat.aversion = change.version;
  }
  body.stat(stat_of(*node));
  return code::ok;
}

std::int32_t Tree::create(const Change& change, const Txn& txn, std::vector<TreeEvent>& events) {
  const std::size_t slash = change.path.rfind('/');
  const std::string parent_path = change.path.substr(0, slash);
  Node* parent = find(parent_path);
  if (parent == nullptr) return code::no_node;
  if (!parent->children.add(change.path.substr(slash + 1))) return code::node_exists;
  if (change.version > parent->stat.cversion) {
    parent->stat.cversion = change.version;
    parent->stat.pzxid = txn.zxid;
  }
  Node& node = nodes_[change.path];
  node.data = change.data;
  node.acl = change.acl;
  node.stat = {.czxid = txn.zxid, .mzxid = txn.zxid, .ctime = txn.time, .mtime = txn.time};
  node.stat.pzxid = txn.zxid;
  node.stat.ephemeral_owner = change.owner;
  note_owner(change.path, node);
  events.push_back({EventType::created, change.path, node.acl});
  events.push_back({EventType::children_changed, parent_path.empty() ? "/" : parent_path, parent->acl});
  return code::ok;
}

std::int32_t Tree::remove(const std::string& path, Zxid zxid, std::vector<TreeEvent>& events) {
  const std::size_t slash = path.rfind('/');
  const std::string parent_path = path.substr(0, slash);
  Node* parent = find(parent_path);
  if (parent == nullptr) return code::no_node;
  const auto node = nodes_.find(path);
  if (node == nodes_.end()) return code::no_node;
  parent->children.remove(std::string_view(path).substr(slash + 1));
  parent->stat.pzxid = std::max(parent->stat.pzxid, zxid);
  forget_owner(path, node->second);
  events.push_back({EventType::deleted, path, node->second.acl});
  nodes_.erase(node);
  events.push_back({EventType::children_changed, parent_path.empty() ? "/" : parent_path, parent->acl});
  return code::ok;
}

void Tree::note_owner(const std::string& path, const Node& node) {
  switch (kind_of_owner(node)) {
    case OwnerKind::container: containers_.insert(path); break;
    case OwnerKind::ttl: ttls_.insert(path); break;
    case OwnerKind::session: ephemerals_[node.stat.ephemeral_owner].add(path); break;
    case OwnerKind::nobody: break;
  }
}

void Tree::forget_owner(const std::string& path, const Node& node) {
  containers_.erase(path);
  ttls_.erase(path);
  if (const auto own = ephemerals_.find(node.stat.ephemeral_owner); own != ephemerals_.end()) own->second.remove(path);
}

// ---- Reading --------------------------------------------------------------------------------------

Reply Tree::read(const Request& request, const Caller& caller) const {
  if (caller.session_error != code::ok) return {caller.session_error, {}};
  if (request.malformed) return {code::marshalling_error, {}};
  Encoder body;
  const std::int32_t error = read_one(request, caller, body);
  if (error != code::ok) return {error, {}};
  return {code::ok, body.take()};
}

std::int32_t Tree::read_one(const Request& request, const Caller& caller, Encoder& body) const {
  switch (request.op) {
    case Op::sync: body.buffer(request.path); return code::ok;
    case Op::get_ephemerals: body.strings(ephemerals_under(request.path, caller.session)); return code::ok;
    case Op::multi_read: read_multi(request, caller, body); return code::ok;
    case Op::exists:
      if (request.path.find('\0') != std::string::npos) return code::bad_arguments;
      break;
    default: break;
  }
  const Node* node = find(request.path);
  if (node == nullptr) return code::no_node;
  if (request.op == Op::get_acl) return read_acl(*node, caller, body);
  if (request.op == Op::exists) {
    body.stat(stat_of(*node));
    return code::ok;
  }
  if (!permits(*node->acl, perms::read, caller.auth)) return code::no_auth;
  switch (request.op) {
    case Op::get_data: body.nullable(node->data).stat(stat_of(*node)); return code::ok;
    case Op::get_children: body.strings(node->children.names()); return code::ok;
    case Op::get_children2: body.strings(node->children.names()).stat(stat_of(*node)); return code::ok;
    case Op::get_all_children_number: body.int32(count_below(request.path)); return code::ok;
    default: return code::unimplemented;
  }
}

std::int32_t Tree::read_acl(const Node& node, const Caller& caller, Encoder& body) const {
  if (!permits(*node.acl, perms::read | perms::admin, caller.auth)) return code::no_auth;
  std::vector<Acl> shown = *node.acl;
  if (!permits(*node.acl, perms::admin, caller.auth))
    for (Acl& entry : shown)
      if (entry.id.scheme == "digest") entry.id.id = entry.id.id.substr(0, entry.id.id.find(':')) + ":x";
  body.acl(shown).stat(stat_of(node));
  return code::ok;
}

void Tree::read_multi(const Request& request, const Caller& caller, Encoder& body) const {
  for (const Request& part : request.parts) {
    Encoder result;
    const std::int32_t error = read_one(part, caller, result);
    if (error != code::ok)
      add_error(body, error);
    else
      add_result(body, part.op, code::ok, result.bytes());
  }
  end_results(body);
}

std::vector<std::string> Tree::ephemerals_under(std::string_view prefix, SessionId session) const {
  const auto own = ephemerals_.find(session);
  if (own == ephemerals_.end()) return {};
  std::vector<std::string> paths = own->second.clone().names();
  const std::string bare = trimmed(prefix);
  if (!bare.empty() && bare != "/")
    std::erase_if(paths, [&](const std::string& path) { return !path.starts_with(prefix); });
  return paths;
}

/// As real servers count it: the root, which they keep under two names, neither adds to "/" nor to others.
std::int32_t Tree::count_below(const std::string& path) const {
  if (path == "/") return static_cast<std::int32_t>(nodes_.size()) - 1;
  if (path.empty()) return static_cast<std::int32_t>(nodes_.size());
  const std::string prefix = path + "/";
  std::int32_t count = 0;
  for (auto node = nodes_.lower_bound(prefix); node != nodes_.end() && node->first.starts_with(prefix); ++node)
    ++count;
  return count;
}

// ---- What else servers ask -------------------------------------------------------------------------

std::vector<std::string> Tree::due_for_reaper(Millis now) const {
  std::vector<std::string> due;
  for (const std::string& path : in_java_order(containers_)) {
    const Node* node = find(path);
    if (node->children.empty() && node->stat.cversion > 0) due.push_back(path);
  }
  for (const std::string& path : in_java_order(ttls_)) {
    const Node* node = find(path);
    if (node->children.empty() && now - node->stat.mtime > ttl_of(node->stat.ephemeral_owner)) due.push_back(path);
  }
  return due;
}

std::optional<Stat> Tree::stat(std::string_view path) const {
  const Node* node = find(path);
  if (node == nullptr) return std::nullopt;
  return stat_of(*node);
}

std::map<SessionId, std::set<std::string>> Tree::ephemerals() const {
  std::map<SessionId, std::set<std::string>> all;
  for (const auto& [session, paths] : ephemerals_)
    for (std::string& path : paths.names())
      all[session].insert(std::move(path));
  return all;
}

std::int64_t Tree::approximate_data_size() const {
  std::size_t size = 1;  // The root's other name, "/".
  for (const auto& [path, node] : nodes_)
    size += path.size() + (node.data ? node.data->size() : 0);
  return static_cast<std::int64_t>(size);
}

void Tree::set_config(std::string text, Millis now) {
  Node& config = nodes_["/zookeeper/config"];
  config.data = std::move(text);
  config.stat.version = -1;
  config.stat.mtime = now;
}

bool operator==(const Tree& left, const Tree& right) {
  return left.last_zxid_ == right.last_zxid_ && left.sessions_ == right.sessions_ && left.nodes_ == right.nodes_;
}

}  // namespace zktesting::simulated
