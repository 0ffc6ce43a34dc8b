#include "recipes/queues/push_gate.hpp"

#include <utility>

#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/queues/push_words.hpp"

namespace zkrecipes::detail {

PushGate::PushGate(QueueSpecPtr spec)
    : spec_(std::move(spec)),
      client_(spec_->client),
      writer_(std::make_shared<ExactlyOnceWriter>(client_, spec_->slots, spec_->acl)) {}

Awaitable<Result<bool>> PushGate::push(std::vector<std::string> items, std::string name, WhenFull when_full, Call call,
                                       std::string reason) {
  const std::string node = zk::child_path(spec_->items, name);
  std::vector<Transaction::Operation> creations;
  for (std::string& item : items) {
    std::vector<std::string> one;
    one.push_back(std::move(item));
    creations.emplace_back(Transaction::Create{Path(node), spec_->format.encode(one, reason),
                                               CreateMode::persistent_sequential, spec_->acl});
  }
  for (;;) {
    call.bound = nullptr;
    Reply reply = co_await client_->connected(call);
    if (!reply.ok()) co_return spec_->error(reply, pushing);
    call.bound = reply.session;
    bool full = false;
    const bool limited = spec_->capacity > 0 && when_full != WhenFull::ignore;
    Written written;
    if (limited) {
      written = co_await push_in_turn(creations, full, call);
    } else {
      written = co_await writer_->write_bound(creations, call);
    }
    if (full && when_full == WhenFull::refuse) co_return false;
    if (full) {
      reply = co_await wait_for_room(creations.size(), call);
      if (!reply.ok() && !reply.failed(Errc::session_lost)) co_return spec_->error(reply, pushing);
      continue;
    }
    switch (written.outcome) {
      case Written::Outcome::done: co_return true;
      case Written::Outcome::failed:
        if (written.reply.failed(Errc::session_lost)) continue;  // It was not sent.
        co_return spec_->error(written.reply, pushing);
      case Written::Outcome::in_doubt:
        written.reply.error = Errc::in_doubt;
        co_return spec_->error(written.reply, pushing);
      case Written::Outcome::refused: break;
    }
    if (written.code == zk::rc::bad_version) continue;  // Another client has pushed.
    if (written.code != zk::rc::no_node) {
      written.reply.error = zk::rc::to_errc(written.code);
      co_return spec_->error(written.reply, pushing);
    }
    reply = co_await zk::ensure(client_, spec_->items, CreateMode::persistent, spec_->acl, call);
    if (!reply.ok() && !reply.failed(Errc::session_lost)) co_return spec_->error(reply, pushing);
  }
}

// With a limit, pushes go one after the other: each of them changes what the next one must have read.
Awaitable<Written> PushGate::push_in_turn(std::vector<Transaction::Operation> operations, bool& full, Call call) {
  Written written;
  written.reply = co_await take_turn(call);
  if (!written.reply.ok()) co_return written;
  Request get = zk::make_request(OpType::get, spec_->items);
  written.reply = co_await client_->perform(std::move(get), call);
  const Reply& folder = written.reply;
  if (folder.failed(Errc::no_node)) {
    written.outcome = Written::Outcome::refused;
    written.code = zk::rc::no_node;
  }
  if (folder.ok()) {
    full = static_cast<std::size_t>(folder.stat.children_count) + operations.size() > spec_->capacity;
    if (!full) {
      // Each push with a limit writes to the folder, so two cannot both find the last place free.
      operations.emplace_back(Transaction::Set{Path(spec_->items), folder.data, folder.stat.version});
      written = co_await writer_->write_bound(std::move(operations), call);
    }
  }
  turns_.pop_front();
  if (!turns_.empty()) turns_.front()->set();
  co_return written;
}

// Waits until all earlier pushes have had their turn; it ends when its place in the line goes.
Awaitable<Reply> PushGate::take_turn(Call call) {
  const auto turn = std::make_shared<zk::Signal>(client_->events());
  const zk::CancelScope::Guard cancelled(call.cancel, [turn] { turn->set(); });
  turns_.push_back(turn);
  Reply reply;
  while (turns_.front() != turn) {
    if (call.deadline && std::chrono::steady_clock::now() >= *call.deadline) reply.error = Errc::deadline_exceeded;
    if (call.cancel != nullptr && call.cancel->requested()) reply.error = Errc::cancelled;
    if (!reply.ok()) {
      std::erase(turns_, turn);
      break;
    }
    co_await turn->wait(call.deadline);
    turn->clear();
  }
  co_return reply;
}

Awaitable<Reply> PushGate::wait_for_room(std::size_t count, Call call) {
  call.bound = nullptr;
  const auto waiter = std::make_unique<Waiter>(client_, call);
  Reply entered = co_await waiter->enter();
  if (!entered.ok()) co_return entered;
  const auto watch = waiter->make_watch(zk::WatchRegistry::Kind::children);
  Request list = zk::make_request(OpType::children, spec_->items);
  Reply listed = co_await client_->perform_watching(std::move(list), waiter->call(), watch->watch);
  if (listed.failed(Errc::no_node)) co_return Reply{};
  if (!listed.ok() || listed.names.size() + count <= spec_->capacity) co_return listed;
  Reply waited = co_await waiter->fired(watch);
  co_return waited;
}

}  // namespace zkrecipes::detail
