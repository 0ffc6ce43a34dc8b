// Which nodes are known?

#include "recipes/views/mirror_model.hpp"

#include <utility>

namespace zkrecipes::detail {

MirrorModel::Node* MirrorModel::find(NodeId id) const {
  const auto found = nodes_.find(id);
  return found == nodes_.end() ? nullptr : found->second.get();
}

void MirrorModel::discover(Node& parent, std::string name, std::uint64_t number) {
  if (!scope_.filtered) {
    make_child(parent, std::move(name), number);
  } else if (filter_.add(parent.id, name, number)) {
    ++unjudged_[number];
  }
}

void MirrorModel::make_child(Node& parent, std::string name, std::uint64_t number) {
  auto made = std::make_unique<Node>();
  Node& node = *made;
  node.id = ++last_node_;
  node.name = std::move(name);
  node.parent = &parent;
  node.depth = parent.depth + 1;
  parent.children.emplace(node.name, &node);
  nodes_.emplace(node.id, std::move(made));
  if (wants_data(node)) {
    unsettle(node, MirrorSide::data, number);
  } else {
    if (wants_list(node)) unsettle(node, MirrorSide::list, number);
    show(node, {.name = node.name});
  }
}

void MirrorModel::forget(Node& node) {
  forget_children(node);
  hide(node);
  node.parent->children.erase(node.name);
  drop(node);
}

void MirrorModel::forget_children(Node& node) {
  end_numbers(filter_.forget(node.id));
  if (node.children.empty()) return;
  for (const auto& [name, child] : std::exchange(node.children, {})) {
    forget_children(*child);
    if (child->shown != nullptr) --size_;
    set_incomplete(*child, false);
    drop(*child);
  }
  if (node.directory == nullptr) return;
  node.directory = nullptr;
  if (node.parent != nullptr && node.shown != nullptr) {
    writable(*node.parent).put_children(edition_, node.name, nullptr);
  }
  touch();
}

void MirrorModel::drop(Node& node) {
  for (Side* side : {&node.data, &node.list}) {
    settle(*side);
    refund(*side);
  }
  data_bytes_ -= node.bytes;
  troubled_.erase(node.id);
  nodes_.erase(node.id);
}

}  // namespace zkrecipes::detail
