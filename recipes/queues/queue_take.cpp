// One item: read, taken or claimed, handed over.

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/waiter.hpp"
#include "recipes/queues/item_transaction.hpp"
#include "recipes/queues/queue_core.hpp"
#include "recipes/queues/take_request.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::PendingReply;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;

namespace {

constexpr auto pause_after_failure = std::chrono::milliseconds(200);

}  // namespace

std::string QueueCore::item_path(const ItemKey& key) const { return child_path(spec_.items, key.name); }
std::string QueueCore::claim_path(const ItemKey& key) const { return child_path(spec_.claims, key.name); }

// `want`: whom it is for; null for an item that is claimed ahead.
Awaitable<void> QueueCore::attempt(std::shared_ptr<QueueCore> self, TakeRequestPtr want, ItemKey key, TakeKind kind) {
  Reply failure;
  const auto session = self->session_;
  const Attempted outcome = co_await self->try_take(want, key, kind, failure);
  --self->in_flight_;
  if (want == nullptr) --self->prefetching_;
  const bool same_session = session == self->session_;
  if (outcome != Attempted::done && same_session) self->candidates_.let_go(key.name);
  if (outcome == Attempted::again && same_session) self->candidates_.insert(std::move(key));
  // It is there still, for those who come later.
  if (outcome == Attempted::failed && same_session && !failure.failed(Errc::foreign_node)) self->listed_ = false;
  const bool wanted = want != nullptr && want->state != TakeRequest::State::done;
  if (wanted && (outcome == Attempted::gone || outcome == Attempted::again)) want->state = TakeRequest::State::waiting;
  if (wanted && outcome == Attempted::failed) {
    std::erase(self->wants_, want);
    want->finish(self->error(failure, kind == TakeKind::pop ? "queue pop" : "queue claim"));
  }
  self->wake_.set();
  // Claiming ahead goes on although nobody is waiting.
  if (outcome == Attempted::done && self->session_ == session) self->serve();
}

// `want` may be another one afterwards.
Awaitable<QueueCore::Attempted> QueueCore::try_take(TakeRequestPtr& want, ItemKey key, TakeKind kind, Reply& failure) {
  Call call;
  call.bound = session_;
  for (;;) {
    PendingReply reading;
    auto ahead = read_.extract(key.name);
    const bool read_before = !ahead.empty();
    if (read_before) {
      reading = ahead.mapped();
    } else {
      reading = spec_.client->launch(zk::make_request(OpType::get, item_path(key)), call);
    }
    Reply item = co_await reading.get();
    if (item.failed(Errc::no_node)) {
      lost_race();
      co_return Attempted::gone;
    }
    if (item.failed(Errc::session_lost)) co_return Attempted::gone;  // The next session lists anew.
    if (!item.ok()) {
      failure = std::move(item);
      co_return Attempted::failed;
    }
    usual_size_ = item.data.size();
    // If its caller has given up, it is the next one's, who then also learns what becomes of it. But those who came
    // later may have to get what has a higher priority.
    const bool orphaned = want != nullptr && want->state == TakeRequest::State::done;
    const TakeRequestPtr next = orphaned && !spec_.prioritized ? first_waiting(kind) : nullptr;
    if (next != nullptr) {
      want = next;
      want->state = TakeRequest::State::reading;
    }
    const bool useless = orphaned && next == nullptr;
    if (useless || call.bound != session_) co_return Attempted::again;
    std::optional<std::vector<std::string>> items = spec_.format.decode(item.data);
    if (!items) {
      failure.error = Errc::foreign_node;
      failure.detail = fmt::format("{} is not in the layout's format", spec_.client->stripped(item_path(key)));
      co_return Attempted::failed;
    }
    Taken taken;
    taken.key = key;
    taken.items = std::move(*items);
    taken.reason = spec_.format.reason(item.data);
    taken.version = item.stat.version;
    const Attempted outcome = co_await write_take(want, std::move(taken), std::move(item.data), kind, failure);
    if (outcome != Attempted::again) co_return outcome;
    // It was written since it was read. If that was long ago, whoever claimed it may have given it back.
    if (!read_before) {
      lost_race();
      co_return Attempted::gone;
    }
  }
}

Awaitable<QueueCore::Attempted> QueueCore::write_take(TakeRequestPtr want, Taken taken, std::string data, TakeKind kind,
                                                      Reply& failure) {
  Call call;
  call.bound = session_;
  const auto keeper = keeper_;  // Of that session.
  if (kind == TakeKind::claim) {
    failure = co_await find_obstacle(spec_.client, keeper, call);
    if (!failure.ok()) co_return Attempted::failed;
  }
  if (want != nullptr && want->state != TakeRequest::State::done) {
    want->state = TakeRequest::State::writing;
    want->item = taken.key.name;
  }
  const bool bury = kind == TakeKind::claim && spec_.max_deliveries > 0 && taken.version >= spec_.max_deliveries;
  const std::string text = kind == TakeKind::claim ? describe_process(spec_.id) : std::string();
  for (;;) {
    ItemTransaction steps(spec_, taken.key);
    if (bury) {
      steps.exclude_claims().bury(taken.version, data);
    } else if (kind == TakeKind::claim) {
      steps.claim(taken.version, data, text);
    } else {
      // An item that was never claimed has version 0, unless others claim as well.
      if (taken.version > 0 || spec_.foreign_claims) steps.exclude_claims();
      steps.remove_first(taken.version, taken.items);
    }
    Written written = co_await taker_->write(steps.take(), call);
    if (written.outcome == Written::Outcome::done) {
      if (steps.excludes_claims() && call.bound == session_) own_claims_deleted_ += 2;
      if (bury) co_return Attempted::gone;
      if (kind == TakeKind::claim) {
        ++taken.version;
        const bool granted = co_await grant(taken, std::move(written.reply), text, keeper, call.bound);
        if (!granted) {
          zk::spawn(remove_claim(shared_from_this(), taken.key, taken.version, call.bound));
          if (call.bound == session_) changed_ = true;
          co_return Attempted::gone;
        }
      }
      candidates_.won();
      ahead_ = 2 * ahead_ + 1 < 64 ? 2 * ahead_ + 1 : ahead_;
      deliver(want, std::move(taken), kind);
      co_return Attempted::done;
    }
    if (written.outcome == Written::Outcome::refused) {
      const int code = written.code;
      if (code == zk::rc::no_node && !steps.about_item(written.index)) {
        Reply made = co_await make_folders(call);
        if (made.ok()) continue;
        written.reply = std::move(made);
      } else if (code == zk::rc::no_node || code == zk::rc::bad_version || code == zk::rc::node_exists) {
        // Somebody else was faster, or has claimed it: it may come back.
        if (code != zk::rc::no_node && call.bound == session_) changed_ = true;
        if (code == zk::rc::bad_version) co_return Attempted::again;
        lost_race();
        co_return Attempted::gone;
      } else {
        written.reply.error = zk::rc::to_errc(code);
      }
    }
    // For those who only want to claim it, a claim that nobody knows of is none: its session is over.
    const bool doubt = written.outcome == Written::Outcome::in_doubt && kind == TakeKind::pop;
    const bool over = written.reply.failed(Errc::session_lost) || call.bound->over();
    if (over && !doubt && !spec_.client->closing()) co_return Attempted::gone;
    failure = std::move(written.reply);
    if (doubt) {
      failure.error = Errc::in_doubt;
      failure.detail = fmt::format("{} may have been taken", spec_.client->stripped(item_path(taken.key)));
    } else if (spec_.client->closing()) {
      failure.error = Errc::closed;
    }
    co_return Attempted::failed;
  }
}

Awaitable<Reply> QueueCore::make_folders(Call call, bool with_dead_letters) {
  const CreateMode mode = spec_.format.foreign() ? CreateMode::persistent : CreateMode::container;
  Reply made = co_await spec_.client->ensure(spec_.claims, mode, spec_.acl, call);
  if (made.ok() && (with_dead_letters || spec_.max_deliveries > 0)) {
    made = co_await spec_.client->ensure(spec_.dead_letters, CreateMode::persistent, spec_.acl, call);
  }
  co_return made;
}

// The claim was written; from here on it rests on the lease clock. False: it was over at once.
Awaitable<bool> QueueCore::grant(Taken& taken, Reply written, std::string text, std::shared_ptr<zk::LeaseKeeper> keeper,
                                 std::shared_ptr<zk::SessionState> session) {
  LeaseCore::Grant grant;
  grant.client = spec_.client;
  grant.session = std::move(session);
  grant.keeper = std::move(keeper);
  grant.path = claim_path(taken.key);
  grant.data = std::move(text);
  grant.clear_up = [weak = weak_from_this(), key = taken.key, version = taken.version, mine = grant.session] {
    if (const auto self = weak.lock()) zk::spawn(remove_claim(self, key, version, mine));
  };
  // It is anybody's then, also ours.
  grant.on_lost = [weak = weak_from_this(), key = taken.key, mine = grant.session] {
    const auto self = weak.lock();
    if (self == nullptr || self->session_ != mine) return;
    self->candidates_.let_go(key.name);
    self->changed_ = true;
    self->wake_.set();
  };
  Call call;
  call.bound = grant.session;
  if (!written.results.empty() && written.results.front().stat) {
    grant.czxid = written.results.front().stat->mzxid;  // Of the item, written by the same transaction.
    grant.keeper->acknowledged(written.sent);
  } else {  // The reply was lost.
    Request look = zk::make_request(OpType::exists, grant.path);
    const Reply seen = co_await spec_.client->perform(std::move(look), call);
    if (!seen.ok() || seen.stat.ephemeral_owner != grant.session->id()) co_return false;
    grant.czxid = seen.stat.czxid;
  }
  if (!grant.keeper->proven()) {
    const auto waiter = std::make_unique<Waiter>(spec_.client, Call());
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

void QueueCore::deliver(const TakeRequestPtr& want, Taken taken, TakeKind kind) {
  if (kind == TakeKind::pop) {
    candidates_.let_go(taken.key.name);
    if (taken.items.size() > 1) candidates_.insert(taken.key);  // There is something left in it.
  }
  TakeRequestPtr receiver = want != nullptr && want->state != TakeRequest::State::done ? want : nullptr;
  if (receiver == nullptr && !spec_.prioritized) receiver = first_waiting(kind);
  if (receiver != nullptr) {
    std::erase(wants_, receiver);
    receiver->finish(std::optional<Taken>(std::move(taken)));
  } else if (kind == TakeKind::claim && want == nullptr && !retired_) {
    const auto place = std::find_if(stash_.begin(), stash_.end(),
                                    [&](const Taken& other) { return goes_before(taken.key, other.key); });
    stash_.insert(place, std::move(taken));
    if (returning_) return;
    returning_ = true;
    zk::spawn(return_unused(shared_from_this()));
  } else {
    zk::spawn(put_back(shared_from_this(), std::move(taken)));
  }
}

// The call for which it was taken is over.
Awaitable<void> QueueCore::put_back(std::shared_ptr<QueueCore> self, Taken taken) {
  if (taken.lease != nullptr) {
    (void)co_await self->give_back(std::move(taken), false, Call());
    co_return;
  }
  zk::Signal never(self->spec_.client->events());
  for (bool first = true;; first = false) {
    if (!first) co_await never.wait(std::chrono::steady_clock::now() + pause_after_failure);
    Reply connected = co_await self->spec_.client->connected(Call());
    if (self->spec_.client->closing()) co_return;
    if (!connected.ok()) continue;
    Call call;
    call.bound = connected.session;
    ItemTransaction steps(self->spec_, taken.key);
    const bool rest = taken.items.size() > 1;
    rest ? steps.restore_first(taken.version + 1, taken.items) : steps.restore(taken.items, taken.reason);
    const Written written = co_await self->ender_->write(steps.take(), call);
    if (written.outcome == Written::Outcome::refused) {
      // Its place is taken, or gone: to the end. There it needs no room either: it is not lost for want of that.
      taken.items.resize(1);
      Call limits;
      (void)co_await self->push(std::move(taken.items), taken.key.priority, WhenFull::ignore, limits, taken.reason);
      co_return;
    }
    const bool again = written.outcome == Written::Outcome::failed && !written.reply.failed(Errc::too_large);
    if (!again || self->spec_.client->closing()) break;
  }
  self->changed_ = true;
  self->wake_.set();
}

}  // namespace zkrecipes::detail
