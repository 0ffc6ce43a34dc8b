#include "recipes/queues/item_view.hpp"

#include <algorithm>
#include <utility>

#include "recipes/kernel/waiter.hpp"
#include "recipes/queues/claim_look.hpp"
#include "recipes/queues/due_time.hpp"

namespace zkrecipes::detail {

using std::chrono::steady_clock;

namespace {

constexpr std::size_t most_ahead = 32;
constexpr std::size_t bytes_ahead = 256 * 1024;
// A folder that was deleted and made again counts from 0 again, so a name in an old list may mean another item.
constexpr auto longest_trust = std::chrono::seconds(5);
// A consumer that lost no race for so long takes in order again.
constexpr auto calm_after = std::chrono::seconds(1);

// A sync in its place could miss a push that a client of another server has heard of.
Request passing_a_majority() { return existence_check("/"); }
// A majority has agreed on a refusal, too: the client may have no right to the root.
bool has_passed(const Reply& reply) { return reply.ok() || reply.failed(Errc::transaction_failed); }

}  // namespace

ItemView::ItemView(QueueSpecPtr spec, std::shared_ptr<zk::Signal> wake)
    : spec_(std::move(spec)), client_(spec_->client), wake_(std::move(wake)) {}

ItemView::~ItemView() {
  if (observer_) session_->forget(*observer_);
}

bool ItemView::begin_session(const SessionPtr& session) {
  if (session == session_) return false;
  if (observer_) session_->forget(*observer_);
  session_ = session;
  observer_ = session_->observe([wake = wake_.get()] { wake->set(); });
  keeper_ = client_->keeper();
  candidates_.clear();
  read_.clear();
  items_watch_ = claims_watch_ = folder_watch_ = nullptr;
  claims_elsewhere_.clear();
  listed_ = false;
  changed_ = true;
  own_claims_deleted_.clear();
  return true;
}

Call ItemView::bound_call() const {
  Call call;
  call.bound = session_;
  return call;
}

bool ItemView::is_stale() const {
  return !listed_ || taken_since_ > candidates_.takes_until_old(length_) ||
         (!candidates_.empty() && steady_clock::now() - listed_at_ > longest_trust);
}

// --- Items that are not due ------------------------------------------------------------------------------------------

void ItemView::note_time() {
  if (candidates_.next_due()) candidates_.become_due(now_ms());
}

std::optional<steady_clock::time_point> ItemView::next_look_at_clock() const {
  const std::optional<std::int64_t> due = candidates_.next_due();
  if (!due) return std::nullopt;
  const auto pause = pause_until_due(*due, now_ms());
  return steady_clock::now() + pause;
}

// --- Reading the lists --------------------------------------------------------------------------------------------

// Asks whether items were added, or have come back, since the list was read.
Awaitable<Reply> ItemView::check() {
  const Call call = bound_call();
  Reply passed;
  Reply seen;
  Reply claimed;
  do {
    const PendingReply passing = client_->launch(passing_a_majority(), call);
    const PendingReply items = client_->launch(zk::make_request(OpType::exists, spec_->items), call);
    const PendingReply claims = client_->launch(zk::make_request(OpType::exists, spec_->claims), call);
    passed = co_await passing.get();
    seen = co_await items.get();
    claimed = co_await claims.get();
    if (!has_passed(passed) && !passed.unanswered()) co_return passed;
    if (!zk::is_there_or_not(seen)) co_return seen;
    if (!zk::is_there_or_not(claimed)) co_return claimed;
  } while (passed.unanswered() || !zk::is_behind(passed, seen) || !zk::is_behind(passed, claimed));
  const FolderChanges now = folder_changes(seen.stat.children_version, seen.stat.children_count);
  const FolderChanges of_claims = folder_changes(claimed.stat.children_version, claimed.stat.children_count);
  // A folder that was made again counts from 0 again. (That of the items is watched.)
  const bool same = seen.ok() && now.created == items_seen_.created && claimed.stat.czxid == claims_czxid_ &&
                    of_claims.deleted == claims_seen_.deleted + own_claims_deleted(claimed);
  if (!same) listed_ = false;
  co_return Reply{};
}

Awaitable<Reply> ItemView::list() {
  const Call call = bound_call();
  const auto on_event = [weak = weak_from_this()](zkclient::WatchEventType) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->mark_changed();
  };
  for (;;) {
    constexpr auto children = zk::WatchRegistry::Kind::children;
    items_watch_ = std::make_shared<zk::LoopWatch>(client_, children, on_event);
    claims_watch_ = std::make_shared<zk::LoopWatch>(client_, children, on_event);
    changed_ = false;
    listed_ = false;  // Until it is read, nothing tells of changes.
    std::optional<PendingReply> passing;
    if (spec_->prioritized) passing = client_->launch(passing_a_majority(), call);
    // The claims first: what is claimed or comes back in between is then tried in vain, or seen as a change.
    const PendingReply claims =
        client_->launch_watching(zk::make_request(OpType::children, spec_->claims), call, claims_watch_);
    const PendingReply items =
        client_->launch_watching(zk::make_request(OpType::children, spec_->items), call, items_watch_);
    Reply claimed = co_await claims.get();
    Reply listed = co_await items.get();
    if (listed.failed(Errc::no_node)) {
      // Persistent, and not a container: the server would count from 0 again each time it was empty.
      listed = co_await zk::ensure(client_, spec_->items, CreateMode::persistent, spec_->acl, call);
      if (!listed.ok()) co_return listed;
      continue;
    }
    if (!listed.ok()) co_return listed;
    if (!claimed.ok() && !claimed.failed(Errc::no_node)) co_return claimed;
    if (passing) {
      Reply passed = co_await passing->get();
      if (passed.unanswered()) continue;
      if (!has_passed(passed)) co_return passed;
      if (!zk::is_behind(passed, claimed) || !zk::is_behind(passed, listed)) continue;
    }
    learn(listed, claimed);
    co_return listed;
  }
}

// --- Claims that had no room ----------------------------------------------------------------------------------------

Awaitable<Reply> ItemView::find_claim_elsewhere(ItemKey key, std::int32_t version, std::int64_t czxid) {
  const Call call = bound_call();
  ClaimLook look = co_await look_for_claim(spec_, std::move(key), version, czxid, call);
  if (!look.reply.ok() || call.bound != session_) co_return look.reply;
  Reply watched = co_await watch_claim(std::move(look.place));
  co_return watched;
}

Awaitable<Reply> ItemView::watch_claim(std::string place) {
  std::shared_ptr<zk::LoopWatch>& known = claims_elsewhere_[place];
  if (known != nullptr) co_return Reply{};
  const auto on_event = [weak = weak_from_this(), place](zkclient::WatchEventType) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->claims_elsewhere_.erase(place);
    self->mark_stale();
  };
  const auto watch = std::make_shared<zk::LoopWatch>(client_, zk::WatchRegistry::Kind::data, on_event);
  known = watch;
  Request get = zk::make_request(OpType::get, place);  // It leaves no watch if the claim has ended.
  Reply seen = co_await client_->perform_watching(std::move(get), bound_call(), watch);
  const auto found = claims_elsewhere_.find(place);
  if (!seen.ok() && found != claims_elsewhere_.end() && found->second == watch) claims_elsewhere_.erase(found);
  co_return seen;
}

// --- What was listed ------------------------------------------------------------------------------------------------

void ItemView::learn(Reply& listed, const Reply& claimed) {
  items_seen_ = folder_changes(listed.stat.children_version, listed.stat.children_count);
  claims_seen_ = folder_changes(claimed.stat.children_version, claimed.stat.children_count);
  claims_czxid_ = claimed.stat.czxid;
  std::erase_if(own_claims_deleted_, [&](BootClock::time_point sent) { return sent < claimed.sent; });
  if (folder_czxid_ != listed.stat.czxid) candidates_.put_all_in_order();
  candidates_.replace(in_take_order(listed.names, spec_->format), claimed.names, now_ms());
  read_.clear();
  listed_ = true;
  if (folder_watch_ == nullptr || folder_czxid_ != listed.stat.czxid) {
    folder_czxid_ = listed.stat.czxid;
    watch_folder();
  }
  listed_at_ = steady_clock::now();
  taken_since_ = 0;
  length_ = candidates_.size();
  if (listed_at_ - lost_race_at_ > calm_after) candidates_.calm();
  if (candidates_.empty()) ahead_ = 0;
}

// A folder that is made again has items of the same names and versions. What was read of the former ones must not be
// taken for theirs; the watches on its children may have been used up when it is deleted, by takes of our own.
void ItemView::watch_folder() {
  const auto on_event = [weak = weak_from_this()](zkclient::WatchEventType type) {
    const auto self = weak.lock();
    if (self == nullptr) return;
    // Pushers with a limit write to it.
    type == zkclient::WatchEventType::data_changed ? self->watch_folder() : self->folder_replaced();
  };
  folder_watch_ = std::make_shared<zk::LoopWatch>(client_, zk::WatchRegistry::Kind::data, on_event);
  Call call = bound_call();
  zk::spawn([](std::shared_ptr<ItemView> self, std::shared_ptr<zk::LoopWatch> watch, Call limits) -> Awaitable<void> {
    Request exists = zk::make_request(OpType::exists, self->spec_->items);
    const Reply seen = co_await self->client_->perform_watching(std::move(exists), limits, watch);
    if (limits.bound != self->session_ || watch != self->folder_watch_) co_return;
    if (!seen.ok() || seen.stat.czxid != self->folder_czxid_) self->folder_replaced();
  }(shared_from_this(), folder_watch_, call));
}

void ItemView::folder_replaced() {
  folder_watch_ = nullptr;
  read_.clear();
  listed_ = false;
  changed_ = true;
  wake_->set();
}

// --- What this consumer does --------------------------------------------------------------------------------------

void ItemView::tries(const ItemKey& key) {
  candidates_.hold(key.name);
  ++taken_since_;
}

void ItemView::lost_race() {
  candidates_.lost_race();
  lost_race_at_ = steady_clock::now();
}

void ItemView::won() {
  candidates_.won();
  ahead_ = 2 * ahead_ + 1 < 64 ? 2 * ahead_ + 1 : ahead_;
}

void ItemView::own_claim_deleted(const SessionPtr& session, BootClock::time_point sent) {
  if (session != session_) return;
  own_claims_deleted_.push_back(sent);
  if (sent == BootClock::time_point()) mark_stale();  // Its reply was lost.
}

// Ahead of a read: what a session sends is done in that order. The replies do not tell, as coroutines resume in another one.
std::uint32_t ItemView::own_claims_deleted(const Reply& read) const {
  constexpr std::uint32_t each = 2;  // As FolderChanges::deleted.
  const auto ahead = [&](BootClock::time_point sent) { return sent < read.sent; };
  return each *
         static_cast<std::uint32_t>(std::count_if(own_claims_deleted_.begin(), own_claims_deleted_.end(), ahead));
}

void ItemView::let_go(const SessionPtr& session, const ItemKey& key) {
  if (session == session_) candidates_.let_go(key.name);
}

void ItemView::mark_changed() {
  changed_ = true;
  wake_->set();
}

void ItemView::mark_stale() {
  listed_ = false;
  wake_->set();
}

// --- Reading ahead ------------------------------------------------------------------------------------------------

// Reads the next items before they are taken. Their versions tell whether they were changed since. Beside others no
// consumer knows which items it gets next.
void ItemView::read_ahead() {
  const std::size_t in_order = candidates_.items().size();
  if (is_stale() || in_order == 0 || candidates_.reach() > 1) return;
  const std::size_t count = std::min({ahead_, most_ahead, bytes_ahead / (usual_size_ + 1), in_order});
  const Call call = bound_call();
  for (std::size_t i = 0; i < count; ++i) {
    const ItemKey& key = candidates_.items()[i];
    if (read_.contains(key.name)) continue;
    read_.emplace(key.name, client_->launch(zk::make_request(OpType::get, spec_->item_path(key)), call));
  }
}

std::optional<PendingReply> ItemView::take_read(const std::string& name) {
  auto read = read_.extract(name);
  if (read.empty()) return std::nullopt;
  return read.mapped();
}

}  // namespace zkrecipes::detail
