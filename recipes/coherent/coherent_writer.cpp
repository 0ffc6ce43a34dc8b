#include "recipes/coherent/coherent_writer.hpp"

#include <utility>

#include "recipes/coherent/coherent_line.hpp"

namespace zkrecipes::detail {

using Operations = std::vector<Transaction::Operation>;

namespace {

constexpr std::size_t most_items = 256;
constexpr int most_preparations = 3;

bool compares(const ItemWrite& write) {
  return write.kind == ItemWrite::compare_put || write.kind == ItemWrite::compare_remove;
}

}  // namespace

CoherentWriter::CoherentWriter(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<const CoherentLayout> layout,
                               std::shared_ptr<CoherentTable> table, std::shared_ptr<CoherentReader> reader)
    : client_(std::move(client)),
      layout_(std::move(layout)),
      table_(std::move(table)),
      reader_(std::move(reader)),
      writer_(ExactlyOnceWriter::make(client_, layout_->slots(), layout_->acl())) {}

CoherentWriter::~CoherentWriter() = default;

// --- Calls ----------------------------------------------------------------------------------------------------------

Awaitable<Reply> CoherentWriter::write(std::shared_ptr<CoherentWriter> self, ItemWrite write, Call call) {
  const EndedByClosing limits(self->reader_->closing(), call);
  Reply opened = co_await CoherentReader::open(self->reader_, limits.call());
  limits.judge(opened);
  if (!opened.ok()) co_return opened;
  const std::uint32_t shard = shard_of(write.name, self->reader_->shards());
  std::unique_ptr<Line>& place = self->lines_[shard];
  if (place == nullptr) place = std::make_unique<Line>(shard, self->client_->events());
  Line& line = *place;
  const auto part = std::make_shared<Part>(self->client_->events(), std::move(write));
  if (self->table_->closed()) part->end_with(Errc::closed);
  if (call.cancel != nullptr && call.cancel->requested()) part->end_with(Errc::cancelled);
  const auto give_up = [writer = self.get(), &line, part](Errc why) { writer->give_up(line, part, why); };
  zk::CancelScope::Guard cancelled;
  if (!part->ended) {
    cancelled = zk::CancelScope::Guard(call.cancel, [give_up] { give_up(Errc::cancelled); });
    if (call.deadline) part->deadline.set(*call.deadline, [give_up] { give_up(Errc::deadline_exceeded); });
    line.waiting.push_back(part);
    if (!std::exchange(line.running, true)) zk::spawn(run(self, shard));
  }
  Reply reply = co_await part->outcome.get();
  co_return reply;
}

void CoherentWriter::give_up(Line& line, const PartPtr& part, Errc why) {
  if (part->ended) return;
  const bool waits = std::erase(line.waiting, part) > 0;
  if (!waits && line.sent) {
    table_->rewrite(line.shard, part->write.name, nullptr);
    part->end_with(Errc::in_doubt, "it was sent, and the answer has not come");
    return;
  }
  part->end_with(why);
  if (!waits && line.wait != nullptr) line.wait->request();
}

void CoherentWriter::close() {
  for (const auto& [shard, line] : lines_) {
    for (const PartPtr& part : std::exchange(line->waiting, {}))
      part->end_with(Errc::closed);
    if (line->active != nullptr) give_up(*line, line->active, Errc::closed);
  }
}

// --- One after another ----------------------------------------------------------------------------------------------

Awaitable<void> CoherentWriter::run(std::shared_ptr<CoherentWriter> self, std::uint32_t shard) {
  Line& line = *self->lines_.at(shard);
  while (!line.waiting.empty() || line.closing || line.doubt) {
    if (line.doubt) {
      co_await self->find_closing(line);
      continue;
    }
    if (line.waiting.empty()) {  // Whoever wanted it closed has given up.
      co_await self->open_again(line);
      continue;
    }
    line.active = std::move(line.waiting.front());
    line.waiting.pop_front();
    co_await self->write_one(line, line.active);
    line.active.reset();
  }
  line.running = false;
}

Call CoherentWriter::new_wait(Line& line) {
  line.wait = std::make_shared<zk::CancelScope>();
  line.sent = false;
  Call call;
  call.cancel = line.wait;
  return call;
}

Awaitable<void> CoherentWriter::write_one(Line& line, PartPtr part) {
  while (!part->ended) {
    Call call = new_wait(line);
    Reply connected = co_await client_->connected(call);
    if (!connected.ok()) {
      part->end(std::move(connected));
      break;
    }
    call.bound = connected.session;
    if (line.closing && line.closing->session != call.bound) line.forget();
    if (line.doubt) {
      co_await find_closing(line);
      continue;
    }
    if (std::exchange(line.directory_missing, false)) {
      co_await prepare(line, part, call);
      continue;
    }
    if (!line.gate || !line.items.contains(part->write.name)) {
      Reply learned = co_await learn(line, *part, call);
      if (part->ended) break;
      if (learned.failed(Errc::no_node)) {
        co_await prepare(line, part, call);
        continue;
      }
      if (ended_with_its_session(learned)) continue;
      if (!learned.ok()) {
        part->end(std::move(learned));
        break;
      }
    }
    const ItemChange change = decide_change(part->write, line.items.at(part->write.name).revision);
    if (change.kind == ItemChange::refuse) {
      co_await refuse(line, part, change.why, call);
    } else if (line.closed_by_us() && !line.registered) {
      co_await await_readers(line, part, std::nullopt, call);
    } else {
      const WriteStep step = decide_write(line.facts());
      co_await take_step(line, part, step, call);
    }
  }
}

// The gate first: if it still has this version when the transaction is applied, the item is what was read.
Awaitable<Reply> CoherentWriter::learn(Line& line, const Part& part, Call call) {
  const std::string gate_path = layout_->gate(line.shard);
  std::optional<PendingReply> syncing;
  if (line.ask_leader) syncing = client_->launch(zk::make_request(OpType::sync, gate_path), call);
  const PendingReply asked_gate = client_->launch(zk::make_request(OpType::get, gate_path), call);
  const PendingReply asked_item = client_->launch(zk::make_request(OpType::get, layout_->item(part.write.name)), call);
  Reply synced;
  if (syncing) synced = co_await syncing->get();
  Reply gate_read = co_await asked_gate.get();
  Reply item = co_await asked_item.get();
  if (!zk::is_there_or_not(synced)) co_return synced;
  if (!gate_read.ok()) co_return gate_read;
  if (!zk::is_there_or_not(item)) co_return item;
  const bool is_fresh = !syncing || zk::is_behind(synced, gate_read);
  if (!is_fresh || !in_order(gate_read, item)) {
    gate_read.error = Errc::in_doubt;  // Again.
    co_return gate_read;
  }
  std::optional<Gate> gate = parse_gate(gate_read.data, gate_read.stat.version);
  if (!gate) {
    gate_read.error = Errc::foreign_node;
    gate_read.detail = "the data of a gate is not that of a coherent cache";
    co_return gate_read;
  }
  gate->czxid = gate_read.stat.czxid;
  line.ask_leader = false;
  const bool same = line.gate && line.gate->version == gate->version && line.gate->czxid == gate->czxid;
  if (!same || line.items.size() >= most_items) line.items.clear();
  if (!same) line.see_gate(std::move(*gate));
  if (line.closing && !line.closed_by_us()) line.closing.reset();
  line.items[part.write.name] = Line::KnownItem::of(item);
  co_return Reply{};
}

Awaitable<void> CoherentWriter::prepare(Line& line, PartPtr part, Call call) {
  line.forget();
  if (part->prepared++ == most_preparations) {
    part->end_with(Errc::foreign_node, "nodes of the cache are removed again and again");
    co_return;
  }
  Reply made = co_await layout_->prepare(line.shard, call);
  if (!made.ok() && !ended_with_its_session(made)) part->end(std::move(made));
}

// Only the leader's word counts: the gate still has the version at which the item was read. Behind that, in the same
// flight, the item: somebody may have changed it by hand.
Awaitable<void> CoherentWriter::refuse(Line& line, PartPtr part, Errc why, Call call) {
  Request check = zk::make_request(OpType::multi, layout_->gate(line.shard));
  check.operations.emplace_back(zkclient::Check{Path(layout_->gate(line.shard)), line.gate->version});
  const std::string& name = part->write.name;
  const PendingReply checking = client_->launch(std::move(check), call);
  const PendingReply reading = client_->launch(zk::make_request(OpType::get, layout_->item(name)), call);
  Reply reply = co_await checking.get();
  const Reply item = co_await reading.get();
  if (reply.ok() && zk::is_there_or_not(item)) {
    const auto now = Line::KnownItem::of(item);
    if (std::exchange(line.items.at(name), now).revision == now.revision) part->end_with(why);
  } else if (reply.ok()) {
    if (!ended_with_its_session(item)) part->end(item);
  } else if (reply.failed(Errc::transaction_failed) && is_shard_conflict(reply.cause())) {
    line.forget();
    line.ask_leader = true;
  } else if (!ended_with_its_session(reply)) {
    part->end(std::move(reply));
  }
}

Awaitable<void> CoherentWriter::take_step(Line& line, PartPtr part, WriteStep step, Call call) {
  switch (step.kind) {
    case WriteStep::write: co_await transact(line, std::move(part), false, std::move(call)); break;
    case WriteStep::close: co_await close_gate(line, std::move(part), std::move(call)); break;
    case WriteStep::wait_readers: co_await await_readers(line, std::move(part), step.until, std::move(call)); break;
    case WriteStep::commit: co_await transact(line, std::move(part), true, std::move(call)); break;
    case WriteStep::wait_writer: co_await await_writer(line, std::move(call)); break;
    case WriteStep::reopen: co_await reopen(line, std::move(part), std::move(call)); break;
  }
}

// --- The transaction ------------------------------------------------------------------------------------------------

// Without readers: their directory can be removed, and is made again; where a full quota has no room for that, right
// behind the transaction, as nothing is made in place of what the same transaction removes. Behind a closed gate: those
// whose leases have run out are removed.
Awaitable<void> CoherentWriter::transact(Line& line, PartPtr part, bool behind_closed, Call call) {
  const std::string id = zk::make_uuid();
  const std::string& name = part->write.name;
  Operations all = gate_change(layout_->gate(line.shard), format_gate(true, id), line.gate->version);
  const std::size_t gate_operations = all.size();
  if (behind_closed) {
    for (const Registration& one : *line.registered)
      all.emplace_back(Transaction::Remove{Path(layout_->holder(line.shard, one.name)), any_version});
    all.emplace_back(Transaction::Remove{Path(layout_->writer(line.shard)), any_version});
  } else {
    const Path holders(layout_->holders(line.shard));
    all.emplace_back(Transaction::Remove{holders, any_version});
    if (!part->no_room) {
      all.emplace_back(Transaction::Create{holders, std::string(), CreateMode::persistent, layout_->acl()});
    }
  }
  const Path item(layout_->item(name));
  const Line::KnownItem& known = line.items.at(name);
  const std::int32_t version = compares(part->write) ? known.version : any_version;
  switch (decide_change(part->write, known.revision).kind) {
    case ItemChange::make:
      all.emplace_back(Transaction::Create{item, part->write.data, CreateMode::persistent, layout_->acl()});
      break;
    case ItemChange::set: all.emplace_back(Transaction::Set{item, part->write.data, version}); break;
    case ItemChange::remove: all.emplace_back(Transaction::Remove{item, version}); break;
    case ItemChange::refuse: break;
  }
  reader_->let_go(line.shard);  // Goes out before.
  const std::size_t last = all.size() - 1;
  const std::int32_t expected = line.gate->version;
  const bool holders_later = !behind_closed && part->no_room;
  Call later = call;
  later.cancel = nullptr;
  Written written = co_await writer_->write_bound(std::move(all), std::move(call), [&line] { line.sent = true; });
  if (written.outcome == Written::Outcome::done) {
    settle_success(line, part, id, written);
  } else if (written.outcome == Written::Outcome::in_doubt) {
    co_await judge(line, std::move(part), std::move(written.slot), id, expected);
  } else if (written.outcome == Written::Outcome::failed) {
    const bool unsent = written.reply.given_up || written.reply.failed(Errc::session_lost);
    if (!unsent) part->end(std::move(written.reply));
  } else {
    settle_refusal(line, part, std::move(written), gate_operations, last);
  }
  // If others have taken the room, the next read or write of the shard makes it.
  if (holders_later) (void)co_await layout_->make_holders(line.shard, later);
}

void CoherentWriter::settle_success(Line& line, const PartPtr& part, const std::string& id, const Written& written) {
  const std::int32_t version = next_version(line.gate->version);
  line.see_gate(Gate{true, version, id, line.gate->czxid});
  line.closing.reset();
  line.registered.reset();
  line.list_watch.reset();
  line.items.erase(part->write.name);  // A creation does not tell, nor does a reply that was lost.
  const bool told = !written.reply.results.empty() && written.reply.results.back().stat;
  if (told) {
    const zkclient::Stat& stat = *written.reply.results.back().stat;
    line.items[part->write.name] = {stat.mzxid, stat.version};
  }
  const bool removed = part->write.kind == ItemWrite::remove || part->write.kind == ItemWrite::compare_remove;
  CoherentItemPtr now;
  if (removed) now = std::make_shared<const CoherentItem>();
  if (told && !removed) {
    now = std::make_shared<const CoherentItem>(
        CoherentItem{true, part->write.data, written.reply.results.back().stat->mzxid});
  }
  table_->rewrite(line.shard, part->write.name, std::move(now));
  part->end(Reply{});
}

void CoherentWriter::settle_refusal(Line& line, const PartPtr& part, Written written, std::size_t gate_operations,
                                    std::size_t last) {
  const Errc code = zk::rc::to_errc(written.code);
  // Behind a closed gate there is no such operation.
  const bool of_holders = !line.closed_by_us() && written.index == gate_operations;
  const bool no_room = code == Errc::quota_exceeded && !line.closed_by_us() && written.index == gate_operations + 1;
  if (of_holders && code == Errc::not_empty) {
    line.readers_there = true;
  } else if (no_room && !part->no_room) {
    part->no_room = true;
  } else if (of_holders && code == Errc::no_node) {
    line.forget();
    line.directory_missing = true;
  } else if (code == Errc::no_node && line.closed_by_us() && written.index >= gate_operations &&
             written.index < last - 1) {
    line.registered.reset();  // It has gone meanwhile.
  } else if (written.index == last && is_shard_conflict(code) && code != Errc::not_empty) {
    const Line::KnownItem known = line.items.at(part->write.name);
    const bool makes = decide_change(part->write, known.revision).kind == ItemChange::make;
    line.directory_missing = makes && code == Errc::no_node;
    line.items.erase(part->write.name);  // Changed by hand: the gate is what it was.
    line.ask_leader = true;
  } else if (code == Errc::not_empty) {  // No node that the recipe removes behind a closed gate, and no item, has any.
    part->end_with(Errc::foreign_node, "a node that is to be removed has children, which are not the recipe's");
  } else if (is_shard_conflict(code)) {
    line.forget();
    line.ask_leader = true;
  } else {
    written.reply.error = code;
    if (code != Errc::quota_exceeded) written.reply.detail.clear();
    part->end(std::move(written.reply));
  }
}

// The session is lost, and so is the answer. Once its slot is gone, nothing of that session can be applied any more: the
// gate tells.
Awaitable<void> CoherentWriter::judge(Line& line, PartPtr part, std::string slot, std::string id,
                                      std::int32_t expected) {
  Verdict verdict = Verdict::unknown;
  while (!slot.empty()) {
    Call call;
    const Reply connected = co_await client_->connected(call);
    if (!connected.ok()) break;
    call.bound = connected.session;
    const Reply removed = co_await client_->perform(zk::make_request(OpType::remove, slot), call);
    if (ended_with_its_session(removed)) continue;
    if (!zk::is_there_or_not(removed)) break;
    const Reply read = co_await client_->perform(zk::make_request(OpType::get, layout_->gate(line.shard)), call);
    if (ended_with_its_session(read)) continue;
    const auto gate = read.ok() ? parse_gate(read.data, read.stat.version) : std::nullopt;
    if (gate) verdict = decide_verdict(*gate, id, expected);
    break;
  }
  line.forget();
  if (verdict != Verdict::not_applied) table_->rewrite(line.shard, part->write.name, nullptr);
  if (verdict == Verdict::applied) part->end(Reply{});
  if (verdict == Verdict::unknown) part->end_with(Errc::in_doubt, "the session was lost before the answer came");
}

}  // namespace zkrecipes::detail
