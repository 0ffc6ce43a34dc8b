#include <utility>

#include <fmt/format.h>

#include "recipes/detail/queue_core.hpp"
#include "recipes/detail/waiter.hpp"
#include "zkclient/detail/calls.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;

namespace {

constexpr const char* pushing = "queue push";

}  // namespace

Awaitable<Result<bool>> QueueCore::push(std::vector<std::string> items, std::int32_t priority, bool wait, Call call) {
  const std::string node = child_path(spec_.items, spec_.format.name(priority));
  std::vector<Transaction::Operation> creations;
  for (std::string& item : items) {
    std::vector<std::string> one;
    one.push_back(std::move(item));
    creations.emplace_back(
        Transaction::Create{Path(node), spec_.format.encode(one), CreateMode::persistent_sequential, spec_.acl});
  }
  for (;;) {
    call.bound = nullptr;
    Reply reply = co_await spec_.client->connected(call);
    if (!reply.ok()) co_return error(reply, pushing);
    call.bound = reply.session;
    std::vector<Transaction::Operation> operations = creations;
    if (spec_.capacity > 0) {
      reply = co_await see_room(creations.size(), wait, call);
      if (reply.failed(Errc::session_lost)) continue;
      if (!reply.ok()) co_return error(reply, pushing);
      if (reply.path.empty()) co_return false;
      // Everybody who pushes with a limit writes to the folder, so two cannot both find the last place free.
      operations.emplace_back(Transaction::Set{Path(spec_.items), std::move(reply.data), reply.stat.version});
    }
    Written written = co_await writer_->write(std::move(operations), call);
    switch (written.outcome) {
      case Written::Outcome::done: co_return true;
      case Written::Outcome::failed:
        if (written.reply.failed(Errc::session_lost)) continue;  // It was not sent.
        co_return error(written.reply, pushing);
      case Written::Outcome::in_doubt: written.reply.error = Errc::in_doubt; co_return error(written.reply, pushing);
      case Written::Outcome::refused: break;
    }
    if (written.code == zk::rc::bad_version) continue;  // Somebody else has pushed.
    if (written.code != zk::rc::no_node) {
      written.reply.error = zk::rc::to_errc(written.code);
      co_return error(written.reply, pushing);
    }
    reply = co_await spec_.client->ensure(spec_.items, CreateMode::persistent, spec_.acl, call);
    if (!reply.ok() && !reply.failed(Errc::session_lost)) co_return error(reply, pushing);
  }
}

// The folder of the items, as it was when there was room; with an empty path if there is none and nobody waits.
Awaitable<Reply> QueueCore::see_room(std::size_t count, bool wait, Call call) {
  for (;;) {
    Request get = zk::make_request(OpType::get, spec_.items);
    Reply folder = co_await spec_.client->perform(std::move(get), call);
    if (folder.failed(Errc::no_node)) {
      folder = co_await spec_.client->ensure(spec_.items, CreateMode::persistent, spec_.acl, call);
      if (!folder.ok()) co_return folder;
      continue;
    }
    if (!folder.ok()) co_return folder;
    folder.path = spec_.items;
    if (static_cast<std::size_t>(folder.stat.children_count) + count <= spec_.capacity) co_return folder;
    folder.path.clear();
    if (!wait) co_return folder;
    Call limits = call;
    limits.bound = nullptr;
    const auto waiter = std::make_unique<Waiter>(spec_.client, limits);
    Reply entered = co_await waiter->enter();
    if (!entered.ok()) co_return entered;
    const auto watch = waiter->make_watch(zk::WatchRegistry::Kind::children);
    Request list = zk::make_request(OpType::children, spec_.items);
    const Reply listed = co_await spec_.client->perform_watching(std::move(list), waiter->call(), watch->watch);
    if (!listed.ok() && !listed.failed(Errc::no_node)) co_return listed;
    if (!listed.ok() || listed.names.size() + count <= spec_.capacity) continue;
    Reply waited = co_await waiter->fired(watch);
    if (!waited.ok()) co_return waited;
  }
}

}  // namespace zkrecipes::detail
