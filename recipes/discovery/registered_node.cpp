#include "recipes/discovery/registered_node.hpp"

#include <utility>

#include "recipes/discovery/instance_format.hpp"
#include "recipes/discovery/standing_node.hpp"
#include "recipes/kernel/kept_node.hpp"

namespace zkrecipes::detail {

namespace {

/// What both kinds of node have in common.
template <typename Node>
class RegisteredNodeOf : public RegisteredNode {
 public:
  explicit RegisteredNodeOf(std::shared_ptr<Node> node) : node_(std::move(node)) {}

  PresenceState state() const override { return node_->state(); }
  FencingToken token() const override { return node_->token(); }
  std::optional<Error> problem() const override { return node_->problem(); }
  zkclient::Subscription on_state(StateListener listener) override { return node_->on_state(std::move(listener)); }

  CallForm form(const char* operation, std::size_t payload) const override {
    return CallForm(node_->spec().client, operation, node_->spec().path).payload(payload);
  }
  Awaitable<Result<void>> wait_present(Call call) override { return Node::wait_present(node_, std::move(call)); }

 protected:
  const std::shared_ptr<Node> node_;
};

class KeptRegisteredNode final : public RegisteredNodeOf<KeptNode> {
 public:
  using RegisteredNodeOf::RegisteredNodeOf;

  void end() noexcept override {
    node_->end_listeners();
    node_->drop();
  }
  CallForm entering_form(std::size_t payload) const override { return form(registering_instance, payload).endless(); }
  Awaitable<Result<void>> enter(Call call) override { return wait_present(std::move(call)); }
  void begin() override {}
  Awaitable<Result<void>> write(std::string data, Call call) override {
    return KeptNode::update(node_, std::move(data), std::move(call));
  }
  Awaitable<Result<void>> take_away(Call call) override { return KeptNode::leave(node_, std::move(call)); }
};

class StandingRegisteredNode final : public RegisteredNodeOf<StandingNode> {
 public:
  StandingRegisteredNode(std::shared_ptr<StandingNode> node, bool permanent, std::string data)
      : RegisteredNodeOf(std::move(node)), permanent_(permanent), data_(std::move(data)) {}

  void end() noexcept override {
    node_->end_listeners();
    const bool stays = permanent_ && node_->state() == PresenceState::present;
    if (!stays) StandingNode::drop(node_);
  }
  CallForm entering_form(std::size_t payload) const override { return form(registering_instance, payload); }
  Awaitable<Result<void>> enter(Call call) override { return write(data_, std::move(call)); }
  void begin() override { StandingNode::begin(node_, data_); }
  Awaitable<Result<void>> write(std::string data, Call call) override {
    return StandingNode::put(node_, std::move(data), std::move(call));
  }
  Awaitable<Result<void>> take_away(Call call) override { return StandingNode::remove(node_, std::move(call)); }

 private:
  const bool permanent_;
  const std::string data_;  // As it is registered.
};

RegisteredNodePtr make_kept(RegisteredNodeSpec spec) {
  KeptNodeSpec kept;
  kept.client = std::move(spec.client);
  kept.path = std::move(spec.path);
  kept.node = std::move(spec.node);
  kept.witnesses = std::move(spec.witnesses);
  kept.acl = std::move(spec.acl);
  kept.conflict = spec.conflict;
  kept.operation = registering_instance;
  return std::make_shared<KeptRegisteredNode>(KeptNode::start(std::move(kept), std::move(spec.data)));
}

RegisteredNodePtr make_standing(RegisteredNodeSpec spec) {
  OwnedNodeSpec standing;
  standing.client = std::move(spec.client);
  standing.path = std::move(spec.path);
  standing.node = std::move(spec.node);
  standing.acl = std::move(spec.acl);
  standing.conflict = spec.conflict;
  standing.operation = registering_instance;
  return std::make_shared<StandingRegisteredNode>(StandingNode::make(std::move(standing)),
                                                  spec.type == ServiceType::permanent, std::move(spec.data));
}

}  // namespace

RegisteredNodePtr make_registered_node(RegisteredNodeSpec spec) {
  const bool dynamic = spec.type == ServiceType::dynamic || spec.type == ServiceType::dynamic_sequential;
  return dynamic ? make_kept(std::move(spec)) : make_standing(std::move(spec));
}

std::string written_instance(const ServiceInstance& instance, const Path& node, const char* operation) {
  WrittenInstance text = write_instance(instance);
  if (!text.bytes) {
    throw Error(text.too_large ? Errc::too_large : Errc::invalid_argument, operation, node.str(), text.defect);
  }
  return std::move(*text.bytes);
}

}  // namespace zkrecipes::detail
