#include <zkrecipes/persistent_node.hpp>

#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/kept_node.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/nodes/node_touch.hpp"

namespace zkrecipes {

using namespace words;
using detail::KeptNode;
using detail::NodeTouch;

namespace {

constexpr const char* keeping_node = "keep node";
constexpr const char* setting_data = "set data of node";
constexpr const char* removing_node = "remove node";

CallForm node_form(const std::shared_ptr<KeptNode>& node, const char* operation) {
  return CallForm(node->spec().client, operation, node->spec().path);
}

auto created_work(std::shared_ptr<KeptNode> node) {
  return [node = std::move(node)](Call call) { return KeptNode::wait_present(node, std::move(call)); };
}

auto data_work(std::shared_ptr<KeptNode> node, std::string data) {
  return [node = std::move(node), data = std::move(data)](Call call) {
    return KeptNode::update(node, data, std::move(call), setting_data);
  };
}

auto remove_work(std::shared_ptr<KeptNode> node, std::shared_ptr<NodeTouch> touch) {
  return [node = std::move(node), touch = std::move(touch)](Call call) {
    if (touch != nullptr) return NodeTouch::remove(touch, std::move(call));
    return KeptNode::leave(node, std::move(call), removing_node);
  };
}

detail::KeptNodeSpec spec_at(const zkclient::Client& client, const Path& path, const Path& node,
                             const zkclient::AclList& acl, Conflict conflict) {
  if (path.is_root()) throw Error(Errc::invalid_argument, keeping_node, path.str(), "the root is always there");
  detail::require_acl(keeping_node, path, acl);
  const auto& core = client.impl();
  detail::KeptNodeSpec spec;
  spec.client = core;
  spec.path = path.str();
  spec.node = core->full(node);
  spec.acl = acl;
  spec.conflict = conflict;
  spec.operation = keeping_node;
  return spec;
}

void require_kept_mode(const Path& path, CreateMode mode) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, keeping_node, path.str(), why); };
  switch (mode) {
    case CreateMode::ephemeral:
    case CreateMode::ephemeral_sequential:
    case CreateMode::persistent:
    case CreateMode::container: return;
    case CreateMode::persistent_ttl: return refuse("a node with a time to live is a PersistentTtlNode");
    default: return refuse("a sequential node has to be ephemeral");
  }
}

using Kept = std::pair<std::shared_ptr<KeptNode>, std::shared_ptr<NodeTouch>>;

Kept keep_node(const zkclient::Client& client, const Path& path, std::string data,
               const PersistentNodeOptions& options) {
  require_kept_mode(path, options.mode);
  const Path directory = path.parent();
  const Path node = options.protection ? directory / fmt::format("_c_{}-{}", zk::make_uuid(), path.name()) : path;
  detail::KeptNodeSpec spec = spec_at(client, path, node, options.acl, options.conflict);
  spec.mode = options.mode;
  if (!spec.lasting()) spec.witnesses = spec.client->full(Path(directory.str() + "-presence"));
  return {KeptNode::start(std::move(spec), std::move(data)), nullptr};
}

Kept keep_ttl_node(const zkclient::Client& client, const Path& path, std::chrono::milliseconds ttl, std::string data,
                   const PersistentTtlNodeOptions& options) {
  if (ttl.count() < 1 || ttl > PersistentTtlNode::max_ttl)
    throw Error(Errc::invalid_argument, keeping_node, path.str(), "the time to live is out of range");
  if (options.child.find('/') != std::string::npos)
    throw Error(Errc::invalid_path, keeping_node, path.str(), "the child's name has a slash");
  std::string child = client.impl()->full(path / options.child);
  detail::KeptNodeSpec spec = spec_at(client, path, path, options.acl, options.conflict);
  spec.mode = CreateMode::persistent_ttl;
  spec.ttl_ms = ttl.count();
  spec.child = child;
  std::shared_ptr<KeptNode> node = KeptNode::start(std::move(spec), std::move(data));
  std::shared_ptr<NodeTouch> touch = NodeTouch::start(node, std::move(child), ttl);
  return {std::move(node), std::move(touch)};
}

}  // namespace

// --- What both have --------------------------------------------------------------------------------------------------

PersistentNodeBase::PersistentNodeBase(zkclient::Client client, Path path, Kept kept) noexcept
    : client_(std::move(client)),
      path_(std::move(path)),
      node_(std::move(kept.first)),
      touch_(std::move(kept.second)) {}

PersistentNodeBase::PersistentNodeBase(PersistentNodeBase&&) noexcept = default;

PersistentNodeBase& PersistentNodeBase::operator=(PersistentNodeBase&& other) noexcept {
  if (this == &other) return *this;
  end();
  client_ = std::move(other.client_);
  path_ = std::move(other.path_);
  node_ = std::move(other.node_);
  touch_ = std::move(other.touch_);
  return *this;
}

PersistentNodeBase::~PersistentNodeBase() { end(); }

void PersistentNodeBase::end() noexcept {
  if (node_ == nullptr) return;
  node_->end_listeners();
  touch_ != nullptr ? touch_->abandon() : node_->drop();
  node_ = nullptr;
  touch_ = nullptr;
}

std::optional<Path> PersistentNodeBase::node() const {
  const std::string node = node_->node();
  if (node.empty()) return std::nullopt;
  return Path(node_->spec().client->stripped(node));
}

PresenceState PersistentNodeBase::state() const noexcept { return node_->state(); }
FencingToken PersistentNodeBase::token() const noexcept { return node_->token(); }

std::optional<Error> PersistentNodeBase::problem() const {
  auto problem = node_->problem();
  return problem || touch_ == nullptr ? problem : touch_->problem();
}

zkclient::Subscription PersistentNodeBase::on_state(StateListener listener) const {
  return node_->on_state(std::move(listener));
}

void PersistentNodeBase::wait_created(const CallOptions& call) const {
  node_form(node_, keeping_node).endless().wait(call, created_work(node_));
}
void PersistentNodeBase::async_wait_created(zkclient::Handler<void> handler, const CallOptions& call) const {
  node_form(node_, keeping_node).endless().start(call, created_work(node_), std::move(handler));
}

void PersistentNodeBase::set_data(std::string data, const CallOptions& call) {
  const CallForm set = node_form(node_, setting_data).payload(data.size());
  set.wait(call, data_work(node_, std::move(data)));
}
void PersistentNodeBase::async_set_data(std::string data, zkclient::Handler<void> handler, const CallOptions& call) {
  const CallForm set = node_form(node_, setting_data).payload(data.size());
  set.start(call, data_work(node_, std::move(data)), std::move(handler));
}

void PersistentNodeBase::remove(const CallOptions& call) {
  node_form(node_, removing_node).wait(call, remove_work(node_, touch_));
}
void PersistentNodeBase::async_remove(zkclient::Handler<void> handler, const CallOptions& call) {
  node_form(node_, removing_node).start(call, remove_work(node_, touch_), std::move(handler));
}

// --- The two ---------------------------------------------------------------------------------------------------------

PersistentNode::PersistentNode(zkclient::Client client, Path path, std::string data, PersistentNodeOptions options)
    : PersistentNodeBase(client, path, keep_node(client, path, std::move(data), options)) {}

PersistentTtlNode::PersistentTtlNode(zkclient::Client client, Path path, std::chrono::milliseconds ttl,
                                     std::string data, PersistentTtlNodeOptions options)
    : PersistentNodeBase(client, path, keep_ttl_node(client, path, ttl, std::move(data), options)) {}

}  // namespace zkrecipes
