// How claims end: committed, given back, claimed ahead for nothing.

#include <algorithm>
#include <utility>

#include "recipes/kernel/held_nodes.hpp"
#include "recipes/queues/item_transaction.hpp"
#include "recipes/queues/queue_core.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using std::chrono::steady_clock;
using zk::Awaitable;
using zk::Call;
using zk::Reply;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

constexpr auto longest_unused = std::chrono::seconds(1);
constexpr auto first_pause = std::chrono::milliseconds(50);
constexpr auto last_pause = std::chrono::milliseconds(10'000);
constexpr const char* committing = "queue commit";
constexpr const char* returning = "queue give_back";

// The item or the claim is not there any more, or was claimed by somebody else since.
bool tells_of_loss(const Written& written) {
  return written.code == zk::rc::no_node || written.code == zk::rc::bad_version;
}

}  // namespace

// --- Commit -------------------------------------------------------------------------------------------------------

Awaitable<Result<void>> QueueCore::commit(Taken claim, Call call) {
  if (claim.lease == nullptr || !claim.lease->pause_node()) {
    co_return Error(Errc::not_held, committing, spec_.path, "the claim was lost, or ended before");
  }
  call.bound = claim.lease->session();
  ItemTransaction steps(spec_, claim.key);
  // That version is the proof that nobody else has claimed it since.
  steps.remove(claim.version).remove_claim();
  Written written = co_await ender_->write(steps.take(), call);
  Reply& reply = written.reply;
  switch (written.outcome) {
    case Written::Outcome::done:
      claim.lease->replaced();
      claim_removed(claim);
      co_return Result<void>();
    case Written::Outcome::failed:
      if (reply.failed(Errc::session_lost)) break;
      keep(claim);  // Nothing happened: it may be tried again.
      co_return error(reply, committing);
    case Written::Outcome::refused:
      if (tells_of_loss(written)) break;
      keep(claim);
      reply.error = zk::rc::to_errc(written.code);
      co_return error(reply, committing);
    case Written::Outcome::in_doubt: break;
  }
  claim.lease->lose_node("the claim was lost when it was committed");
  if (written.outcome == Written::Outcome::in_doubt)
    co_return Error(Errc::in_doubt, committing, spec_.path, reply.detail);
  co_return Error(Errc::not_held, committing, spec_.path, "the claim was lost");
}

void QueueCore::keep(const Taken& claim) {
  claim.lease->resume();
  if (*claim.abandoned) zk::spawn(give_back_abandoned(shared_from_this(), claim));
}

Awaitable<void> QueueCore::give_back_abandoned(std::shared_ptr<QueueCore> self, Taken claim) {
  const Call unlimited;
  (void)co_await self->give_back(std::move(claim), true, unlimited);
}

// By ourselves, so that the list is none the older for it.
void QueueCore::claim_removed(const Taken& claim) {
  if (claim.lease->session() == session_) own_claims_deleted_ += 2;
  claim_over(claim);
}

void QueueCore::claim_over(const Taken& claim) {
  if (claim.lease->session() == session_) candidates_.let_go(claim.key.name);
}

// A claim that has to go, if it is there still; but not that of somebody else, which has the same name. Whoever claims
// the item changes its version.
Awaitable<void> QueueCore::remove_claim(std::shared_ptr<QueueCore> self, ItemKey key, std::int32_t version,
                                        std::shared_ptr<zk::SessionState> session) {
  Call call;
  call.bound = session;
  for (auto pause = first_pause;; pause = std::min(2 * pause, last_pause)) {
    if (session->over()) co_return;
    ItemTransaction steps(self->spec_, key);
    steps.check(version).remove_claim();
    const Written written = co_await self->ender_->write(steps.take(), call);
    if (written.outcome == Written::Outcome::done) break;
    if (written.refused_at(0, zk::rc::no_node)) {  // There is nothing that anybody could claim.
      self->spec_.client->delete_in_background(self->claim_path(key), session);
      break;
    }
    const bool refused = written.outcome == Written::Outcome::refused;
    const bool over = session->over() || self->spec_.client->closing();
    if (over || (refused && tells_of_loss(written))) co_return;
    co_await pause_before_retry(self->spec_.client, session, pause);  // The server does not let us for now.
  }
  if (session != self->session_) co_return;
  self->listed_ = false;
  self->wake_.set();
}

// --- Give back ----------------------------------------------------------------------------------------------------

Awaitable<Result<void>> QueueCore::give_back(Taken claim, bool seen, Call call) {
  if (claim.lease == nullptr || !claim.lease->pause() || !claim.lease->begin_release()) {
    co_return Error(Errc::not_held, returning, spec_.path, "the claim was lost, or ended before");
  }
  call.bound = claim.lease->session();
  Written written = co_await write_return(claim, seen, call);
  const Reply& reply = written.reply;
  const std::optional<Errc> early = reply.given_up ? reply.given_up : reply.error;
  if (early == Errc::deadline_exceeded || early == Errc::cancelled) {
    zk::spawn(return_in_background(shared_from_this(), std::move(claim), seen));
    co_return Error(*early, returning, spec_.path, "the item goes back in the background");
  }
  claim.lease->replaced();
  if (written.outcome == Written::Outcome::done) {
    returned(claim, to_be_buried(claim, seen));
    co_return Result<void>();
  }
  claim_over(claim);
  // When its session is over, it goes back without us.
  if (written.outcome == Written::Outcome::in_doubt || reply.failed(Errc::session_lost)) co_return Result<void>();
  const bool unclear = written.outcome == Written::Outcome::failed || !tells_of_loss(written);
  // It goes back, if not to where it should.
  zk::spawn(remove_claim(shared_from_this(), claim.key, claim.version, call.bound));
  if (written.outcome == Written::Outcome::refused && unclear) written.reply.error = zk::rc::to_errc(written.code);
  if (unclear) co_return error(written.reply, returning);
  co_return Error(Errc::not_held, returning, spec_.path, "the claim was lost");
}

Awaitable<void> QueueCore::give_back_later(std::shared_ptr<QueueCore> self, Taken claim,
                                           std::chrono::milliseconds delay) {
  const auto session = claim.lease->session();
  co_await pause_before_retry(self->spec_.client, session, delay);
  *claim.abandoned = true;  // Not before: a commit that is under way may fail meanwhile.
  co_await give_back_abandoned(self, std::move(claim));
}

Awaitable<void> QueueCore::return_in_background(std::shared_ptr<QueueCore> self, Taken claim, bool seen) {
  Call call;
  call.bound = claim.lease->session();
  const Written written = co_await self->write_return(claim, seen, call);
  claim.lease->replaced();
  if (written.outcome == Written::Outcome::done) {
    self->returned(claim, self->to_be_buried(claim, seen));
    co_return;
  }
  // Refused: mostly because the first attempt has done it.
  self->claim_over(claim);
  self->listed_ = false;
  self->wake_.set();
  zk::spawn(remove_claim(self, claim.key, claim.version, call.bound));
}

bool QueueCore::to_be_buried(const Taken& claim, bool seen) const {
  if (claim.rejection) return true;
  return seen && spec_.max_deliveries > 0 && claim.version >= spec_.max_deliveries;
}

Awaitable<Written> QueueCore::write_return(const Taken& claim, bool seen, Call call) {
  std::string reason = claim.rejection.value_or(claim.reason);
  for (;;) {
    ItemTransaction steps(spec_, claim.key);
    const bool bury = to_be_buried(claim, seen);
    if (bury) {
      steps.bury(claim.version, spec_.format.encode(claim.items, reason)).remove_claim();
    } else if (!seen && claim.version == 1) {
      steps.remove(claim.version)
          .restore(claim.items, claim.reason)
          .remove_claim();  // As if it had never been claimed.
    } else {
      steps.check(claim.version).remove_claim();
    }
    Written written = co_await ender_->write(steps.take(), call);
    if (bury && !reason.empty() && written.reply.failed(Errc::too_large)) {
      reason.clear();  // The item is worth more.
      continue;
    }
    const bool no_folder = bury && written.refused_at(0, zk::rc::no_node);
    if (!no_folder) co_return written;
    written.reply = co_await make_folders(call, bury);
    if (!written.reply.ok()) {
      written.outcome = Written::Outcome::failed;
      co_return written;
    }
  }
}

void QueueCore::returned(const Taken& claim, bool buried) {
  claim_removed(claim);
  if (claim.lease->session() != session_) return;
  if (!buried && listed_) candidates_.insert(claim.key);
  changed_ = true;
  wake_.set();
}

// --- Claimed ahead ------------------------------------------------------------------------------------------------

void QueueCore::prefetch() {
  const bool busy = steady_clock::now() - last_claim_ < longest_unused;
  if (spec_.prefetch == 0 || retired_ || !busy) return;
  const auto most = static_cast<std::size_t>(spec_.prefetch);
  for (;;) {
    const std::size_t ahead = stash_.size() + prefetching_;
    // The others get their share of what is left.
    if (ahead >= most || ahead >= candidates_.size() || !may_try()) return;
    std::optional<ItemKey> key = candidates_.next(static_cast<std::uint32_t>(random_()));
    if (!key) return;
    ++prefetching_;
    start(nullptr, std::move(*key));
  }
}

std::optional<Taken> QueueCore::from_stash() {
  while (!stash_.empty()) {
    Taken first = std::move(stash_.front());
    stash_.pop_front();
    const LeaseState state = first.lease->state();
    if (state == LeaseState::held || state == LeaseState::uncertain) return first;
  }
  return std::nullopt;
}

Awaitable<void> QueueCore::return_unused(std::shared_ptr<QueueCore> self) {
  while (!self->stash_.empty()) {
    const auto due = self->last_claim_ + longest_unused;
    if (self->retired_ || steady_clock::now() >= due) {
      while (std::optional<Taken> unused = self->from_stash())
        zk::spawn(put_back(self, std::move(*unused)));
      break;
    }
    self->idle_.clear();
    co_await self->idle_.wait(due);
  }
  self->returning_ = false;
}

void QueueCore::retire() {
  retired_ = true;
  idle_.set();
}

}  // namespace zkrecipes::detail
