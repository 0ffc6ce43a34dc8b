#include "recipes/queues/item_claims.hpp"

#include <algorithm>
#include <utility>

#include "recipes/kernel/words.hpp"
#include "recipes/queues/item_transaction.hpp"

namespace zkrecipes::detail {

namespace {

constexpr auto first_pause = std::chrono::milliseconds(50);
constexpr auto last_pause = std::chrono::milliseconds(10'000);
constexpr const char* committing = "queue commit";
/// As errors name it.
const char* name_of_return(const Taken& claim) { return claim.rejection ? "queue reject" : "queue give_back"; }

// The item or the claim is not there any more, or was claimed by another consumer since.
bool tells_of_loss(const Written& written) {
  return written.code == zk::rc::no_node || written.code == zk::rc::bad_version;
}

}  // namespace

ItemClaims::ItemClaims(QueueSpecPtr spec, std::shared_ptr<ItemView> view)
    : spec_(std::move(spec)),
      client_(spec_->client),
      view_(std::move(view)),
      writer_(std::make_shared<ExactlyOnceWriter>(client_, spec_->slots, spec_->acl)) {}

// --- Commit -------------------------------------------------------------------------------------------------------

Awaitable<Result<void>> ItemClaims::commit(Taken claim, Call call) {
  if (claim.lease == nullptr || !claim.lease->pause_node()) {
    co_return Error(Errc::not_held, committing, spec_->path, "the claim was lost, or ended before");
  }
  call.bound = claim.lease->session();
  ItemTransaction steps(*spec_, claim.key, claim.claim);
  // That version is the proof that no other worker has claimed it since.
  steps.remove(claim.version).remove_claim();
  Written written = co_await writer_->write_bound(steps.take(), call);
  Reply& reply = written.reply;
  switch (written.outcome) {
    case Written::Outcome::done:
      claim.lease->replaced();
      claim_removed(claim, reply.sent);
      co_return Result<void>();
    case Written::Outcome::failed:
      if (reply.failed(Errc::session_lost)) break;
      keep(claim);  // Nothing happened: it may be tried again.
      co_return spec_->error(reply, committing);
    case Written::Outcome::refused:
      if (tells_of_loss(written)) break;
      keep(claim);
      reply.error = zk::rc::to_errc(written.code);
      co_return spec_->error(reply, committing);
    case Written::Outcome::in_doubt: break;
  }
  claim.lease->lose_node("the claim was lost when it was committed");
  if (written.outcome == Written::Outcome::in_doubt)
    co_return Error(Errc::in_doubt, committing, spec_->path, reply.detail);
  co_return Error(Errc::not_held, committing, spec_->path, "the claim was lost");
}

void ItemClaims::keep(const Taken& claim) {
  claim.lease->resume();
  if (*claim.abandoned) zk::spawn(give_back_abandoned(shared_from_this(), claim));
}

Awaitable<void> ItemClaims::give_back_abandoned(std::shared_ptr<ItemClaims> self, Taken claim) {
  const Call unlimited;
  (void)co_await self->give_back(std::move(claim), true, unlimited);
}

// By ourselves, so that the list is none the older for it.
void ItemClaims::claim_removed(const Taken& claim, BootClock::time_point sent) {
  if (claim.claim == spec_->claim_path(claim.key)) view_->own_claim_deleted(claim.lease->session(), sent);
  claim_over(claim);
}

void ItemClaims::claim_over(const Taken& claim) { view_->let_go(claim.lease->session(), claim.key); }

// A claim that has to go, if it is there still; but not that of another consumer, which has the same name. Each claim
// of the item changes its version.
Awaitable<void> ItemClaims::remove_claim(std::shared_ptr<ItemClaims> self, ItemKey key, std::string node,
                                         std::int32_t version, std::shared_ptr<zk::SessionState> session) {
  Call call;
  call.bound = session;
  for (auto pause = first_pause;; pause = std::min(2 * pause, last_pause)) {
    if (session->over()) co_return;
    ItemTransaction steps(*self->spec_, key, node);
    steps.check(version).remove_claim();
    const Written written = co_await self->writer_->write_bound(steps.take(), call);
    if (written.outcome == Written::Outcome::done) break;
    if (written.refused_at(0, zk::rc::no_node)) {  // There is nothing left to claim.
      zk::delete_in_background(self->client_, node, session);
      break;
    }
    const bool refused = written.outcome == Written::Outcome::refused;
    const bool over = session->over() || self->client_->closing();
    if (over || (refused && tells_of_loss(written))) co_return;
    co_await zk::pause_for(pause, self->client_->events(), session);  // The server does not let us for now.
  }
  if (session == self->view_->session()) self->view_->mark_stale();
}

// --- Give back ----------------------------------------------------------------------------------------------------

Awaitable<Result<void>> ItemClaims::give_back(Taken claim, bool seen, Call call) {
  if (claim.lease == nullptr || !claim.lease->pause() || !claim.lease->begin_release()) {
    co_return Error(Errc::not_held, name_of_return(claim), spec_->path, "the claim was lost, or ended before");
  }
  call.bound = claim.lease->session();
  Written written = co_await write_return(claim, seen, call);
  const Reply& reply = written.reply;
  const std::optional<Errc> early = reply.given_up ? reply.given_up : reply.error;
  if (early == Errc::deadline_exceeded || early == Errc::cancelled) {
    Error error(*early, name_of_return(claim), spec_->path, "the item goes back in the background");
    zk::spawn(return_in_background(shared_from_this(), std::move(claim), seen));
    co_return error;
  }
  claim.lease->replaced();
  if (written.outcome == Written::Outcome::done) {
    returned(claim, to_be_buried(claim, seen), reply.sent);
    co_return Result<void>();
  }
  claim_over(claim);
  const bool in_doubt = written.outcome == Written::Outcome::in_doubt;
  if (in_doubt || reply.failed(Errc::session_lost)) co_return gone_with_session(claim, in_doubt, reply.detail);
  const bool unclear = written.outcome == Written::Outcome::failed || !tells_of_loss(written);
  // It goes back, if not to where it should.
  zk::spawn(remove_claim(shared_from_this(), claim.key, claim.claim, claim.version, call.bound));
  if (written.outcome == Written::Outcome::refused && unclear) written.reply.error = zk::rc::to_errc(written.code);
  if (unclear) co_return spec_->error(written.reply, name_of_return(claim));
  co_return Error(Errc::not_held, name_of_return(claim), spec_->path, "the claim was lost");
}

// The item goes back without us. That is no rejection, unless it was written before.
Result<void> ItemClaims::gone_with_session(const Taken& claim, bool in_doubt, const std::string& detail) const {
  if (!claim.rejection) return {};
  if (in_doubt) return Error(Errc::in_doubt, name_of_return(claim), spec_->path, detail);
  return Error(Errc::not_held, name_of_return(claim), spec_->path, "the claim was lost");
}

Awaitable<void> ItemClaims::give_back_later(std::shared_ptr<ItemClaims> self, Taken claim,
                                            std::chrono::milliseconds delay) {
  const auto session = claim.lease->session();
  co_await zk::pause_for(delay, self->client_->events(), session);
  *claim.abandoned = true;  // Not before: a commit that is under way may fail meanwhile.
  co_await give_back_abandoned(self, std::move(claim));
}

Awaitable<void> ItemClaims::return_in_background(std::shared_ptr<ItemClaims> self, Taken claim, bool seen) {
  Call call;
  call.bound = claim.lease->session();
  const Written written = co_await self->write_return(claim, seen, call);
  claim.lease->replaced();
  if (written.outcome == Written::Outcome::done) {
    self->returned(claim, self->to_be_buried(claim, seen), written.reply.sent);
    co_return;
  }
  // Refused: mostly because the first attempt has done it.
  self->claim_over(claim);
  self->view_->mark_stale();
  zk::spawn(remove_claim(self, claim.key, claim.claim, claim.version, call.bound));
}

bool ItemClaims::to_be_buried(const Taken& claim, bool seen) const {
  if (claim.rejection) return true;
  return seen && spec_->max_deliveries > 0 && claim.version >= spec_->max_deliveries;
}

Awaitable<Written> ItemClaims::write_return(const Taken& claim, bool seen, Call call) {
  std::string reason = claim.rejection.value_or(claim.reason);
  bool has_room = true;
  for (;;) {
    ItemTransaction steps(*spec_, claim.key, claim.claim);
    const bool bury = to_be_buried(claim, seen);
    if (bury) {
      steps.bury(claim.version, spec_->format.encode(claim.items, reason)).remove_claim();
    } else if (!seen && claim.version == 1 && has_room) {
      steps.remove(claim.version)
          .restore(claim.items, claim.reason)
          .remove_claim();  // As if it had never been claimed.
    } else {
      steps.check(claim.version).remove_claim();
    }
    Written written = co_await writer_->write_bound(steps.take(), call);
    if (bury && !reason.empty() && written.reply.failed(Errc::too_large)) {
      reason.clear();  // The item is worth more.
      continue;
    }
    const bool full = written.outcome == Written::Outcome::refused && written.code == zk::rc::quota_exceeded;
    if (full && !bury && std::exchange(has_room, false)) continue;  // To stay where it is, it needs no room.
    const bool no_folder = bury && written.refused_at(0, zk::rc::no_node);
    if (!no_folder) co_return written;
    written.reply = co_await spec_->make_folders(call, bury);
    if (!written.reply.ok()) {
      written.outcome = Written::Outcome::failed;
      co_return written;
    }
  }
}

void ItemClaims::returned(const Taken& claim, bool buried, BootClock::time_point sent) {
  claim_removed(claim, sent);
  if (claim.lease->session() != view_->session()) return;
  if (!buried && view_->listed()) view_->candidates().insert(claim.key);
  view_->mark_changed();
}

}  // namespace zkrecipes::detail
