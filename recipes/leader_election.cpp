#include <zkrecipes/leader_election.hpp>

#include <algorithm>
#include <mutex>

#include "recipes/detail/contender_queue.hpp"
#include "recipes/detail/leader_record.hpp"
#include "recipes/detail/sequence.hpp"
#include "zkclient/detail/calls.hpp"

namespace zkrecipes {

namespace zk = zkclient::detail;
using detail::LeaderRecord;
using detail::LeasePtr;
using detail::Patience;
using detail::QueueSpec;
using detail::SpecPtr;
using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::Reply;
using zkclient::CallOptions;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

constexpr const char* operation = "campaign";

SpecPtr make_spec(const std::shared_ptr<zk::ClientCore>& client, const zkclient::Path& path,
                  const LeaderElectionOptions& options) {
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "leader election", path.str(), "the list is empty");
  QueueSpec spec;
  spec.client = client;
  spec.path = path.str();
  spec.directory = client->full(path);
  spec.layout = options.layout;
  spec.kind = "latch";
  spec.names.exclusive = {"latch-", "__lock__"};
  spec.acl = options.acl;
  spec.operation = operation;
  spec.requeue_on_session_loss = true;
  spec.watch_at_once = true;
  return std::make_shared<const QueueSpec>(std::move(spec));
}

std::string child(const QueueSpec& spec, const std::string& name) {
  return spec.directory == "/" ? "/" + name : spec.directory + "/" + name;
}

}  // namespace

// --- Leadership ---------------------------------------------------------------------------------------------------

void Leadership::publish(const char* name, std::optional<std::string> value, bool ready, const CallOptions& call) {
  if (impl() == nullptr) throw Error(Errc::not_held, name, "", "the leadership is empty");
  const zkclient::Path election = zkclient::Path(node()).parent();
  if (!valid()) throw Error(Errc::not_held, name, election.str());
  zk::Request request = zk::make_request(OpType::multi, "/");
  const std::shared_ptr<zk::ClientCore>& client = impl()->client();
  const zkclient::Path full_node(client->full(zkclient::Path(node())));
  const LeaderRecord record{token().value, ready, value};
  request.operations.emplace_back(zkclient::Check{full_node});
  request.operations.emplace_back(
      zkclient::Transaction::Set{full_node.parent(), detail::encode(record), zkclient::any_version});

  const auto op = std::make_shared<zk::Op>();
  op->request = std::move(request);
  op->bound = impl()->session();
  op->deadline = call.deadline.value_or(client->default_deadline());
  zk::Slot<Reply> slot;
  op->done = [&slot](Reply reply) { slot.fill(std::move(reply)); };
  client->submit(op, call.stop);
  Reply reply = slot.take();
  if (reply.ok() || reply.failed(Errc::in_doubt)) {  // What may stand there is what the next publication repeats.
    value_ = std::move(value);
    ready_ = ready;
  }
  if (reply.ok()) return;
  const bool gone =
      reply.failed(Errc::transaction_failed) && !reply.codes.empty() && reply.codes.front() == zk::rc::no_node;
  if (gone || reply.failed(Errc::session_lost)) reply.error = Errc::not_held;
  throw zk::to_error(reply, name, election.str());
}

void Leadership::proclaim(std::string_view value, const CallOptions& call) {
  publish("proclaim", std::string(value), ready_, call);
}

void Leadership::ready(const CallOptions& call) { publish("ready", value_, true, call); }

// --- Reading and observing ----------------------------------------------------------------------------------------

namespace {

/// The watches of one look at an election; null where there is nothing to watch.
struct Lookout {
  std::shared_ptr<zk::LoopWatch> leader;
  std::shared_ptr<zk::LoopWatch> record;
  std::shared_ptr<zk::LoopWatch> list;
};
using MakeWatch = std::function<std::shared_ptr<zk::LoopWatch>(zk::WatchRegistry::Kind)>;

Awaitable<Reply> read(const QueueSpec& spec, OpType type, std::string path, Call call,
                      std::shared_ptr<zk::LoopWatch> watch) {
  zk::Request request = zk::make_request(type, std::move(path));
  Reply reply;
  if (watch != nullptr) {
    reply = co_await spec.client->perform_watching(std::move(request), call, watch);
  } else {
    reply = co_await spec.client->perform(std::move(request), call);
  }
  co_return reply;
}

std::shared_ptr<zk::LoopWatch> watch_for(const MakeWatch& make, zk::WatchRegistry::Kind kind) {
  return make ? make(kind) : nullptr;
}

// Who leads, by the list of candidates; with `make_watch`, `lookout` is armed for the next change of the answer: the
// leader's node and the record of what it says, or, without a leader, the list (or the election's node, if missing).
Awaitable<Result<std::optional<Leader>>> look(SpecPtr shared, Call call, MakeWatch make_watch, Lookout& lookout) {
  using Kind = zk::WatchRegistry::Kind;
  const QueueSpec& spec = *shared;
  const auto to_error = [&](const Reply& reply) { return zk::to_error(reply, "leader", spec.path); };
  bool watch_list = false;  // Only when it turned out to be empty: else every candidate would wake us.
  for (;;) {
    lookout = {};
    if (watch_list) lookout.list = watch_for(make_watch, Kind::children);
    Reply listed = co_await read(spec, OpType::children, spec.directory, call, lookout.list);
    if (listed.failed(Errc::no_node)) {
      lookout = {};
      lookout.record = watch_for(make_watch, Kind::data);
      Reply exists = co_await read(spec, OpType::exists, spec.directory, call, lookout.record);
      if (exists.failed(Errc::no_node)) co_return std::optional<Leader>();
      if (!exists.ok()) co_return to_error(exists);
      continue;
    }
    if (!listed.ok()) co_return to_error(listed);
    const std::vector<std::string> candidates = detail::in_order(listed.names, spec.names.exclusive);
    if (candidates.empty()) {
      if (watch_list || !make_watch) co_return std::optional<Leader>();
      watch_list = true;
      continue;
    }
    watch_list = false;
    lookout = {};
    lookout.record = watch_for(make_watch, Kind::data);
    Reply record = co_await read(spec, OpType::get, spec.directory, call, lookout.record);
    if (record.failed(Errc::no_node)) continue;
    if (!record.ok()) co_return to_error(record);
    lookout.leader = watch_for(make_watch, Kind::data);
    Reply first = co_await read(spec, OpType::get, child(spec, candidates.front()), call, lookout.leader);
    if (first.failed(Errc::no_node)) continue;  // Gone since the list was read.
    if (!first.ok()) co_return to_error(first);

    Leader leader;
    leader.id = std::move(first.data);
    leader.node = candidates.front();
    leader.term = {first.stat.czxid};
    leader.session_id = first.stat.ephemeral_owner;
    const auto said = detail::decode_leader_record(record.data);
    if (said && said->term == leader.term.value) {
      leader.ready = said->ready;
      leader.value = said->value;
    }
    co_return std::optional<Leader>(std::move(leader));
  }
}

Awaitable<Result<std::optional<Leader>>> look_once(SpecPtr spec, Call call) {
  Lookout nothing;
  co_return co_await look(std::move(spec), std::move(call), {}, nothing);
}

using Listener = zkclient::UniqueFunction<void(const std::optional<Leader>&)>;

/// An observer: looks, tells, waits for a watch, looks again.
struct Observer {
  SpecPtr spec;
  Listener listener;
  std::shared_ptr<zk::SerialQueue> queue;
  std::shared_ptr<zk::CancelScope> ended = std::make_shared<zk::CancelScope>();
};

Awaitable<void> observe_until_ended(std::shared_ptr<Observer> self) {
  const std::shared_ptr<zk::ClientCore>& client = self->spec->client;
  const auto wake = std::make_shared<zk::Signal>(client->context());
  const zk::CancelScope::Guard ended(self->ended, [wake] { wake->set(); });
  std::optional<std::optional<Leader>> told;
  const MakeWatch make_watch = [&](zk::WatchRegistry::Kind kind) {
    return std::make_shared<zk::LoopWatch>(client, kind, [wake](zkclient::WatchEventType) { wake->set(); });
  };
  Call call;
  call.cancel = self->ended;
  while (!self->ended->requested() && !client->closing()) {
    wake->clear();
    Lookout lookout;
    Result<std::optional<Leader>> seen = co_await look(self->spec, call, make_watch, lookout);
    if (!seen) {
      if (seen.code() == Errc::closed || seen.code() == Errc::cancelled) co_return;
      // Out of luck for now (no connection for long, access refused): look again a little later.
      co_await wake->wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(500));
      continue;
    }
    if (!told || *told != *seen) {
      told = *seen;
      self->queue->post([self, leader = *seen] { self->listener(leader); });
    }
    if (!self->ended->requested()) co_await wake->wait(std::nullopt);
  }
}

}  // namespace

// --- LeaderElection -----------------------------------------------------------------------------------------------

struct LeaderElection::State {
  explicit State(zkclient::Client shared) : owner(std::move(shared)) {}

  zkclient::Client owner;  // Stays open for as long as it is used here.
  SpecPtr spec;
  zkclient::Path path;
  std::string id;

  // What resign() ends.
  std::mutex mutex;
  std::stop_source campaigns;
  std::vector<std::weak_ptr<detail::LeaseCore>> won;

  std::stop_token joined() {
    const std::lock_guard lock(mutex);
    return campaigns.get_token();
  }
  // A campaign that joined with `token` was won; throws if resign() was called meanwhile.
  void remember(const LeasePtr& lease, const std::stop_token& token) {
    const std::lock_guard lock(mutex);
    if (token != campaigns.get_token()) {
      lease->drop();
      throw Error(Errc::cancelled, operation, path.str(), "resigned");
    }
    std::erase_if(won, [](const auto& weak) { return weak.expired(); });
    won.push_back(lease);
  }
};

LeaderElection::LeaderElection(zkclient::Client client, zkclient::Path path, LeaderElectionOptions options)
    : state_(std::make_shared<State>(std::move(client))) {
  state_->spec = make_spec(state_->owner.impl(), path, options);
  state_->path = std::move(path);
  state_->id = options.id.empty() ? detail::process_name() : std::move(options.id);
}

LeaderElection::~LeaderElection() = default;
LeaderElection::LeaderElection(LeaderElection&&) noexcept = default;
LeaderElection& LeaderElection::operator=(LeaderElection&&) noexcept = default;

const std::string& LeaderElection::id() const noexcept { return state_->id; }
const zkclient::Path& LeaderElection::path() const noexcept { return state_->path; }

namespace {

// Two reasons to stop, the caller's and resign(), in one token.
struct EitherStop {
  using Callback = std::stop_callback<std::function<void()>>;
  std::stop_source both;
  std::optional<Callback> first;
  std::optional<Callback> second;

  EitherStop(const std::stop_token& a, const std::stop_token& b) {
    first.emplace(a, [this] { both.request_stop(); });
    second.emplace(b, [this] { both.request_stop(); });
  }
};

zk::Work<LeasePtr> campaign_work(const SpecPtr& spec, const std::string& id, bool has_deadline) {
  return [spec, id, has_deadline](Call call) {
    if (!has_deadline) call.deadline.reset();
    return detail::contend(spec, id, Patience::wait, std::move(call));
  };
}

}  // namespace

Leadership LeaderElection::campaign(const CallOptions& call) {
  const std::stop_token joined = state_->joined();
  EitherStop stop(call.stop, joined);
  const CallOptions limits{call.deadline, stop.both.get_token()};
  LeasePtr lease = zk::wait_for_work<LeasePtr>(state_->spec->client, limits,
                                               campaign_work(state_->spec, state_->id, call.deadline.has_value()),
                                               operation, state_->spec->path)
                       .value();
  state_->remember(lease, joined);
  return Leadership(std::move(lease));
}

void LeaderElection::async_campaign(zkclient::Handler<Leadership> handler, const CallOptions& call) {
  const std::stop_token joined = state_->joined();
  const auto stop = std::make_shared<EitherStop>(call.stop, joined);
  auto wrapped = [state = state_, stop, joined, handler = std::move(handler)](Result<LeasePtr> result) mutable {
    if (!result) {
      handler(result.error());
      return;
    }
    try {
      state->remember(*result, joined);
    } catch (const Error& resigned) {
      handler(resigned);
      return;
    }
    handler(Leadership(std::move(*result)));
  };
  const CallOptions limits{call.deadline, stop->both.get_token()};
  zk::start_work<LeasePtr>(state_->spec->client, limits,
                           campaign_work(state_->spec, state_->id, call.deadline.has_value()), std::move(wrapped),
                           operation, state_->spec->path);
}

namespace {

Awaitable<Result<void>> wait_until_removed(std::vector<LeasePtr> leases, Call call) {
  for (const LeasePtr& lease : leases)
    lease->remove_node();
  for (const LeasePtr& lease : leases) {
    co_await lease->removed(call);
    if (lease->node_gone()) continue;
    const bool cancelled = call.cancel != nullptr && call.cancel->requested();
    co_return Error(cancelled ? Errc::cancelled : Errc::deadline_exceeded, "resign", lease->node(),
                    "the node is being removed in the background");
  }
  co_return Result<void>();
}

}  // namespace

void LeaderElection::resign(const CallOptions& call) {
  std::vector<LeasePtr> leases;
  std::stop_source ended;
  {
    const std::lock_guard lock(state_->mutex);
    for (const auto& weak : state_->won) {
      if (LeasePtr lease = weak.lock()) leases.push_back(std::move(lease));
    }
    std::swap(ended, state_->campaigns);  // The next campaign gets a fresh one.
  }
  ended.request_stop();
  // From here on nothing is held. Those that are being given back already are waited for as well.
  std::erase_if(
      leases, [](const LeasePtr& lease) { return !lease->begin_release() && lease->state() != LeaseState::releasing; });
  if (leases.empty()) return;
  zk::Work<void> work = [leases](Call limits) { return wait_until_removed(leases, std::move(limits)); };
  zk::wait_for_work<void>(state_->spec->client, call, std::move(work), "resign", state_->path.str()).value();
}

std::optional<Leader> LeaderElection::leader(const CallOptions& call) const {
  zk::Work<std::optional<Leader>> work = [spec = state_->spec](Call limits) {
    return look_once(spec, std::move(limits));
  };
  return zk::wait_for_work<std::optional<Leader>>(state_->spec->client, call, std::move(work), "leader",
                                                  state_->path.str())
      .value();
}

std::vector<Contender> LeaderElection::candidates(const CallOptions& call) const {
  zk::Work<std::vector<Contender>> work = [spec = state_->spec](Call limits) {
    return detail::list_contenders(spec, "candidates", std::move(limits));
  };
  return zk::wait_for_work<std::vector<Contender>>(state_->spec->client, call, std::move(work), "candidates",
                                                   state_->path.str())
      .value();
}

zkclient::Subscription LeaderElection::observe(Listener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "observe", state_->path.str(), "no listener");
  const std::shared_ptr<zk::ClientCore> client = state_->spec->client;
  auto subscription = std::make_shared<zk::SubscriptionState>(client->callbacks());
  const auto observer = std::make_shared<Observer>();
  observer->spec = state_->spec;
  observer->listener = std::move(listener);
  observer->queue = subscription->queue();
  subscription->on_end = [client, ended = observer->ended] { client->loop()->post([ended] { ended->request(); }); };
  client->loop()->post([client, observer] { client->spawn(observe_until_ended(observer)); });
  return zkclient::Subscription(std::move(subscription));
}

}  // namespace zkrecipes
