// One item: read, taken or claimed, handed over.

#include <algorithm>
#include <cstddef>
#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/stand_in.hpp"
#include "recipes/kernel/waiter.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/queues/claim_place.hpp"
#include "recipes/queues/item_transaction.hpp"
#include "recipes/queues/queue_core.hpp"
#include "recipes/queues/take_request.hpp"

namespace zkrecipes::detail {

namespace {

constexpr auto pause_after_failure = std::chrono::milliseconds(200);
constexpr auto longest_pause = std::chrono::milliseconds(10'000);
constexpr std::size_t most_told_of = 1000;

void warn(const QueueSpec& spec, const std::string& text) {
  zk::log(zkclient::LogLevel::warning, fmt::format("queue {}: {}", spec.path, text),
          {.path = spec.path, .source = "zkrecipes"});
}

}  // namespace

// `request`: whom it is for; null for an item that is claimed ahead.
Awaitable<void> QueueCore::attempt(std::shared_ptr<QueueCore> self, TakeRequestPtr request, ItemKey key,
                                   TakeKind kind) {
  Reply failure;
  const auto session = self->view_->session();
  const Attempted outcome = co_await self->try_take(request, key, kind, failure);
  --self->in_flight_;
  if (request == nullptr) self->stash_.one_has_come();
  const bool same_session = session == self->view_->session();
  if (outcome != Attempted::done) self->view_->let_go(session, key);
  if (outcome == Attempted::done && same_session) self->view_->candidates().put_in_order(key.name);
  // It is there still, for later calls: one that cannot be taken comes behind those that can.
  if (outcome == Attempted::unusable && same_session) self->view_->candidates().put_last(key.name);
  const bool open = TakeRequest::is_open(request);
  if (!open && outcome == Attempted::unusable) self->tell_of(key, self->spec_->error(failure, name_of(kind)));
  if (outcome == Attempted::again && same_session) self->view_->candidates().insert(std::move(key));
  // Then a new list shows it again.
  const bool the_last = outcome == Attempted::unusable && !failure.failed(Errc::foreign_node) && same_session &&
                        self->view_->candidates().empty();
  if ((outcome == Attempted::failed && same_session) || the_last) self->view_->mark_stale();
  if (open && (outcome == Attempted::gone || outcome == Attempted::again)) request->state = TakeRequest::State::waiting;
  if (open && (outcome == Attempted::failed || outcome == Attempted::unusable)) {
    std::erase(self->requests_, request);
    const std::string_view item = failure.failed(Errc::in_doubt) ? std::string_view(failure.path) : std::string_view();
    request->finish(self->spec_->error(failure, name_of(kind), item));
  }
  self->wake_->set();
  // Claiming ahead goes on although no call waits.
  if (outcome == Attempted::done && same_session) self->serve();
}

// No call hears of it. Once per item: each list shows it again.
void QueueCore::tell_of(const ItemKey& unusable, const Error& why) {
  if (told_of_.size() >= most_told_of) told_of_.clear();
  if (told_of_.insert(unusable.name).second) warn(*spec_, fmt::format("passes an item over: {}", why.what()));
}

// `request` may be another one afterwards.
Awaitable<QueueCore::Attempted> QueueCore::try_take(TakeRequestPtr& request, ItemKey key, TakeKind kind,
                                                    Reply& failure) {
  const Call call = view_->bound_call();
  for (;;) {
    std::optional<PendingReply> reading = view_->take_read(key.name);
    const bool read_before = reading.has_value();
    if (!read_before) reading = client_->launch(zk::make_request(OpType::get, spec_->item_path(key)), call);
    Reply item = co_await reading->get();
    if (item.failed(Errc::no_node)) {
      view_->lost_race();
      co_return Attempted::gone;
    }
    if (item.failed(Errc::session_lost)) co_return Attempted::gone;  // The next session lists anew.
    if (!item.ok()) {
      failure = std::move(item);
      if (!failure.failed(Errc::no_auth)) co_return Attempted::failed;
      failure.detail = fmt::format("{} may not be read", client_->stripped(spec_->item_path(key)));
      co_return Attempted::unusable;
    }
    view_->note_size(item.data.size());
    // If its caller has given up, it is the next one's, who then also learns what becomes of it. But those who came
    // later may have to get what has a higher priority.
    const bool orphaned = request != nullptr && !TakeRequest::is_open(request);
    const TakeRequestPtr next = orphaned && !spec_->prioritized ? first_waiting(kind) : nullptr;
    if (next != nullptr) {
      request = next;
      request->state = TakeRequest::State::reading;
    }
    const bool useless = orphaned && next == nullptr;
    if (useless || call.bound != view_->session()) co_return Attempted::again;
    std::optional<std::vector<std::string>> items = spec_->format.decode(item.data);
    if (!items) {
      failure.error = Errc::foreign_node;
      failure.detail = fmt::format("{} is not in the layout's format", client_->stripped(spec_->item_path(key)));
      co_return Attempted::unusable;
    }
    Taken taken;
    taken.key = key;
    taken.items = std::move(*items);
    taken.reason = spec_->format.reason(item.data);
    taken.version = item.stat.version;
    taken.czxid = item.stat.czxid;
    const Attempted outcome = co_await write_take(request, std::move(taken), std::move(item.data), kind, failure);
    if (outcome != Attempted::again) co_return outcome;
    // It was written since it was read. If that was long ago, the consumer that claimed it may have given it back.
    if (!read_before) {
      view_->lost_race();
      co_return Attempted::gone;
    }
  }
}

Awaitable<QueueCore::Attempted> QueueCore::write_take(TakeRequestPtr request, Taken taken, std::string data,
                                                      TakeKind kind, Reply& failure) {
  const Call call = view_->bound_call();
  const auto keeper = view_->keeper();  // Of that session.
  if (kind == TakeKind::claim) {
    failure = co_await find_obstacle(client_, keeper, call);
    if (!failure.ok()) co_return Attempted::failed;
  }
  if (TakeRequest::is_open(request)) {
    request->state = TakeRequest::State::writing;
    request->item = taken.key.name;
  }
  const bool bury = kind == TakeKind::claim && spec_->max_deliveries > 0 && taken.version >= spec_->max_deliveries;
  taken.claim = spec_->claim_path(taken.key);
  TakePlan plan;
  plan.kind = kind;
  if (kind == TakeKind::claim) plan.text = describe_process(spec_->id);
  // An item that was never claimed has version 0, unless others claim as well.
  plan.excludes_claims = kind == TakeKind::pop && (taken.version > 0 || spec_->foreign_claims);
  if (taken.version > 0 && !spec_->foreign_claims) {
    Reply elsewhere = co_await view_->find_claim_elsewhere(taken.key, taken.version, taken.czxid);
    if (elsewhere.ok() || elsewhere.failed(Errc::session_lost)) co_return Attempted::gone;
    if (elsewhere.failed(Errc::bad_version)) {  // It is not the node that was read.
      if (call.bound == view_->session()) view_->mark_changed();
      co_return Attempted::again;
    }
    if (!elsewhere.failed(Errc::no_node)) {
      failure = std::move(elsewhere);
      co_return Attempted::failed;
    }
  }
  for (;;) {
    bool no_room = false;
    ItemTransaction steps(*spec_, taken.key, taken.claim);
    if (bury) {
      steps.exclude_claims().bury(taken.version, data);
    } else if (kind == TakeKind::claim) {
      steps.claim(taken.version, data, plan.text);
    } else {
      if (plan.excludes_claims) steps.exclude_claims();
      steps.remove_first(taken.version, taken.items);
    }
    Written written = co_await taker_->write_bound(steps.take(), call);
    if (written.outcome == Written::Outcome::done) {
      if (steps.excludes_claims()) view_->own_claim_deleted(call.bound, written.reply.sent);
      if (bury) co_return Attempted::gone;
      if (kind == TakeKind::claim) {
        ++taken.version;
        const bool granted = co_await grant(taken, std::move(written), plan.text, keeper, call.bound);
        if (!granted) {
          zk::spawn(ItemClaims::remove_claim(claims_, taken.key, taken.claim, taken.version, call.bound));
          if (call.bound == view_->session()) view_->mark_changed();
          co_return Attempted::gone;
        }
      }
      view_->won();
      deliver(request, std::move(taken), kind);
      co_return Attempted::done;
    }
    if (written.outcome == Written::Outcome::refused) {
      const int code = written.code;
      if (code == zk::rc::no_node && !steps.about_item(written.index)) {
        Reply made = co_await spec_->make_folders(call);
        if (made.ok()) continue;
        no_room = made.failed(Errc::quota_exceeded);
        written.reply = std::move(made);
      } else if (code == zk::rc::no_node || code == zk::rc::bad_version || code == zk::rc::node_exists) {
        // Another consumer was faster, or has claimed it: it may come back.
        if (code != zk::rc::no_node && call.bound == view_->session()) view_->mark_changed();
        if (code == zk::rc::bad_version) co_return Attempted::again;
        view_->lost_race();
        co_return Attempted::gone;
      } else {
        written.reply.error = zk::rc::to_errc(code);
        no_room = code == zk::rc::quota_exceeded;
        // It would have to stand where we may not write.
        if (plan.outside && code == zk::rc::no_auth) written.reply.error = Errc::quota_exceeded;
      }
    }
    if (no_room && !bury && !spec_->foreign_claims) {  // Who claims it otherwise does not look elsewhere.
      Reply other = co_await plan_without_room(taken, plan);
      if (other.ok()) continue;
      if (other.failed(Errc::node_exists)) {
        if (call.bound == view_->session()) view_->mark_changed();
        view_->lost_race();
        co_return Attempted::gone;
      }
      if (other.failed(Errc::bad_version)) {
        if (call.bound == view_->session()) view_->mark_changed();
        co_return Attempted::again;
      }
      if (!other.failed(Errc::quota_exceeded)) written.reply = std::move(other);
    }
    // A claim in doubt needs no report: no caller has it, and it goes with its session.
    const bool doubt = written.outcome == Written::Outcome::in_doubt && kind == TakeKind::pop;
    // Without room for it among the dead it stays, and stands in no other item's way.
    if (bury && no_room) co_return Attempted::gone;
    const bool over = written.reply.failed(Errc::session_lost) || call.bound->over();
    if (over && !doubt && !client_->closing()) co_return Attempted::gone;
    failure = std::move(written.reply);
    // A claim sends the data as well, and so is larger than the push was. That of one of several is set, not removed.
    const bool forbidden = failure.failed(Errc::no_auth) && written.outcome == Written::Outcome::refused;
    const bool may_not_set =
        forbidden && steps.about_item(written.index) && (kind == TakeKind::claim || taken.items.size() > 1);
    // Items that were not claimed before need neither.
    const bool may_not_bury = forbidden && bury;
    const bool may_not_exclude = forbidden && plan.excludes_claims && taken.version > 0 && !spec_->foreign_claims &&
                                 !steps.about_item(written.index);
    const bool may_not = may_not_set || may_not_bury || may_not_exclude;
    const bool unusable = !doubt && (failure.failed(Errc::too_large) || may_not);
    if (unusable) {
      std::string why = "may not be written";
      if (!may_not) why = "is too large: " + failure.detail;
      if (may_not_exclude) why = "was claimed before, and other claims may not be kept out";
      if (may_not_bury) why = "has come back too often, and may not be moved to the dead letters";
      failure.detail = fmt::format("{} {}", client_->stripped(spec_->item_path(taken.key)), why);
    } else if (doubt) {
      failure.error = Errc::in_doubt;
      failure.path = client_->stripped(spec_->item_path(taken.key));
      failure.detail = fmt::format("{} may have been taken", failure.path);
    } else if (client_->closing()) {
      failure.error = Errc::closed;
    }
    co_return unusable ? Attempted::unusable : Attempted::failed;
  }
}

// How an item is taken in spite of a full quota. quota_exceeded: not at all. node_exists: another consumer has it.
// bad_version: it is not the node that was read.
Awaitable<Reply> QueueCore::plan_without_room(Taken& taken, TakePlan& plan) {
  const Call call = view_->bound_call();
  Reply reply;
  if (plan.kind == TakeKind::pop) {
    // A look does as well: who claims it from now on changes its version. It has to be a new one, as the item may have
    // been put back and claimed since the last look, by a claim of any place.
    reply = co_await view_->find_claim_elsewhere(taken.key, taken.version, taken.czxid);
    const bool is_new = std::exchange(plan.excludes_claims, false);
    if (reply.ok()) {
      reply.error = Errc::node_exists;
    } else if (reply.failed(Errc::no_node)) {
      reply.error = Errc::quota_exceeded;
      if (is_new) reply.error.reset();
    }
    co_return reply;
  }
  if (!std::exchange(plan.outside, true)) plan.above = zk::parent_of(taken.claim);
  reply = co_await find_quota(client_, plan.above, call);
  if (reply.ok()) {
    taken.claim = claim_place(spec_->claim_path(taken.key), reply.path);
    plan.above = zk::parent_of(reply.path);  // If there is no room either: the next quota's.
  } else if (reply.failed(Errc::no_node)) {
    reply.error = Errc::quota_exceeded;
  }
  co_return reply;
}

// The claim was written; from here on it rests on the lease clock. False: it was over at once.
Awaitable<bool> QueueCore::grant(Taken& taken, Written written, std::string text,
                                 std::shared_ptr<zk::LeaseKeeper> keeper, std::shared_ptr<zk::SessionState> session) {
  LeaseCore::Grant grant;
  grant.client = client_;
  grant.session = std::move(session);
  grant.keeper = std::move(keeper);
  grant.path = taken.claim;
  grant.data = std::move(text);
  grant.clear_up = [weak = std::weak_ptr<ItemClaims>(claims_), key = taken.key, node = taken.claim,
                    version = taken.version, mine = grant.session] {
    if (const auto claims = weak.lock()) zk::spawn(ItemClaims::remove_claim(claims, key, node, version, mine));
  };
  // Any consumer may have it then, also ours.
  grant.on_lost = [weak = std::weak_ptr<ItemView>(view_), key = taken.key, mine = grant.session] {
    const auto view = weak.lock();
    if (view == nullptr || view->session() != mine) return;
    view->let_go(mine, key);
    view->mark_changed();
  };
  Call call;
  call.bound = grant.session;
  const Reply& reply = written.reply;
  if (!reply.results.empty() && reply.results.front().stat) {
    grant.czxid = reply.results.front().stat->mzxid;  // Of the item, written by the same transaction.
    grant.keeper->acknowledged(reply.sent);
  } else {  // The reply was lost.
    Request look = zk::make_request(OpType::exists, grant.path);
    const Reply seen = co_await client_->perform(std::move(look), call);
    if (!seen.ok() || seen.stat.ephemeral_owner != grant.session->id()) co_return false;
    grant.czxid = seen.stat.czxid;
  }
  if (!grant.keeper->proven()) {
    const auto waiter = std::make_unique<Waiter>(client_, Call());
    Reply ready = co_await waiter->enter();
    if (!ready.ok() || waiter->session() != grant.session) co_return false;
    Request check = existence_check(grant.path);
    ready = co_await waiter->prove(std::move(check));
    if (!ready.ok()) co_return false;
  }
  if (grant.session->over()) co_return false;
  taken.lease = std::make_shared<LeaseCore>(std::move(grant));
  taken.abandoned = std::make_shared<bool>(false);
  taken.lease->begin();
  co_return true;
}

void QueueCore::deliver(const TakeRequestPtr& request, Taken taken, TakeKind kind) {
  if (kind == TakeKind::pop) {
    view_->candidates().let_go(taken.key.name);
    if (taken.items.size() > 1) view_->candidates().insert(taken.key);  // There is something left in it.
  }
  TakeRequestPtr receiver = TakeRequest::is_open(request) ? request : nullptr;
  if (receiver == nullptr && !spec_->prioritized) receiver = first_waiting(kind);
  if (receiver != nullptr) {
    std::erase(requests_, receiver);
    receiver->finish(std::optional<Taken>(std::move(taken)));
  } else if (kind == TakeKind::claim && request == nullptr && !stash_.retired()) {
    stash_.put(std::move(taken));
    if (stash_.begin_returning()) zk::spawn(return_unused(shared_from_this()));
  } else {
    zk::spawn(put_back(shared_from_this(), std::move(taken)));
  }
}

Awaitable<void> QueueCore::return_unused(std::shared_ptr<QueueCore> self) {
  std::deque<Taken> unused = co_await self->stash_.unused();
  for (Taken& claim : unused)
    zk::spawn(put_back(self, std::move(claim)));
}

// The call for which it was taken is over. What cannot be written is tried again for as long as the client is open: a full
// quota has room again some time. Until then the item waits here, and nowhere else.
Awaitable<void> QueueCore::put_back(std::shared_ptr<QueueCore> self, Taken taken) {
  if (taken.lease != nullptr) {
    (void)co_await self->claims_->give_back(std::move(taken), false, Call());
    co_return;
  }
  bool told = false;
  for (auto pause = pause_after_failure;; pause = std::min(2 * pause, longest_pause)) {
    Reply failure = co_await self->client_->connected(Call());
    if (failure.ok()) {
      Call call;
      call.bound = failure.session;
      ItemTransaction steps(*self->spec_, taken.key);
      const bool rest = taken.items.size() > 1;
      rest ? steps.restore_first(taken.version + 1, taken.items) : steps.restore(taken.items, taken.reason);
      Written written = co_await self->claims_->writer()->write_bound(steps.take(), call);
      if (written.outcome == Written::Outcome::done) break;
      const bool full = written.outcome == Written::Outcome::refused && written.code == zk::rc::quota_exceeded;
      // Its place is taken, or gone, or no longer ours to write.
      if (written.outcome == Written::Outcome::refused && !full) {
        taken.items.resize(1);
        co_await put_at_end(self, std::move(taken));
        co_return;
      }
      failure = std::move(written.reply);
      if (full) failure.error = Errc::quota_exceeded;
      if (written.outcome == Written::Outcome::in_doubt) failure.error = Errc::in_doubt;
    }
    if (self->client_->closing() && !failure.failed(Errc::in_doubt)) failure.error = Errc::closed;
    if (self->cannot_put_back(taken, self->spec_->error(failure, "queue put back"), told)) break;
    co_await zk::pause_for(pause, self->client_->events(), self->client_->current());
  }
  self->view_->mark_changed();
}

// There it needs no room in the queue: it must not be lost for that.
Awaitable<void> QueueCore::put_at_end(std::shared_ptr<QueueCore> self, Taken taken) {
  bool told = false;
  for (auto pause = pause_after_failure;; pause = std::min(2 * pause, longest_pause)) {
    std::vector<std::string> one = taken.items;
    const Call limits;
    const auto pushed = co_await self->gate_.push(std::move(one), self->spec_->format.name_again(taken.key),
                                                  WhenFull::ignore, limits, taken.reason);
    if (pushed || self->cannot_put_back(taken, pushed.error(), told)) co_return;
    co_await zk::pause_for(pause, self->client_->events(), self->client_->current());
  }
}

// No call hears of it: the log does, once for as long as it is tried again. True: it is not.
bool QueueCore::cannot_put_back(const Taken& taken, const Error& why, bool& told) const {
  const Errc code = why.errc();
  const bool over = code == Errc::in_doubt || code == Errc::too_large || code == Errc::closed;
  if (code == Errc::session_lost) return false;  // It was not sent, and is on the next session.
  if (over || !std::exchange(told, true)) {
    const char* fate = over ? "may be lost" : "waits here to be put back";
    warn(*spec_, fmt::format("{} {}: {}", taken.key.name, fate, why.what()));
  }
  return over;
}

}  // namespace zkrecipes::detail
