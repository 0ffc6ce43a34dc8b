#include "recipes/coherent/coherent_reader.hpp"

#include <algorithm>

#include "recipes/coherent/coherent_format.hpp"

namespace zkrecipes::detail {

namespace {

constexpr int preparations = 3;

bool answers(const Reply& read) { return read.ok() || read.failed(Errc::no_node); }

CoherentReader::Outcome failed_with(Reply reply) { return {std::move(reply), nullptr}; }

CoherentReader::Outcome failed_with(Errc why) {
  CoherentReader::Outcome outcome;
  outcome.reply.error = outcome.reply.given_up = why;
  return outcome;
}

}  // namespace

CoherentItemPtr make_item(Reply& reply) {
  auto item = std::make_shared<CoherentItem>();
  item->exists = reply.ok();
  if (item->exists) {
    item->data = std::move(reply.data);
    item->revision = reply.stat.mzxid;
  }
  return item;
}

CoherentReader::CoherentReader(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<const CoherentLayout> layout,
                               std::shared_ptr<CoherentTable> table, std::chrono::milliseconds term)
    : client_(std::move(client)),
      layout_(std::move(layout)),
      table_(std::move(table)),
      wanted_term_(term),
      ended_(client_->events()) {}

// --- Reading --------------------------------------------------------------------------------------------------------

Awaitable<Reply> CoherentReader::open(std::shared_ptr<CoherentReader> self, Call call) {
  if (self->shard_count_ != 0) co_return Reply{};
  std::uint32_t shards = 0;
  Reply reply = co_await self->layout_->read_shards(shards, call);
  if (reply.ok() && self->shard_count_ == 0) {
    self->shard_count_ = shards;
    self->table_->set_shards(shards);
  }
  co_return reply;
}

FillFacts CoherentReader::facts(std::uint32_t shard, const std::string& name, bool cached, bool tried) {
  Shard& of = shards_[shard];
  FillFacts facts;
  facts.cached = cached;
  facts.lease_valid = cached || (of.hold && table_->valid(shard, BootClock::now()));
  facts.epoch = table_->epoch(shard);
  const auto fetch = of.fetches.find(name);
  if (fetch != of.fetches.end()) facts.fetch_epoch = fetch->second->epoch;
  facts.grant_under_way = of.granting;
  facts.tried = tried;
  return facts;
}

// Ends with the caller's wish, and with the cache.
Awaitable<CoherentReader::Outcome> CoherentReader::read(std::shared_ptr<CoherentReader> self, std::string name,
                                                        Call call) {
  const EndedByClosing limits(self->closing_, std::move(call));
  Outcome outcome = co_await read_on(self, std::move(name), limits.call());
  limits.judge(outcome.reply);
  co_return outcome;
}

Awaitable<CoherentReader::Outcome> CoherentReader::read_on(std::shared_ptr<CoherentReader> self, std::string name,
                                                           Call call) {
  Reply opened = co_await open(self, call);
  if (!opened.ok()) co_return failed_with(std::move(opened));
  const std::uint32_t shard = shard_of(name, self->shard_count_);
  std::optional<Gate> closed;
  bool tried = false;
  bool missed = false;
  for (;;) {
    if (self->table_->closed()) co_return failed_with(Errc::closed);
    CoherentItemPtr item = self->table_->find(name);
    if (item == nullptr && !std::exchange(missed, true)) self->table_->count_miss();
    switch (decide_fill(self->facts(shard, name, item != nullptr, tried))) {
      case FillStep::hit: {
        Outcome hit;
        hit.item = std::move(item);
        co_return hit;
      }
      case FillStep::join: {
        const std::shared_ptr<Fetch> fetch = self->shards_[shard].fetches.at(name);
        const auto done = [fetch] { return fetch->done; };
        const std::optional<Errc> over = co_await self->wait_until(done, call);
        if (over) co_return failed_with(*over);
        if (fetch->outcome.item != nullptr) co_return fetch->outcome;
        break;
      }
      case FillStep::fetch: {
        Outcome fetched = co_await self->fetch(shard, name, call);
        if (!ended_with_its_session(fetched.reply)) co_return fetched;
        break;
      }
      case FillStep::wait: {
        const auto done = [raw = self.get(), shard] { return !raw->shards_[shard].granting; };
        const std::optional<Errc> over = co_await self->wait_until(done, call);
        if (over) co_return failed_with(*over);
        tried = true;
        break;
      }
      case FillStep::look: {
        Grant grant = co_await self->ask(shard, name, call);
        if (grant.ended) co_return std::move(grant.outcome);
        closed = std::move(grant.closed);
        tried = true;
        break;
      }
      case FillStep::enroll:  // A part of ask().
      case FillStep::uncached: {
        Outcome outcome = co_await self->uncached(shard, name, std::move(closed), call);
        co_return outcome;
      }
    }
  }
}

Awaitable<std::optional<Errc>> CoherentReader::wait_until(std::function<bool()> done, Call call) {
  const WaitingCalls::Waiting waiting(waiting_, client_->events(), call);
  for (;;) {
    waiting->clear();
    if (done()) co_return std::nullopt;
    if (const auto why = waiting->failure(table_->closed())) co_return why;
    co_await waiting->wait();
  }
}

// The server's answer is not older than the registration, and nothing has changed since that while the lease is valid:
// it was when this began.
Awaitable<CoherentReader::Outcome> CoherentReader::fetch(std::uint32_t shard, std::string name, Call call) {
  const auto fetch = std::make_shared<Fetch>();
  fetch->epoch = shards_[shard].hold->epoch;
  shards_[shard].fetches[name] = fetch;
  call.bound = shards_[shard].hold->session;
  Request get = zk::make_request(OpType::get, layout_->item(name));
  Reply reply = co_await client_->perform(std::move(get), call);
  if (answers(reply)) {
    fetch->outcome.item = make_item(reply);
    table_->store(shard, fetch->epoch, name, fetch->outcome.item);
  } else {
    fetch->outcome.reply = std::move(reply);
  }
  fetch->done = true;
  auto& fetches = shards_[shard].fetches;
  const auto place = fetches.find(name);
  if (place != fetches.end() && place->second == fetch) fetches.erase(place);
  waiting_.wake_all();
  co_return fetch->outcome;
}

// A transaction of the quorum, and behind it, in the same flight, the item: the server has by then what was committed
// before. If the gate was closed, also whether the writer that closed it is still there.
Awaitable<CoherentReader::Outcome> CoherentReader::uncached(std::uint32_t shard, std::string name,
                                                            std::optional<Gate> closed, Call call) {
  for (int prepared = 0;;) {
    call.bound = nullptr;
    Reply connected = co_await client_->connected(call);
    if (!connected.ok()) co_return failed_with(std::move(connected));
    call.bound = connected.session;
    Request barrier = zk::make_request(OpType::multi, layout_->items());
    barrier.operations.emplace_back(zkclient::Check{Path(layout_->items())});
    const PendingReply passing = client_->launch(std::move(barrier), call);
    const PendingReply reading = client_->launch(zk::make_request(OpType::get, layout_->item(name)), call);
    std::optional<PendingReply> looking;
    if (closed) looking = client_->launch(zk::make_request(OpType::exists, layout_->writer(shard)), call);
    Reply passed = co_await passing.get();
    Reply item = co_await reading.get();
    if (looking) {
      const Reply writer = co_await looking->get();
      const bool left_closed = passed.ok() && writer.failed(Errc::no_node);
      if (left_closed && !std::exchange(shards_[shard].reopening, true)) {
        zk::spawn(reopen(shared_from_this(), shard, *closed, call.bound));
      }
    }
    if (ended_with_its_session(passed) || ended_with_its_session(item)) continue;
    if (passed.refusal() && passed.cause() == Errc::no_node && prepared++ < preparations) {
      Reply made = co_await layout_->prepare(shard, call);
      if (!made.ok() && !ended_with_its_session(made)) co_return failed_with(std::move(made));
      continue;
    }
    if (!passed.ok()) co_return failed_with(std::move(passed));
    if (!answers(item)) co_return failed_with(std::move(item));
    if (!in_order(passed, item)) continue;
    Outcome outcome;
    outcome.item = make_item(item);
    co_return outcome;
  }
}

// Whoever wrote there is gone, and its transaction can only fail from here on. If this one's answer is lost, the next
// read or write tries again.
Awaitable<void> CoherentReader::reopen(std::shared_ptr<CoherentReader> self, std::uint32_t shard, Gate gate,
                                       std::shared_ptr<SessionState> session) {
  Request open = zk::make_request(OpType::multi, self->layout_->gate(shard));
  open.operations = reopening(*self->layout_, shard, gate.version);
  Call call;
  call.bound = std::move(session);
  (void)co_await self->client_->perform(std::move(open), call);
  self->shards_[shard].reopening = false;
}

// --- Getting a lease ------------------------------------------------------------------------------------------------

Awaitable<CoherentReader::Grant> CoherentReader::ask(std::uint32_t shard, std::string name, Call call) {
  shards_[shard].granting = true;
  Grant grant = co_await look(shard, std::move(name), std::move(call));
  shards_[shard].granting = false;
  waiting_.wake_all();
  co_return grant;
}

// The gate first: if it still has this version when the registration is made, the item has not changed since it was
// read.
Awaitable<CoherentReader::Grant> CoherentReader::look(std::uint32_t shard, std::string name, Call call) {
  const auto end_with = [](Reply reply) {
    Grant grant;
    grant.ended = true;
    grant.outcome.reply = std::move(reply);
    return grant;
  };
  for (int prepared = 0;;) {
    call.bound = nullptr;
    Reply connected = co_await client_->connected(call);
    if (!connected.ok()) co_return end_with(std::move(connected));
    call.bound = connected.session;
    const auto watch = std::make_shared<GateWatch>();
    auto on_event = [weak = weak_from_this(), of = std::weak_ptr(watch), shard](zkclient::WatchEventType) {
      const auto gate = of.lock();
      const auto self = weak.lock();
      if (gate != nullptr) gate->fired = true;
      if (gate == nullptr || self == nullptr) return;
      const std::optional<Hold>& hold = self->shards_[shard].hold;
      if (hold && hold->gate == gate) self->let_go(shard);
    };
    watch->watch = std::make_shared<zk::LoopWatch>(client_, zk::WatchRegistry::Kind::data, std::move(on_event));
    Request get_gate = zk::make_request(OpType::get, layout_->gate(shard));
    const PendingReply asked_gate = client_->launch_watching(std::move(get_gate), call, watch->watch);
    const PendingReply asked_item = client_->launch(zk::make_request(OpType::get, layout_->item(name)), call);
    Reply gate_read = co_await asked_gate.get();
    Reply item = co_await asked_item.get();
    if (ended_with_its_session(gate_read) || ended_with_its_session(item)) continue;
    if (gate_read.failed(Errc::overloaded)) co_return Grant{};  // There is no room for another watch.
    if (gate_read.failed(Errc::no_node) && prepared++ < preparations) {
      Reply made = co_await layout_->prepare(shard, call);
      if (!made.ok() && !ended_with_its_session(made)) co_return end_with(std::move(made));
      continue;
    }
    if (!gate_read.ok()) co_return end_with(std::move(gate_read));
    if (!answers(item)) co_return end_with(std::move(item));
    if (!in_order(gate_read, item)) continue;
    std::optional<Gate> gate = parse_gate(gate_read.data, gate_read.stat.version);
    if (gate) gate->czxid = gate_read.stat.czxid;
    if (!gate) {
      gate_read.error = Errc::foreign_node;
      gate_read.detail = "the data of a gate is not that of a coherent cache";
      co_return end_with(std::move(gate_read));
    }
    FillFacts known;
    known.gate = gate;
    Grant grant;
    if (decide_fill(known) == FillStep::enroll) {
      grant = co_await enroll(shard, std::move(name), *gate, watch, std::move(item), call);
    } else {
      grant.closed = gate;
    }
    co_return grant;
  }
}

Awaitable<CoherentReader::Grant> CoherentReader::enroll(std::uint32_t shard, std::string name, Gate gate,
                                                        std::shared_ptr<GateWatch> watch, Reply item, Call call) {
  Grant grant;
  // Where no lease lives, a registration would only make writers wait.
  const bool hopeless = gate.version == zkclient::any_version || client_->keeper()->obstacle().has_value();
  if (hopeless || client_->current() != call.bound) co_return grant;
  const std::chrono::milliseconds term = term_of(*call.bound);
  Hold hold;
  hold.epoch = gate.version;
  hold.session = call.bound;
  hold.path = layout_->holder(shard, registration_name(zk::make_uuid(), term));
  hold.gate = std::move(watch);
  Request multi = zk::make_request(OpType::multi, hold.path);
  multi.operations.emplace_back(zkclient::Check{Path(layout_->gate(shard)), gate.version});
  multi.operations.emplace_back(
      Transaction::Create{Path(hold.path), std::string(), CreateMode::ephemeral, layout_->acl()});
  const Reply registered = co_await client_->perform(std::move(multi), call);
  if (registered.ok()) {
    grant.ended = true;
    grant.outcome.item = make_item(item);
    begin_lease(shard, std::move(hold), gate.czxid, name, grant.outcome.item, registered, term);
  } else if (registered.failed(Errc::in_doubt)) {
    zk::delete_in_background(client_, hold.path, hold.session);
  } else if (registered.refused(1, zk::rc::no_node)) {
    (void)co_await layout_->make_holders(shard, call);  // For the next read.
  }
  co_return grant;
}

// The read has its answer in any case: the gate was still the same when the registration was made.
void CoherentReader::begin_lease(std::uint32_t shard, Hold hold, std::int64_t gate, const std::string& name,
                                 CoherentItemPtr item, const Reply& registered, std::chrono::milliseconds term) {
  const bool current = client_->current() == hold.session && !hold.session->over();
  if (current) client_->keeper()->acknowledged(registered.sent);
  const ShardLease lease(hold.epoch, registered.sent, term);
  const bool lives = lease.valid(BootClock::now(), hold.session->valid_until());
  if (!current || !lives || table_->closed() || hold.gate->fired) {
    zk::delete_in_background(client_, hold.path, hold.session);
    return;
  }
  if (shards_[shard].hold) let_go(shard);  // It has run out.
  const std::int32_t epoch = hold.epoch;
  table_->grant(shard, gate, lease, hold.session);
  keep_proven(hold.session);
  shards_[shard].hold = std::move(hold);
  ++holds_;
  table_->store(shard, epoch, name, std::move(item));
  if (!std::exchange(renewing_, true)) zk::spawn(renew(shared_from_this()));
}

// A session that has promised less than the term ends the lease all the same: see CoherentTable.
std::chrono::milliseconds CoherentReader::term_of(const SessionState& session) const {
  const auto longest = std::chrono::floor<std::chrono::milliseconds>(default_term(session.timeout()));
  // A writer with the default deadline has to outlast a reader that is gone.
  const auto patience = client_->default_deadline() - std::chrono::steady_clock::now();
  const auto usual = std::chrono::ceil<std::chrono::milliseconds>(patience / 2);
  const auto wanted = std::min(wanted_term_.count() > 0 ? wanted_term_ : usual, longest);
  return std::max(wanted, std::chrono::milliseconds(1));
}

}  // namespace zkrecipes::detail
