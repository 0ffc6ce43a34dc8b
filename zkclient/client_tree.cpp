// Whole paths and whole trees.

#include <zkclient/client.hpp>

#include "zkclient/detail/requests/plan.hpp"

namespace zkclient {

using detail::Awaitable;
using detail::Call;
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
      Reply reply = co_await owner->ensure(std::move(node), kind, std::move(acl), std::move(call));
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
      Reply reply = co_await owner->remove_tree(std::move(full), std::move(call));
      if (!reply.ok()) co_return detail::to_error(reply, "remove_tree", target.str());
      co_return Result<void>();
    }(core, path, std::move(limits));
  };
}

}  // namespace

void Client::ensure(const Path& path, CreateMode mode, const CallOptions& call) const {
  detail::wait_for_work(impl(), call, ensuring(impl(), path, mode), "ensure", path.str()).value();
}
void Client::ensure(const Path& path, CreateMode mode, const CallOptions& call, std::error_code& error) const {
  take(detail::wait_for_work(impl(), call, ensuring(impl(), path, mode), "ensure", path.str()), error);
}
void Client::async_ensure(const Path& path, CreateMode mode, Handler<void> handler, const CallOptions& call) const {
  detail::start_work(impl(), call, ensuring(impl(), path, mode), std::move(handler), "ensure", path.str());
}

void Client::remove_tree(const Path& path, const CallOptions& call) const {
  detail::wait_for_work(impl(), call, tree_removal(impl(), path), "remove_tree", path.str()).value();
}
void Client::remove_tree(const Path& path, const CallOptions& call, std::error_code& error) const {
  take(detail::wait_for_work(impl(), call, tree_removal(impl(), path), "remove_tree", path.str()), error);
}
void Client::async_remove_tree(const Path& path, Handler<void> handler, const CallOptions& call) const {
  detail::start_work(impl(), call, tree_removal(impl(), path), std::move(handler), "remove_tree", path.str());
}

void Client::remove_in_background(const Path& path, std::optional<Session> session) const {
  auto state = session ? std::const_pointer_cast<detail::SessionState>(session->impl()) : nullptr;
  impl()->loop()->post(
      [core = impl(), full = impl()->full(path), state] { detail::spawn(core->remove_this_one(full, state)); });
}

}  // namespace zkclient
