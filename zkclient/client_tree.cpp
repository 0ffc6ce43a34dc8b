// Whole paths and whole trees.

#include <zkclient/client.hpp>

#include "zkclient/detail/calls/deletes.hpp"
#include "zkclient/detail/calls/operations.hpp"
#include "zkclient/detail/calls/plan.hpp"
#include "zkclient/detail/calls/tree_removal.hpp"

namespace zkclient {

using detail::Awaitable;
using detail::Call;
using detail::CallForm;
using detail::CorePtr;
using detail::Reply;
using detail::take;
using detail::Work;

namespace {

Work<void> ensuring(const CorePtr& core, const Path& path, CreateMode mode) {
  if (mode != CreateMode::container && mode != CreateMode::persistent) {
    throw Error(Errc::invalid_argument, "ensure", path.str(), "only container and persistent nodes can be parents");
  }
  return [core, path, full = core->full(path), mode](Call limits) {
    return [](CorePtr owner, Path target, std::string node, CreateMode kind, Call call) -> Awaitable<Result<void>> {
      AclList acl = open_acl();
      Reply reply = co_await detail::ensure(owner, std::move(node), kind, std::move(acl), std::move(call));
      if (!reply.ok()) co_return detail::to_error(reply, "ensure", target.str());
      co_return Result<void>();
    }(core, path, full, mode, std::move(limits));
  };
}

Work<void> tree_removal(const CorePtr& core, const Path& path) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, "remove_tree", path.str(), why); };
  if (path.is_root()) refuse("the root of all nodes, or of the prefix, is not to be deleted");
  if (Path(core->full(path)).starts_with("/zookeeper")) refuse("ZooKeeper's own nodes are not to be deleted");
  return [core, path](Call limits) {
    return [](CorePtr owner, Path target, Call call) -> Awaitable<Result<void>> {
      std::string full = owner->full(target);
      Reply reply = co_await detail::remove_tree(owner, std::move(full), std::move(call));
      if (!reply.ok()) co_return detail::to_error(reply, "remove_tree", target.str());
      co_return Result<void>();
    }(core, path, std::move(limits));
  };
}

}  // namespace

void Client::ensure(const Path& path, CreateMode mode, const CallOptions& call) const {
  CallForm(impl(), "ensure", path.str()).wait(call, ensuring(impl(), path, mode));
}
void Client::ensure(const Path& path, CreateMode mode, const CallOptions& call, std::error_code& error) const {
  take(CallForm(impl(), "ensure", path.str()).result(call, ensuring(impl(), path, mode)), error);
}
void Client::async_ensure(const Path& path, CreateMode mode, Handler<void> handler, const CallOptions& call) const {
  CallForm(impl(), "ensure", path.str()).start(call, ensuring(impl(), path, mode), std::move(handler));
}

void Client::remove_tree(const Path& path, const CallOptions& call) const {
  CallForm(impl(), "remove_tree", path.str()).wait(call, tree_removal(impl(), path));
}
void Client::remove_tree(const Path& path, const CallOptions& call, std::error_code& error) const {
  take(CallForm(impl(), "remove_tree", path.str()).result(call, tree_removal(impl(), path)), error);
}
void Client::async_remove_tree(const Path& path, Handler<void> handler, const CallOptions& call) const {
  CallForm(impl(), "remove_tree", path.str()).start(call, tree_removal(impl(), path), std::move(handler));
}

void Client::remove_in_background(const Path& path, std::optional<Session> session) const {
  auto state = session ? std::const_pointer_cast<detail::SessionState>(session->impl()) : nullptr;
  if (state != nullptr && state->is_of_another(impl().get())) {
    throw Error(Errc::invalid_argument, "remove_in_background", path.str(), "the session is of another Client");
  }
  impl()->loop()->post(
      [core = impl(), full = impl()->full(path), state] { detail::spawn(detail::remove_this_one(core, full, state)); });
}

}  // namespace zkclient
