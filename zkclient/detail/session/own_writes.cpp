#include "zkclient/detail/session/own_writes.hpp"

#include <algorithm>
#include <string_view>
#include <utility>
#include <variant>

#include "zkclient/detail/requests/sequential.hpp"

namespace zkclient::detail {
namespace {

bool is_within(std::string_view path, std::string_view root) {
  if (root == "/") return true;
  return path.starts_with(root) && (path.size() == root.size() || path[root.size()] == '/');
}

bool may_make(std::string_view path, CreateMode mode, std::string_view root) {
  return is_within(path, root) || (is_sequential(mode) && root.starts_with(path));
}

bool touches(const Transaction::Operation& operation, std::string_view root) {
  struct Touches {
    bool operator()(const Transaction::Create& create) const { return may_make(create.path.str(), create.mode, root); }
    bool operator()(const Transaction::Set& set) const { return is_within(set.path.str(), root); }
    bool operator()(const Transaction::Remove& remove) const { return is_within(remove.path.str(), root); }
    bool operator()(const Check&) const { return false; }
    std::string_view root;
  };
  return std::visit(Touches{root}, operation);
}

bool touches(const Request& request, std::string_view root) {
  switch (request.type) {
    case OpType::create: return may_make(request.path, request.mode, root);
    case OpType::set:
    case OpType::remove: return is_within(request.path, root);
    // The operations of one that its caller has given up are not known any more.
    case OpType::multi:
      return request.operations.empty() ||
             std::any_of(request.operations.begin(), request.operations.end(),
                         [root](const Transaction::Operation& one) { return touches(one, root); });
    default: return false;
  }
}

}  // namespace

OwnWrites::Watch OwnWrites::observe(std::string path, Observer observer) {
  return {*this, places_.insert(places_.end(), {std::move(path), std::move(observer)})};
}

void OwnWrites::tell(const Request& request, const std::shared_ptr<SessionState>& session) const {
  if (places_.empty() || !request.is_write()) return;
  for (const Place& place : places_) {
    if (touches(request, place.path)) place.observer(session);
  }
}

}  // namespace zkclient::detail
