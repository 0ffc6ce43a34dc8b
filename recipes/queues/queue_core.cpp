// The dispatcher: which call may try which item, and when the lists are read again.

#include "recipes/queues/queue_core.hpp"

#include <algorithm>
#include <utility>

#include "recipes/queues/take_request.hpp"
#include "zkclient/detail/recipe_random.hpp"

namespace zkrecipes::detail {

using std::chrono::steady_clock;

namespace {

constexpr std::size_t window = 32;  // Items that are being taken at a time.
// How long a call whose time is over waits for the answer of what was sent for it.
constexpr auto last_word = std::chrono::milliseconds(500);

}  // namespace

std::shared_ptr<QueueCore> QueueCore::make(QueueSpec spec) {
  const std::shared_ptr<zk::Loop> loop = spec.client->loop();
  const auto destroy = [loop](QueueCore* core) { loop->post([owned = std::unique_ptr<QueueCore>(core)] {}); };
  return {new QueueCore(std::move(spec)), destroy};
}

QueueCore::QueueCore(QueueSpec spec)
    : spec_(std::make_shared<const QueueSpec>(std::move(spec))),
      client_(spec_->client),
      wake_(std::make_shared<zk::Signal>(client_->events())),
      view_(std::make_shared<ItemView>(spec_, wake_)),
      taker_(std::make_shared<ExactlyOnceWriter>(client_, spec_->slots, spec_->acl)),
      claims_(std::make_shared<ItemClaims>(spec_, view_)),
      gate_(spec_),
      stash_(client_->events()),
      random_(static_cast<std::uint32_t>(zkclient::detail::random_seed())) {}

Awaitable<Result<std::optional<Taken>>> QueueCore::take(TakeKind kind, Patience patience, Call call) {
  const bool once = patience == Patience::try_once;
  const TakeRequestPtr request = std::make_shared<TakeRequest>(client_->events(), kind, once, ++requests_made_);
  zk::CancelScope::Guard cancelled;
  bool stop = call.cancel != nullptr && call.cancel->requested();
  if (call.cancel != nullptr && !stop)
    cancelled = zk::CancelScope::Guard(call.cancel, [request] { request->wake.set(); });
  if (kind == TakeKind::claim) stash_.note_demand();
  requests_.push_back(request);
  kick();
  std::optional<steady_clock::time_point> deadline = call.deadline;
  Errc why{};
  for (;;) {
    request->wake.clear();
    if (request->outcome) co_return std::move(*request->outcome);
    const auto now = steady_clock::now();
    stop = call.cancel != nullptr && call.cancel->requested();
    const bool late = call.deadline && now >= *call.deadline;
    if (why == Errc{} && (stop || late)) {
      why = stop ? Errc::cancelled : Errc::deadline_exceeded;
      deadline = now + last_word;
    }
    const bool sent = request->state == TakeRequest::State::writing;
    if (why != Errc{} && (!sent || now >= *deadline)) {
      drop(request);
      if (!sent || kind != TakeKind::pop) co_return Error(why, name_of(kind), spec_->path);
      const std::string item = client_->stripped(zk::child_path(spec_->items, request->item));
      co_return Error(Errc::in_doubt, name_of(kind), spec_->path,
                      item + " was being taken; if it was, it will be put back", item);
    }
    co_await request->wake.wait(deadline);
  }
}

void QueueCore::kick() {
  wake_->set();
  if (dispatching_) return;
  dispatching_ = true;
  zk::spawn(dispatch(shared_from_this()));
}

Awaitable<void> QueueCore::dispatch(std::shared_ptr<QueueCore> self) {
  while (!self->requests_.empty()) {
    self->wake_->clear();
    Reply connected = co_await self->client_->connected(Call());
    if (!connected.ok()) {
      self->fail_waiting(connected);
      if (self->requests_.empty()) break;
      co_await self->wake_->wait(std::nullopt);  // Some are in flight still.
      continue;
    }
    if (self->view_->begin_session(connected.session)) self->stash_.clear();
    const DispatchStep step = self->serve();
    if (self->requests_.empty()) break;
    if (step != DispatchStep::look) {
      co_await self->wake_->wait(self->view_->next_look_at_clock());
      continue;
    }
    Reply looked = co_await self->look();
    if (looked.ok() || looked.failed(Errc::session_lost)) continue;
    self->fail_waiting(looked);
  }
  self->dispatching_ = false;
}

// Does what can be done without waiting. Returns `look` or `wait`.
DispatchStep QueueCore::serve() {
  bool ahead = false;  // Claims ahead of calls come last.
  for (;;) {
    const DispatchStep step = decide_dispatch(facts());
    switch (step) {
      case DispatchStep::hand_out: hand_out(); continue;
      case DispatchStep::try_item:
        start(first_waiting(), *view_->candidates().next(static_cast<std::uint32_t>(random_())));
        continue;
      case DispatchStep::answer_tries: answer_tries(); continue;
      case DispatchStep::look:
      case DispatchStep::wait: break;
    }
    if (std::exchange(ahead, true)) return step;
    prefetch();
    view_->read_ahead();
  }
}

DispatchFacts QueueCore::facts() {
  const TakeRequestPtr first = first_waiting();
  view_->note_time();
  DispatchFacts facts;
  facts.prioritized = spec_->prioritized;
  facts.waits = first != nullptr;
  facts.was_looked_for = first != nullptr && first->serial <= looked_for_;
  facts.claim_is_ready = stash_.ready() && first_waiting(TakeKind::claim) != nullptr;
  facts.listed = view_->listed();
  facts.stale = view_->is_stale();
  facts.changed = view_->changed();
  facts.has_candidates = !view_->candidates().empty();
  facts.may_try = may_try();
  facts.window_full = in_flight_ >= window;
  if (facts.listed && !facts.has_candidates) {
    facts.try_is_answered = try_waits(true);
    facts.try_is_open = try_waits(false);
  }
  return facts;
}

// Of a queue with priorities, all calls that one look was for try at once: what comes later might have to go first.
bool QueueCore::may_try() const {
  const CandidateItems& candidates = view_->candidates();
  return in_flight_ < window && (spec_->prioritized || in_flight_ < candidates.at_once(in_flight_ + candidates.size()));
}

QueueCore::TakeRequestPtr QueueCore::first_waiting(std::optional<TakeKind> kind) const {
  const auto found = std::find_if(requests_.begin(), requests_.end(), [&](const TakeRequestPtr& request) {
    return request->state == TakeRequest::State::waiting && (!kind || request->kind == *kind);
  });
  return found != requests_.end() ? *found : nullptr;
}

// A call that does not wait, whose turn has not come.
bool QueueCore::try_waits(bool was_looked_for) const {
  return std::any_of(requests_.begin(), requests_.end(), [&](const TakeRequestPtr& request) {
    return request->once && request->state == TakeRequest::State::waiting &&
           (request->serial <= looked_for_) == was_looked_for;
  });
}

void QueueCore::hand_out() {
  const TakeRequestPtr claim = first_waiting(TakeKind::claim);
  std::erase(requests_, claim);
  claim->finish(std::optional<Taken>(stash_.take()));
}

// Calls that do not wait learn that there is nothing, once a list says so that is younger than their call.
void QueueCore::answer_tries() {
  const std::deque<TakeRequestPtr> all = requests_;
  for (const TakeRequestPtr& request : all) {
    if (!request->once || request->state != TakeRequest::State::waiting || request->serial > looked_for_) continue;
    std::erase(requests_, request);
    request->finish(std::optional<Taken>());
  }
}

void QueueCore::prefetch() {
  if (spec_->prefetch == 0 || stash_.retired() || !stash_.in_demand() || view_->is_stale()) return;
  const auto most = static_cast<std::size_t>(spec_->prefetch);
  // The others get their share of what is left.
  while (stash_.size() < most && stash_.size() < view_->candidates().size() && may_try()) {
    std::optional<ItemKey> key = view_->candidates().next(static_cast<std::uint32_t>(random_()));
    if (!key) return;
    stash_.expect_one();
    start(nullptr, std::move(*key));
  }
}

void QueueCore::start(TakeRequestPtr request, ItemKey key) {
  const TakeKind kind = request != nullptr ? request->kind : TakeKind::claim;
  if (request != nullptr) request->state = TakeRequest::State::reading;
  view_->tries(key);
  ++in_flight_;
  zk::spawn(attempt(shared_from_this(), std::move(request), std::move(key), kind));
}

void QueueCore::fail_waiting(const Reply& why) {
  const std::deque<TakeRequestPtr> all = requests_;
  for (const TakeRequestPtr& request : all) {
    if (request->state != TakeRequest::State::waiting) continue;
    std::erase(requests_, request);
    request->finish(spec_->error(why, name_of(request->kind)));
  }
}

void QueueCore::drop(const TakeRequestPtr& request) {
  request->state = TakeRequest::State::done;
  std::erase(requests_, request);
  wake_->set();
}

Awaitable<Reply> QueueCore::look() {
  const std::uint64_t newest = requests_made_;
  Reply looked;
  if (spec_->prioritized && view_->listed() && !view_->candidates().empty() && !view_->is_stale()) {
    looked = co_await view_->check();
    if (!looked.ok()) co_return looked;
  }
  if (view_->is_stale() || view_->candidates().empty() || !spec_->prioritized) looked = co_await view_->list();
  if (looked.ok()) looked_for_ = newest;
  co_return looked;
}

}  // namespace zkrecipes::detail
