#include "recipes/elections/leader_view.hpp"

#include <fmt/format.h>

#include "recipes/elections/leader_record.hpp"
#include "recipes/kernel/ended_wait.hpp"
#include "recipes/kernel/growing_pause.hpp"
#include "recipes/kernel/sequence.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

using Kind = zk::WatchRegistry::Kind;

namespace {

/// After an error of reading that may go away: with the next session at once, with a right that is granted some day.
GrowingPause pauses_of_looks() { return {std::chrono::milliseconds(20), std::chrono::milliseconds(500)}; }

/// Reading may succeed a little later, maybe with another session.
bool passes(zkclient::ErrorKind kind) {
  return kind == zkclient::ErrorKind::retryable || kind == zkclient::ErrorKind::session_lost;
}

Leader to_leader(std::string name, Reply node, const Reply& record) {
  Leader leader;
  leader.id = std::move(node.data);
  leader.node = std::move(name);
  leader.term = {node.stat.czxid};
  leader.session_id = node.stat.ephemeral_owner;
  const auto said = decode_leader_record(record.data);
  if (said && said->term == leader.term.value) {  // Else these are a former leader's words.
    leader.ready = said->ready;
    leader.value = said->value;
  }
  return leader;
}

}  // namespace

// --- Looking ------------------------------------------------------------------------------------------------------

LeaderFinder::LeaderFinder(PlacePtr place, Call call, std::function<void()> on_change)
    : place_(std::move(place)), call_(std::move(call)), on_change_(std::move(on_change)) {}

LeaderFinder::Watch LeaderFinder::make_watch(Kind kind) const {
  if (!on_change_) return nullptr;
  return std::make_shared<zk::LoopWatch>(place_->client, kind,
                                         [on_change = on_change_](zkclient::WatchEventType) { on_change(); });
}

PendingReply LeaderFinder::launch(OpType type, std::string path, const Watch& watch) const {
  zk::Request request = zk::make_request(type, std::move(path));
  if (watch != nullptr) return place_->client->launch_watching(std::move(request), call_, watch);
  return place_->client->launch(std::move(request), call_);
}

std::string LeaderFinder::child(const std::string& name) const {
  return place_->directory == "/" ? "/" + name : place_->directory + "/" + name;
}

Awaitable<Result<std::optional<Leader>>> LeaderFinder::look() {
  for (;;) {
    leader_watch_ = record_watch_ = absence_watch_ = nullptr;
    found_.reset();
    Reply reply = co_await catch_up();
    if (reply.ok()) reply = co_await locate();
    if (reply.ok() && located_) {
      std::string name = *located_;
      reply = co_await read(std::move(name));
      if (reply.failed(Errc::no_node)) continue;  // Gone since it was located.
    }
    if (!reply.ok()) co_return zk::to_error(reply, "leader", place_->path);
    // Of a session that has not caught up: read again.
    if (place_->client->current() == session_) co_return found_;
  }
}

// A new session may be served by a server that lags behind the one of the last session.
Awaitable<Reply> LeaderFinder::catch_up() {
  Reply reply;
  if (session_ != nullptr && place_->client->current() == session_) co_return reply;
  const PendingReply syncing = launch(OpType::sync, place_->directory, nullptr);
  reply = co_await syncing.get();
  if (reply.ok()) session_ = reply.session;
  co_return reply;
}

// Sets located_; when there is none, a watch for its appearance has been armed.
Awaitable<Reply> LeaderFinder::locate() {
  located_.reset();
  if (!place_->node.empty()) {
    std::string path = child(place_->node);
    Reply seen = co_await watch_for(std::move(path));
    if (seen.ok()) located_ = place_->node;
    if (seen.failed(Errc::no_node)) seen.error.reset();
    co_return seen;
  }
  for (;;) {
    // The list is watched only when it turned out to be empty: else every candidate would wake us.
    Reply listed = co_await list(false);
    if (listed.ok() && !located_ && on_change_) listed = co_await list(true);
    if (!listed.failed(Errc::no_node)) co_return listed;
    std::string directory = place_->directory;
    Reply seen = co_await watch_for(std::move(directory));
    if (seen.ok()) continue;  // There it is.
    if (seen.failed(Errc::no_node)) seen.error.reset();
    co_return seen;
  }
}

Awaitable<Reply> LeaderFinder::list(bool watching) {
  if (watching) absence_watch_ = make_watch(Kind::children);
  const PendingReply listing = launch(OpType::children, place_->directory, watching ? absence_watch_ : nullptr);
  Reply listed = co_await listing.get();
  located_.reset();
  const std::vector<std::string> candidates = in_order(listed.names, place_->infixes);
  if (!candidates.empty()) located_ = candidates.front();
  if (located_) absence_watch_ = nullptr;
  co_return listed;
}

Awaitable<Reply> LeaderFinder::watch_for(std::string path) {
  absence_watch_ = make_watch(Kind::data);
  const PendingReply looking = launch(OpType::exists, std::move(path), absence_watch_);
  Reply seen = co_await looking.get();
  if (seen.ok()) absence_watch_ = nullptr;
  co_return seen;
}

// The leader's node and its words, in one flight; no_node when one of them is not there.
Awaitable<Reply> LeaderFinder::read(std::string name) {
  record_watch_ = make_watch(Kind::data);
  leader_watch_ = make_watch(Kind::data);
  const PendingReply reading_record = launch(OpType::get, place_->directory, record_watch_);
  const PendingReply reading_node = launch(OpType::get, child(name), leader_watch_);
  Reply record = co_await reading_record.get();
  Reply node = co_await reading_node.get();
  if (!record.ok()) co_return record;
  if (!node.ok()) co_return node;
  found_ = to_leader(std::move(name), std::move(node), record);
  co_return record;
}

Awaitable<Result<std::optional<Leader>>> find_leader(PlacePtr place, Call call) {
  LeaderFinder finder(std::move(place), std::move(call), {});
  co_return co_await finder.look();
}

// --- Waiting ------------------------------------------------------------------------------------------------------

namespace {

/// What a call waits for, in words and as a predicate.
struct AwaitedLeader {
  std::string words;
  std::function<bool(const std::optional<Leader>& leader)> accepts;
};

std::string describe_leader(const std::optional<Leader>& leader) {
  if (!leader) return "no leader";
  return fmt::format("leader {:?} ({}, term {}, {})", leader->id, leader->node, leader->term.value,
                     leader->ready ? "ready" : "not ready");
}

// Looks until what is seen is accepted.
Awaitable<Result<std::optional<Leader>>> look_until(PlacePtr place, AwaitedLeader awaited, Call call) {
  std::string last = "nothing has been read yet";
  GrowingPause pauses = pauses_of_looks();
  const auto wake = std::make_shared<zk::Signal>(place->client->events());
  const auto wake_up = [wake] { wake->set(); };
  zk::CancelScope::Guard cancelled;
  if (call.cancel != nullptr && !call.cancel->requested()) cancelled = zk::CancelScope::Guard(call.cancel, wake_up);
  LeaderFinder finder(place, call, wake_up);
  for (;;) {
    wake->clear();
    Result<std::optional<Leader>> seen = co_await finder.look();
    if (!seen && !passes(seen.error().kind())) co_return seen.error();
    if (seen && awaited.accepts(*seen)) co_return seen;
    if (seen) {
      last = describe_leader(*seen);
      pauses.reset();
    }
    const bool over = call.deadline && std::chrono::steady_clock::now() >= *call.deadline;
    const bool cancelled_by_caller = call.cancel != nullptr && call.cancel->requested();
    if (over || cancelled_by_caller) {
      const Errc why = over ? Errc::deadline_exceeded : Errc::cancelled;
      co_return Error(why, "wait for leader", place->path, wait_story(awaited.words, last));
    }
    std::optional<zk::Op::TimePoint> until = call.deadline;
    if (!seen) {
      const auto later = std::chrono::steady_clock::now() + pauses.next();
      until = until ? std::min(*until, later) : later;
    }
    co_await wake->wait(until);
  }
}

}  // namespace

Awaitable<Result<Leader>> await_leader(PlacePtr place, LeaderCondition condition, Call call) {
  AwaitedLeader awaited;
  awaited.words = condition.ready ? "a leader that is ready" : "a leader";
  if (condition.after.value != 0) awaited.words += fmt::format(", of a term after {}", condition.after.value);
  awaited.accepts = [condition](const std::optional<Leader>& leader) {
    return leader && leader->term.value > condition.after.value && (leader->ready || !condition.ready);
  };
  Result<std::optional<Leader>> seen = co_await look_until(std::move(place), std::move(awaited), std::move(call));
  if (!seen) co_return seen.error();
  co_return std::move(**seen);
}

Awaitable<Result<std::optional<Leader>>> await_change(PlacePtr place, std::optional<Leader> known, Call call) {
  AwaitedLeader awaited;
  awaited.words = "another state than " + describe_leader(known);
  awaited.accepts = [known = std::move(known)](const std::optional<Leader>& leader) { return leader != known; };
  return look_until(std::move(place), std::move(awaited), std::move(call));
}

// --- Observing ----------------------------------------------------------------------------------------------------

namespace {

/// Looks, tells, waits for a watch, looks again.
struct Observer {
  PlacePtr place;
  LeaderListener listener;
  std::shared_ptr<zk::SerialQueue> queue;
  std::shared_ptr<zk::CancelScope> ended = std::make_shared<zk::CancelScope>();
};

Awaitable<void> observe_until_ended(std::shared_ptr<Observer> self) {
  const std::shared_ptr<zk::ClientCore>& client = self->place->client;
  const auto wake = std::make_shared<zk::Signal>(client->events());
  const zk::CancelScope::Guard ended(self->ended, [wake] { wake->set(); });
  Call call;
  call.cancel = self->ended;
  LeaderFinder finder(self->place, call, [wake] { wake->set(); });
  GrowingPause pauses = pauses_of_looks();
  std::optional<std::optional<Leader>> told;
  while (!self->ended->requested() && !client->closing()) {
    wake->clear();
    Result<std::optional<Leader>> seen = co_await finder.look();
    if (!seen) {
      if (seen.code() == Errc::closed || seen.code() == Errc::cancelled) co_return;
      // No connection for long, or access refused: look again a little later.
      co_await wake->wait(std::chrono::steady_clock::now() + pauses.next());
      continue;
    }
    pauses.reset();
    if (!told || *told != *seen) {
      told = *seen;
      self->queue->post([self, leader = *seen] { self->listener(leader); });
    }
    if (!self->ended->requested()) co_await wake->wait(std::nullopt);
  }
}

}  // namespace

zkclient::Subscription observe_leader(const PlacePtr& place, LeaderListener listener) {
  if (!listener) throw Error(Errc::invalid_argument, "observe", place->path, "no listener");
  const std::shared_ptr<zk::ClientCore> client = place->client;
  auto subscription = std::make_shared<zk::SubscriptionState>(client->callbacks());
  const auto observer = std::make_shared<Observer>();
  observer->place = place;
  observer->listener = std::move(listener);
  observer->queue = subscription->queue();
  subscription->on_end = [client, ended = observer->ended] { client->loop()->post([ended] { ended->request(); }); };
  client->loop()->post([client, observer] { zk::spawn(observe_until_ended(observer)); });
  return zkclient::Subscription(std::move(subscription));
}

}  // namespace zkrecipes::detail
