// The dispatcher: who may try which item, and when the lists are read again.

#include "recipes/queues/queue_core.hpp"

#include <algorithm>
#include <utility>

#include "recipes/kernel/waiter.hpp"
#include "recipes/queues/take_request.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using std::chrono::steady_clock;
using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::PendingReply;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

constexpr std::size_t most_ahead = 32;
constexpr std::size_t bytes_ahead = 256 * 1024;
// A folder that was deleted and made again counts from 0 again, so a name in an old list may mean another item.
constexpr auto longest_trust = std::chrono::seconds(5);
// A consumer that nobody beat for so long takes in order again.
constexpr auto calm_after = std::chrono::seconds(1);
// How long a call whose time is over waits for the answer of what was sent for it.
constexpr auto last_word = std::chrono::milliseconds(500);

}  // namespace

std::shared_ptr<QueueCore> QueueCore::make(QueueSpec spec) {
  const std::shared_ptr<zk::Loop> loop = spec.client->loop();
  const auto destroy = [loop](QueueCore* core) { loop->post([owned = std::unique_ptr<QueueCore>(core)] {}); };
  return {new QueueCore(std::move(spec)), destroy};
}

QueueCore::QueueCore(QueueSpec spec)
    : spec_(std::move(spec)),
      pusher_(std::make_shared<ExactlyOnceWriter>(spec_.client, spec_.slots, spec_.acl)),
      taker_(std::make_shared<ExactlyOnceWriter>(spec_.client, spec_.slots, spec_.acl)),
      ender_(std::make_shared<ExactlyOnceWriter>(spec_.client, spec_.slots, spec_.acl)),
      wake_(spec_.client->events()),
      random_(std::random_device()()),
      idle_(spec_.client->events()) {}

QueueCore::~QueueCore() {
  if (observer_) session_->forget(*observer_);
}

Error QueueCore::error(const Reply& reply, const char* operation) const {
  return zk::to_error(reply, operation, spec_.path);
}

Awaitable<Result<std::optional<Taken>>> QueueCore::take(TakeKind kind, Patience patience, Call call) {
  const bool once = patience == Patience::try_once;
  const TakeRequestPtr want = std::make_shared<TakeRequest>(spec_.client->events(), kind, once, ++wants_made_);
  const char* operation = kind == TakeKind::pop ? "queue pop" : "queue claim";
  zk::CancelScope::Guard cancelled;
  bool stop = call.cancel != nullptr && call.cancel->requested();
  if (call.cancel != nullptr && !stop) cancelled = zk::CancelScope::Guard(call.cancel, [want] { want->wake.set(); });
  if (kind == TakeKind::claim) last_claim_ = steady_clock::now();
  wants_.push_back(want);
  kick();
  std::optional<steady_clock::time_point> deadline = call.deadline;
  Errc why{};
  for (;;) {
    want->wake.clear();
    if (want->outcome) co_return std::move(*want->outcome);
    const auto now = steady_clock::now();
    stop = call.cancel != nullptr && call.cancel->requested();
    const bool late = call.deadline && now >= *call.deadline;
    if (why == Errc{} && (stop || late)) {
      why = stop ? Errc::cancelled : Errc::deadline_exceeded;
      deadline = now + last_word;
    }
    const bool sent = want->state == TakeRequest::State::writing;
    if (why != Errc{} && (!sent || now >= *deadline)) {
      drop(want);
      if (!sent || kind != TakeKind::pop) co_return Error(why, operation, spec_.path);
      const std::string item = spec_.client->stripped(child_path(spec_.items, want->item));
      co_return Error(Errc::in_doubt, operation, spec_.path, item + " was being taken; if it was, it will be put back");
    }
    co_await want->wake.wait(deadline);
  }
}

void QueueCore::drop(const TakeRequestPtr& want) {
  want->state = TakeRequest::State::done;
  std::erase(wants_, want);
  wake_.set();
}

void QueueCore::kick() {
  wake_.set();
  if (dispatching_) return;
  dispatching_ = true;
  zk::spawn(dispatch(shared_from_this()));
}

Awaitable<void> QueueCore::dispatch(std::shared_ptr<QueueCore> self) {
  while (!self->wants_.empty()) {
    self->wake_.clear();
    Reply connected = co_await self->spec_.client->connected(Call());
    if (!connected.ok()) {
      self->fail_waiting(connected);
      if (self->wants_.empty()) break;
      co_await self->wake_.wait(std::nullopt);  // Some are in flight still.
      continue;
    }
    self->begin_session(connected.session);
    self->serve();
    if (self->wants_.empty()) break;
    if (!self->must_look()) {
      co_await self->wake_.wait(std::nullopt);
      continue;
    }
    Reply looked = co_await self->look();
    if (looked.ok() || looked.failed(Errc::session_lost)) continue;
    self->fail_waiting(looked);
  }
  self->dispatching_ = false;
}

void QueueCore::begin_session(const std::shared_ptr<zk::SessionState>& session) {
  if (session == session_) return;
  if (observer_) session_->forget(*observer_);
  session_ = session;
  observer_ = session_->observe([this] { wake_.set(); });
  keeper_ = spec_.client->keeper();
  candidates_.clear();
  read_.clear();
  stash_.clear();
  items_watch_ = claims_watch_ = folder_watch_ = nullptr;
  listed_ = false;
  changed_ = true;
  own_claims_deleted_ = 0;
}

// Of a queue with priorities, all calls that one look was for try at once: what comes later might have to go first.
bool QueueCore::may_try() const {
  return in_flight_ < window &&
         (spec_.prioritized || in_flight_ < candidates_.at_once(in_flight_ + candidates_.size()));
}

void QueueCore::lost_race() {
  candidates_.lost_race();
  beaten_at_ = steady_clock::now();
}

QueueCore::TakeRequestPtr QueueCore::first_waiting(std::optional<TakeKind> kind) const {
  const auto found = std::find_if(wants_.begin(), wants_.end(), [&](const TakeRequestPtr& want) {
    return want->state == TakeRequest::State::waiting && (!kind || want->kind == *kind);
  });
  return found != wants_.end() ? *found : nullptr;
}

bool QueueCore::is_stale() const {
  return !listed_ || taken_since_ > candidates_.takes_until_old(length_) ||
         (!candidates_.empty() && steady_clock::now() - listed_at_ > longest_trust);
}

void QueueCore::serve() {
  while (const TakeRequestPtr claim = first_waiting(TakeKind::claim)) {
    std::optional<Taken> ready = from_stash();
    if (!ready) break;
    std::erase(wants_, claim);
    claim->finish(std::move(ready));
  }
  while (may_try() && !is_stale()) {
    const TakeRequestPtr want = first_waiting();
    if (want == nullptr || (spec_.prioritized && want->serial > looked_for_)) break;
    std::optional<ItemKey> key = candidates_.next(static_cast<std::uint32_t>(random_()));
    if (!key) break;
    start(want, std::move(*key));
  }
  answer_tries();
  if (!is_stale()) prefetch();
  read_ahead();
}

// Those who do not wait learn that there is nothing, once a list says so that is younger than their call.
void QueueCore::answer_tries() {
  if (!listed_ || !candidates_.empty()) return;
  const std::deque<TakeRequestPtr> all = wants_;
  for (const TakeRequestPtr& want : all) {
    if (!want->once || want->state != TakeRequest::State::waiting || want->serial > looked_for_) continue;
    std::erase(wants_, want);
    want->finish(std::optional<Taken>());
  }
}

bool QueueCore::must_look() const {
  if (in_flight_ >= window || first_waiting() == nullptr) return false;
  if (is_stale()) return true;
  if (!candidates_.empty()) return spec_.prioritized;  // Those who wait came after the last look.
  return changed_ || std::any_of(wants_.begin(), wants_.end(), [&](const TakeRequestPtr& want) {
           return want->once && want->state == TakeRequest::State::waiting && want->serial > looked_for_;
         });
}

void QueueCore::start(TakeRequestPtr want, ItemKey key) {
  const TakeKind kind = want != nullptr ? want->kind : TakeKind::claim;
  if (want != nullptr) want->state = TakeRequest::State::reading;
  candidates_.hold(key.name);
  ++in_flight_;
  ++taken_since_;
  zk::spawn(attempt(shared_from_this(), std::move(want), std::move(key), kind));
}

void QueueCore::fail_waiting(const Reply& why) {
  const std::deque<TakeRequestPtr> all = wants_;
  for (const TakeRequestPtr& want : all) {
    if (want->state != TakeRequest::State::waiting) continue;
    std::erase(wants_, want);
    want->finish(error(why, want->kind == TakeKind::pop ? "queue pop" : "queue claim"));
  }
}

Awaitable<Reply> QueueCore::look() {
  const std::uint64_t newest = wants_made_;
  if (spec_.prioritized && listed_ && !candidates_.empty() && !is_stale()) {
    Reply checked = co_await check();
    if (!checked.ok()) co_return checked;
    if (!is_stale()) {
      looked_for_ = newest;
      co_return checked;
    }
  }
  Reply listed = co_await read_lists();
  if (listed.ok()) looked_for_ = newest;
  co_return listed;
}

// Asks whether items were added, or have come back, since the list was read.
Awaitable<Reply> QueueCore::check() {
  Call call;
  call.bound = session_;
  const PendingReply syncing = spec_.client->launch(zk::make_request(OpType::sync, spec_.items), call);
  const PendingReply items = spec_.client->launch(zk::make_request(OpType::exists, spec_.items), call);
  const PendingReply claims = spec_.client->launch(zk::make_request(OpType::exists, spec_.claims), call);
  Reply synced = co_await syncing.get();
  Reply seen = co_await items.get();
  Reply claimed = co_await claims.get();
  if (!synced.ok()) co_return synced;
  if (!seen.ok() && !seen.failed(Errc::no_node)) co_return seen;
  if (!claimed.ok() && !claimed.failed(Errc::no_node)) co_return claimed;
  const FolderChanges now = folder_changes(seen.stat.children_version, seen.stat.children_count);
  const FolderChanges of_claims = folder_changes(claimed.stat.children_version, claimed.stat.children_count);
  // A folder that was made again counts from 0 again. (That of the items is watched.)
  const bool same = seen.ok() && now.created == items_seen_.created && claimed.stat.czxid == claims_czxid_ &&
                    of_claims.deleted == claims_seen_.deleted + own_claims_deleted_;
  if (!same) listed_ = false;
  co_return Reply{};
}

Awaitable<Reply> QueueCore::read_lists() {
  Call call;
  call.bound = session_;
  const auto on_event = [weak = weak_from_this()](zkclient::WatchEventType) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->changed_ = true;
    self->wake_.set();
  };
  for (;;) {
    constexpr auto children = zk::WatchRegistry::Kind::children;
    items_watch_ = std::make_shared<zk::LoopWatch>(spec_.client, children, on_event);
    claims_watch_ = std::make_shared<zk::LoopWatch>(spec_.client, children, on_event);
    changed_ = false;
    listed_ = false;  // Until it is read, nothing tells of changes.
    if (spec_.prioritized) spec_.client->launch(zk::make_request(OpType::sync, spec_.items), call);
    // The claims first: what is claimed or comes back in between is then tried in vain, or seen as a change.
    const PendingReply claims =
        spec_.client->launch_watching(zk::make_request(OpType::children, spec_.claims), call, claims_watch_);
    const PendingReply items =
        spec_.client->launch_watching(zk::make_request(OpType::children, spec_.items), call, items_watch_);
    Reply claimed = co_await claims.get();
    own_claims_deleted_ = 0;  // Those after this reply.
    Reply listed = co_await items.get();
    if (listed.failed(Errc::no_node)) {
      // Persistent, and not a container: the server would count from 0 again each time it was empty.
      listed = co_await spec_.client->ensure(spec_.items, CreateMode::persistent, spec_.acl, call);
      if (!listed.ok()) co_return listed;
      continue;
    }
    if (!listed.ok()) co_return listed;
    if (!claimed.ok() && !claimed.failed(Errc::no_node)) co_return claimed;
    items_seen_ = folder_changes(listed.stat.children_version, listed.stat.children_count);
    claims_seen_ = folder_changes(claimed.stat.children_version, claimed.stat.children_count);
    claims_czxid_ = claimed.stat.czxid;
    candidates_.replace(in_take_order(listed.names, spec_.format), claimed.names);
    read_.clear();
    listed_ = true;
    if (folder_watch_ == nullptr || folder_czxid_ != listed.stat.czxid) {
      folder_czxid_ = listed.stat.czxid;
      watch_folder();
    }
    listed_at_ = steady_clock::now();
    taken_since_ = 0;
    length_ = candidates_.size();
    if (listed_at_ - beaten_at_ > calm_after) candidates_.calm();
    if (candidates_.empty()) ahead_ = 0;
    co_return listed;
  }
}

// A folder that is made again has items of the same names and versions. What was read of the former ones must not be taken
// for theirs; the watches on its children may have been used up when it is deleted, by takes of our own.
void QueueCore::watch_folder() {
  const auto on_event = [weak = weak_from_this()](zkclient::WatchEventType type) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    // Those who push with a limit write to it.
    type == zkclient::WatchEventType::data_changed ? self->watch_folder() : self->folder_replaced();
  };
  folder_watch_ = std::make_shared<zk::LoopWatch>(spec_.client, zk::WatchRegistry::Kind::data, on_event);
  Call call;
  call.bound = session_;
  zk::spawn([](std::shared_ptr<QueueCore> self, std::shared_ptr<zk::LoopWatch> watch, Call limits) -> Awaitable<void> {
    Request exists = zk::make_request(OpType::exists, self->spec_.items);
    const Reply seen = co_await self->spec_.client->perform_watching(std::move(exists), limits, watch);
    if (limits.bound != self->session_ || watch != self->folder_watch_) co_return;
    if (!seen.ok() || seen.stat.czxid != self->folder_czxid_) self->folder_replaced();
  }(shared_from_this(), folder_watch_, call));
}

void QueueCore::folder_replaced() {
  folder_watch_ = nullptr;
  read_.clear();
  listed_ = false;
  changed_ = true;
  wake_.set();
}

// Reads the next items before they are taken. Their versions tell whether they were changed since. Beside others nobody
// knows which ones are next.
void QueueCore::read_ahead() {
  if (is_stale() || candidates_.empty() || candidates_.reach() > 1) return;
  const std::size_t count = std::min({ahead_, most_ahead, bytes_ahead / (usual_size_ + 1), candidates_.size()});
  Call call;
  call.bound = session_;
  for (std::size_t i = 0; i < count; ++i) {
    const ItemKey& key = candidates_.items()[i];
    if (read_.contains(key.name)) continue;
    read_.emplace(key.name, spec_.client->launch(zk::make_request(OpType::get, item_path(key)), call));
  }
}

}  // namespace zkrecipes::detail
