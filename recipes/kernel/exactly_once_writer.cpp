#include "recipes/kernel/exactly_once_writer.hpp"

#include <algorithm>
#include <utility>
#include <variant>

#include "recipes/kernel/stand_in.hpp"
#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

namespace {

constexpr std::size_t most_calls = 32;
// Then a slot is given up for another one: beyond 2^31 a version is negative, and -1 would be no condition.
constexpr std::int32_t last_version = 1 << 30;
constexpr auto pause_in_doubt = std::chrono::milliseconds(100);
constexpr std::size_t most_bytes = 64 * 1024;  // Sharing helps small ones only, and servers may have low limits.

const std::string& path_of(const Transaction::Operation& operation) {
  return std::visit([](const auto& one) -> const std::string& { return one.path.str(); }, operation);
}

}  // namespace

zkclient::Error Written::error(std::string_view during, std::string_view path) && {
  if (outcome == Outcome::in_doubt) reply.error = Errc::in_doubt;
  if (outcome == Outcome::refused) {
    reply.error = zk::rc::to_errc(code);
    // It names nodes of the recipe's own. But of a quota the caller has to know which one is full.
    if (code != zk::rc::quota_exceeded) reply.detail.clear();
  }
  return zk::to_error(reply, during, path);
}

struct ExactlyOnceWriter::Part {
  Part(zk::EventLoop& events, std::vector<Transaction::Operation> what, const Call& limits,
       std::function<void()> when_sent)
      : session(limits.bound), deadline(events), told_sent(std::move(when_sent)) {
    Request measured;
    measured.operations = std::move(what);
    bytes = measured.wire_size();
    operations = std::move(measured.operations);
  }

  std::vector<Transaction::Operation> operations;
  std::size_t bytes = 0;
  const std::shared_ptr<zk::SessionState> session;
  zk::Timer deadline;
  const std::function<void()> told_sent;
  bool sent = false;  // It may have been applied.
  bool ended = false;
  zk::Pending<Written> outcome;

  /// Whether an operation of it may decide how `other` ends: it is about the same node, or about its parent or a child.
  bool touches(const Transaction::Operation& other) const {
    const std::string& path = path_of(other);
    return std::any_of(operations.begin(), operations.end(), [&path](const Transaction::Operation& operation) {
      const std::string& own = path_of(operation);
      return own == path || zk::parent_of(own) == path || zk::parent_of(path) == own;
    });
  }
  void end(Written with) {
    if (std::exchange(ended, true)) return;
    deadline.cancel();
    outcome.arrive(std::move(with));
  }
  void give_up(Errc why) {
    Written written;
    written.outcome = sent ? Written::Outcome::in_doubt : Written::Outcome::failed;
    written.reply.error = sent ? Errc::in_doubt : why;
    written.reply.given_up = why;
    if (sent) written.reply.detail = "it was sent, and the answer has not come";
    end(std::move(written));
  }
};

ExactlyOnceWriter::ExactlyOnceWriter(std::shared_ptr<zk::ClientCore> client, std::string directory,
                                     zkclient::AclList acl, std::string family)
    : client_(std::move(client)),
      directory_(std::move(directory)),
      acl_(std::move(acl)),
      family_(std::move(family)),
      most_(most_calls) {}

ExactlyOnceWriter::~ExactlyOnceWriter() {
  for (const SlotPtr& slot : free_)
    zk::delete_in_background(client_, slot->path, slot->session);
}

std::shared_ptr<ExactlyOnceWriter> ExactlyOnceWriter::make(std::shared_ptr<zk::ClientCore> client,
                                                           std::string directory, zkclient::AclList acl,
                                                           std::string family) {
  const auto retire = [loop = client->loop()](ExactlyOnceWriter* writer) {
    loop->post([owned = std::unique_ptr<ExactlyOnceWriter>(writer)]() mutable { owned.reset(); });
  };
  return {new ExactlyOnceWriter(std::move(client), std::move(directory), std::move(acl), std::move(family)), retire};
}

Awaitable<Written> ExactlyOnceWriter::write(std::shared_ptr<ExactlyOnceWriter> self,
                                            std::vector<Transaction::Operation> operations, Call call) {
  for (;;) {
    call.bound = nullptr;
    Reply connected = co_await self->client_->connected(call);
    if (!connected.ok()) {
      Written written;
      written.reply = std::move(connected);
      co_return written;
    }
    call.bound = connected.session;
    Written written = co_await self->write_bound(operations, call);
    const bool unsent = written.outcome == Written::Outcome::failed && written.reply.failed(Errc::session_lost);
    if (!unsent) co_return written;
  }
}

Awaitable<Written> ExactlyOnceWriter::write_bound(std::vector<Transaction::Operation> operations, Call call,
                                                  std::function<void()> sent) {
  const auto part = std::make_shared<Part>(client_->events(), std::move(operations), call, std::move(sent));
  const auto give_up = [this, part](Errc why) {
    if (part->ended) return;
    std::erase(waiting_, part);
    part->give_up(why);
  };
  if (call.cancel != nullptr && call.cancel->requested()) {
    Written cancelled;
    cancelled.reply.error = cancelled.reply.given_up = Errc::cancelled;
    co_return cancelled;
  }
  const zk::CancelScope::Guard cancelled(call.cancel, [give_up] { give_up(Errc::cancelled); });
  if (call.deadline) part->deadline.set(*call.deadline, [give_up] { give_up(Errc::deadline_exceeded); });
  waiting_.push_back(part);
  send_soon();
  Written written = co_await part->outcome.get();
  co_return written;
}

// Fewer transactions when each one carries many calls.
bool ExactlyOnceWriter::may_send() const {
  return !waiting_.empty() && senders_ < std::max<std::size_t>(64 / most_, 2);
}

// Not at once: what else the loop has to do now may want to write as well.
void ExactlyOnceWriter::send_soon() {
  if (sending_soon_ || !may_send()) return;
  sending_soon_ = true;
  client_->events().defer([weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->sending_soon_ = false;
    if (!self->may_send()) return;
    ++self->senders_;
    zk::spawn(send(self));
  });
}

// Calls stay in the line until the moment in which they are sent: two senders must not overtake each other.
Awaitable<void> ExactlyOnceWriter::send(std::shared_ptr<ExactlyOnceWriter> self) {
  while (!self->waiting_.empty()) {
    Call call;
    call.bound = self->waiting_.front()->session;
    SlotPtr slot;
    Reply ready = co_await self->get_slot(call, slot);
    if (ready.ok()) ready = co_await self->client_->connected(call);
    Batch batch = self->next_batch(call.bound);
    if (ready.ok() && !batch.empty()) {
      self->send_soon();  // The rest, if there is any.
      co_await self->apply(std::move(batch), std::move(slot));
      continue;
    }
    if (slot != nullptr) self->free_.push_back(std::move(slot));
    end_all(std::move(batch), Written{Written::Outcome::failed, 0, 0, std::move(ready)});
  }
  --self->senders_;
}

ExactlyOnceWriter::Batch ExactlyOnceWriter::next_batch(const std::shared_ptr<zk::SessionState>& session) {
  Batch batch;
  std::size_t bytes = 0;
  while (!waiting_.empty() && batch.size() < most_) {
    std::shared_ptr<Part>& next = waiting_.front();
    const bool fits = batch.empty() || bytes + next->bytes <= most_bytes;
    if (next->session != session || !fits) break;
    bytes += next->bytes;
    batch.push_back(std::move(next));
    waiting_.pop_front();
  }
  return batch;
}

Awaitable<void> ExactlyOnceWriter::apply(Batch batch, SlotPtr slot) {
  Call call;
  call.bound = slot->session;
  bool doubted = false;  // An attempt was sent whose answer never came.
  while (drop_ended(batch)) {
    Reply reply;
    if (slot == nullptr) {
      reply = co_await get_slot(call, slot);
      if (!reply.ok()) {
        end_all(std::move(batch), Written{Written::Outcome::failed, 0, 0, std::move(reply)});
        co_return;
      }
    } else if (doubted) {
      reply = co_await client_->connected(call);
    }
    // A caller that was told `in doubt` must not be surprised later. What was applied before contains all the rest.
    if (!drop_ended(batch)) break;
    if (reply.ok()) {
      Request request = zk::make_request(OpType::multi, slot->path);
      request.operations.emplace_back(Transaction::Set{Path(slot->path), std::string(), slot->version});
      for (const std::shared_ptr<Part>& part : batch) {
        part->sent = true;
        request.operations.insert(request.operations.end(), part->operations.begin(), part->operations.end());
      }
      const zk::PendingReply pending = client_->launch(std::move(request), call);
      for (const std::shared_ptr<Part>& part : batch) {
        if (part->told_sent) part->told_sent();
      }
      reply = co_await pending.get();
    }
    if (reply.unanswered()) {
      doubted = true;  // Send it again: it is applied once at most.
      continue;
    }
    const bool refused = reply.failed(Errc::transaction_failed);
    const zk::Refusal refusal = reply.refusal().value_or(zk::Refusal{0, zk::rc::runtime_inconsistency});
    const bool of_slot = refused && refusal.index == 0;
    bool applied = doubted && of_slot && refusal.code == zk::rc::bad_version;
    // Too large is found out after it was sent, too. A refusal tells that nothing was applied until then.
    if (doubted && (reply.failed(Errc::too_large) || (refused && !of_slot))) {
      const Fate fate = co_await shut_out(*slot, call, reply);
      applied = fate == Fate::applied;
      doubted = fate == Fate::unknown;
      if (fate == Fate::not_applied) {
        slot.reset();
        for (const std::shared_ptr<Part>& part : batch)
          part->sent = false;
        // At once, for those that stay in the batch: they are sent before those that go back.
        if (batch.size() > 1) (void)co_await get_slot(call, slot);
      }
    }
    if (reply.ok() || applied) {
      ++slot->version;
      slot->version < last_version ? free_.push_back(std::move(slot))
                                   : zk::delete_in_background(client_, slot->path, slot->session);
      if (batch.size() >= most_) most_ = std::min(2 * most_, most_calls);
      settle_success(std::move(batch), std::move(reply));
      co_return;
    }
    if (!doubted && reply.failed(Errc::too_large) && batch.size() > 1) {  // Together; perhaps none is by itself.
      split(batch, batch.size() / 2);
      continue;
    }
    if (!doubted && refused && !of_slot) {
      settle_refusal(batch, std::move(reply), refusal.index - 1, refusal.code);
      continue;
    }
    const bool spoilt = of_slot && (refusal.code == zk::rc::no_node || refusal.code == zk::rc::bad_version);
    if (spoilt && !doubted) {  // Deleted or written by hand: take another one.
      for (const std::shared_ptr<Part>& part : batch)
        part->sent = false;
      slot.reset();
      continue;
    }
    if (of_slot) reply.error = zk::rc::to_errc(refusal.code);
    if (reply.failed(Errc::in_doubt)) doubted = true;
    // Nothing was sent, or done, for now: that is no answer about the attempt before.
    if (doubted && zkclient::kind_of(make_error_code(*reply.error)) == zkclient::ErrorKind::retryable) {
      co_await zk::pause_for(pause_in_doubt, client_->events(), call.bound);
      continue;
    }
    const auto outcome = doubted ? Written::Outcome::in_doubt : Written::Outcome::failed;
    end_all(std::move(batch), Written{outcome, 0, 0, std::move(reply), doubted ? slot->path : std::string()});
    break;
  }
  if (slot == nullptr) co_return;
  doubted ? zk::delete_in_background(client_, slot->path, slot->session) : free_.push_back(std::move(slot));
}

// An attempt whose answer never came may still be in the hands of a server. It needs the slot, so the slot goes.
Awaitable<ExactlyOnceWriter::Fate> ExactlyOnceWriter::shut_out(const Slot& slot, Call call, Reply& reply) {
  for (bool again = false;; again = true) {
    Request remove = zk::make_request(OpType::remove, slot.path);
    remove.version = slot.version;
    Reply removed = co_await client_->perform(std::move(remove), call);
    if (removed.ok() || (again && removed.failed(Errc::no_node))) co_return Fate::not_applied;
    if (removed.failed(Errc::bad_version)) co_return Fate::applied;
    if (removed.unanswered()) continue;
    reply = std::move(removed);
    co_return Fate::unknown;
  }
}

// Whether any is left.
bool ExactlyOnceWriter::drop_ended(Batch& batch) {
  std::erase_if(batch, [](const std::shared_ptr<Part>& part) { return part->ended; });
  return !batch.empty();
}

void ExactlyOnceWriter::end_all(Batch batch, const Written& written) {
  for (const std::shared_ptr<Part>& part : batch)
    part->end(written);
}

// A reply that only proves that an earlier one was lost has no results: it proves nothing about when.
void ExactlyOnceWriter::settle_success(Batch batch, Reply reply) {
  auto result = reply.results.begin();
  if (reply.ok() && result != reply.results.end()) ++result;  // The slot's.
  for (const std::shared_ptr<Part>& part : batch) {
    Written written;
    written.outcome = Written::Outcome::done;
    if (reply.ok()) {
      const auto end = result + static_cast<std::ptrdiff_t>(part->operations.size());
      written.reply.sent = reply.sent;
      written.reply.results.assign(std::make_move_iterator(result), std::make_move_iterator(end));
      result = end;
    }
    part->end(std::move(written));
  }
}

// Nothing of it was applied. At most so many calls at a time from now on; the others go back to be sent later.
void ExactlyOnceWriter::split(Batch& batch, std::size_t most) {
  most_ = std::max<std::size_t>(most, 1);
  keep_first(batch, most_);
}

void ExactlyOnceWriter::keep_first(Batch& batch, std::size_t count) {
  for (const std::shared_ptr<Part>& part : batch)
    part->sent = false;
  while (batch.size() > count) {
    if (!batch.back()->ended) waiting_.push_front(std::move(batch.back()));
    batch.pop_back();
  }
  send_soon();
}

// Ends the call to which the operation belongs. The others stay in the batch, or go back to be sent later. If the
// refusal may come from what an earlier call of the batch would have changed, it is no answer yet, since that may still
// fail: the earlier ones are sent alone, the refused one behind them.
void ExactlyOnceWriter::settle_refusal(Batch& batch, Reply reply, std::size_t index, int code) {
  auto concerned = batch.begin();
  for (; index >= (*concerned)->operations.size(); ++concerned)
    index -= (*concerned)->operations.size();
  const std::shared_ptr<Part> part = *concerned;
  const auto interferes = [&](const std::shared_ptr<Part>& earlier) {
    return earlier->touches(part->operations[index]);
  };
  if (std::any_of(batch.begin(), concerned, interferes)) {
    keep_first(batch, static_cast<std::size_t>(concerned - batch.begin()));
    return;
  }
  batch.erase(concerned);
  split(batch, most_ / 2);
  // "operation 17 of 65, create ...": of the whole transaction, which means nothing to the caller.
  if (const std::size_t comma = reply.detail.find(", "); comma != std::string::npos) reply.detail.erase(0, comma + 2);
  part->end(Written{Written::Outcome::refused, index, code, std::move(reply)});
}

Awaitable<Reply> ExactlyOnceWriter::get_slot(Call call, SlotPtr& slot) {
  std::erase_if(free_, [](const SlotPtr& one) { return one->session->over(); });  // They went with it.
  const auto found =
      std::find_if(free_.begin(), free_.end(), [&](const SlotPtr& one) { return one->session == call.bound; });
  if (found != free_.end()) {
    slot = std::move(*found);
    free_.erase(found);
    co_return Reply{};
  }
  for (;;) {
    auto made = std::make_unique<Slot>();
    made->path = zk::child_path(directory_, family_ + zk::make_uuid());
    made->session = call.bound;
    Request create = zk::make_request(OpType::create, made->path);
    create.data = std::string();
    create.mode = CreateMode::ephemeral;
    create.acl = acl_;
    Reply reply = co_await client_->perform(std::move(create), call);
    if (reply.ok()) {
      slot = std::move(made);
      co_return reply;
    }
    if (reply.failed(Errc::in_doubt)) {
      zk::delete_in_background(client_, made->path, call.bound);
      continue;
    }
    if (reply.failed(Errc::no_node)) {
      reply = co_await zk::ensure(client_, directory_, CreateMode::container, acl_, call);
      if (reply.ok()) continue;
    }
    if (!reply.failed(Errc::quota_exceeded)) co_return reply;
    // Most transactions only free or replace something, and must not fail for want of room for the slot.
    reply = co_await create_outside_quota(client_, made->path, "slot", CreateMode::ephemeral, acl_, call);
    if (!reply.ok()) co_return reply;
    made->path = reply.path;
    slot = std::move(made);
    co_return reply;
  }
}

}  // namespace zkrecipes::detail
