// Watches: those that code on the loop arms, and the removal of those that nobody waits for any more.

#include <algorithm>

#include "zkclient/detail/session/core.hpp"

namespace zkclient::detail {

LoopWatch::~LoopWatch() {
  if (id_ != 0 && core_->current() == session_) core_->watches().remove(id_);
}

void LoopWatch::arm(const std::string& path) {
  session_ = core_->current();
  id_ = core_->watches().add(path, kind_, std::move(callback_));
}

PendingReply ClientCore::launch_watching(Request request, const Call& call, std::shared_ptr<LoopWatch> watch) {
  const PendingReply pending;
  request.watch = true;
  const bool absent_too = request.type == OpType::exists;
  auto done = [this, watch = std::move(watch), path = request.path, absent_too,
               next = pending.handler()](Reply reply) mutable {
    const bool arms = reply.ok() || (absent_too && reply.failed(Errc::no_node));
    if (arms && reply.session == current() && !reply.session->over()) {
      watch->arm(path);
    } else if (arms) {  // The answer came, but its session is over, and all its watches have been told.
      reply.error = closing() ? Errc::closed : Errc::session_lost;
    }
    next(std::move(reply));
  };
  const auto op = prepare(std::move(request), call, std::move(done));
  if (call.cancel != nullptr && call.cancel->requested()) {
    give_up(op, Errc::cancelled);
  } else {
    start_op(op);
  }
  return pending;
}

// --- Watches that nobody waits for -----------------------------------------------------------------------------------

// Never at once: the one who caused it is in the middle of its work, and may want the watch again.
void ClientCore::Connection::schedule_removals() {
  const auto due = watches.idle_due();
  if (removals_wait || !due || core->closing_ || session->over()) return;
  const auto when = std::max(*due, std::chrono::steady_clock::now());
  if (idle_watches.due() <= when) return;
  idle_watches.set(when, [self = shared_from_this()] {
    if (self->session->over()) return;
    self->remove_idle_watches();
    self->schedule_removals();
  });
}

// Straight to the C client, not through the queue: a read that arms a watch of the same node must not overtake it or be
// overtaken, and what counts is the order in which the C client gets them.
void ClientCore::Connection::remove_idle_watches() {
  if (session->raw_state() != ConnectionState::connected) {
    removals_wait = true;  // For the connection.
    return;
  }
  for (const WatchRegistry::Key& key : watches.take_idle(std::chrono::steady_clock::now())) {
    const auto op = std::make_shared<Op>();
    op->request = make_request(OpType::remove_watches, key.first);
    op->request.of_children = key.second == WatchRegistry::Kind::children;
    op->state = Op::State::in_flight;
    op->done = [weak = weak_from_this(), key](const Reply& reply) {
      const auto self = weak.lock();
      if (self == nullptr) return;
      using Removal = WatchRegistry::Removal;
      // no_node: there is no such watch, its event has overtaken us. Otherwise the server cannot remove watches.
      const bool gone = reply.ok() || reply.failed(Errc::no_node);
      const bool lost = reply.failed(Errc::in_doubt);
      if (gone) self->armed.removed(key.first, key.second);
      self->watches.removed(key, gone ? Removal::done : lost ? Removal::try_later : Removal::refused);
      self->schedule_removals();
    };
    if (!handle->submit(op)) watches.removed(key, WatchRegistry::Removal::try_later);
  }
}

}  // namespace zkclient::detail
