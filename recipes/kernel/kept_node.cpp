#include "recipes/kernel/kept_node.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/held_nodes.hpp"
#include "recipes/kernel/waiter.hpp"

namespace zkrecipes::detail {

// --- Any thread ------------------------------------------------------------------------------------------------------

std::shared_ptr<KeptNode> KeptNode::start(KeptNodeSpec spec, std::string data) {
  auto kept = std::make_shared<KeptNode>(std::move(spec), std::move(data));
  const auto& loop = kept->spec_.client->loop();
  if (!loop->post([kept] { zk::spawn(run(kept)); })) {
    throw Error(loop->refusal(), kept->spec_.operation, kept->spec_.path);
  }
  return kept;
}

KeptNode::KeptNode(KeptNodeSpec spec, std::string data)
    : OwnedNode(spec_, spec.lease),
      spec_(std::move(spec)),
      node_(spec_.sequential() ? "" : spec_.node),
      data_(std::move(data)),
      wake_(spec_.client->events()) {}

void KeptNode::drop() noexcept {
  spec_.client->loop()->post([self = shared_from_this()] {
    self->ownerless_ = true;
    self->begin_to_leave();
  });
}

void KeptNode::abandon() noexcept {
  spec_.client->loop()->post([self = shared_from_this()] {
    const auto problem = self->shown_.problem();
    const bool refused = problem && problem->definite;
    self->ownerless_ = true;
    if (self->leaving_ && !refused) return;  // Someone may wait for that.
    self->finish();
    self->wake_.set();
    if (self->connecting_ != nullptr) self->connecting_->request();
  });
}

void KeptNode::begin_to_leave() {
  leaving_ = true;
  child_may_be_late_ = true;
  if (spec_.lasting()) shown_.clear_problem();
  wake_.set();
  waiting_.wake_all();
  if (proving_ != nullptr) proving_->request();
  // What was created must be looked for, which takes a connection.
  if (connecting_ != nullptr && !may_be_there()) connecting_->request();
}

// Of no session that lives.
bool KeptNode::may_be_there() const {
  return !former_witnesses_.empty() || (spec_.lasting() && (known_ != 0 || !doubts_.empty()));
}

// --- What others are told --------------------------------------------------------------------------------------------

void KeptNode::begin_incarnation(const SessionPtr& session, std::int64_t czxid) {
  end_incarnation();
  auto incarnation = std::make_shared<Incarnation>();
  incarnation->session = session;
  incarnation->token = FencingToken{czxid};
  incarnation->node = node_;
  shown_.begin(std::move(incarnation));
}

// First nobody takes it for valid any more, then the owner is told.
void KeptNode::end_incarnation() {
  const IncarnationPtr ended = shown_.incarnation();
  if (ended == nullptr || ended->over.exchange(true)) return;
  if (ended->keeper != nullptr) ended->keeper->drop(ended->hold);
  if (leaving_) return;  // Given up, not lost.
  lost_ = ended->token.value;
  if (!finished_) show(PresenceState::absent);
  told_ = std::make_shared<zk::CancelScope>();
  spec_.client->callbacks()->post(
      [ended, told = told_, client = spec_.client] {
        ended->lost.request_stop();
        client->loop()->post([told] { told->request(); });
      },
      true);
}

// --- Keeping it ------------------------------------------------------------------------------------------------------

// The coroutines that last as long as the node hold little: those that they wait for now and then hold the rest.
Awaitable<void> KeptNode::run(std::shared_ptr<KeptNode> self) {
  while (!self->finished_ && !self->spec_.client->closing()) {
    self->wake_.clear();  // Else the rest below is none.
    if (self->leaving_ && !self->may_be_there()) break;
    SessionPtr session = co_await self->connect();
    if (self->spec_.client->closing()) break;
    if (session != nullptr) co_await self->serve(std::move(session));
  }
  if (self->leaving_ && !self->may_be_there()) self->gone_ = true;
  self->finish();
}

/// Null: try again, after the rest that it took.
Awaitable<KeptNode::SessionPtr> KeptNode::connect() {
  Call call;
  call.cancel = connecting_ = std::make_shared<zk::CancelScope>();
  const Reply connected = co_await spec_.client->connected(call);
  connecting_ = nullptr;
  if (connected.ok() && !connected.session->over()) co_return connected.session;
  if (connected.ok()) co_return nullptr;
  if (spec_.client->closing() || connected.failed(Errc::cancelled)) co_return nullptr;
  show_problem(*connected.error, connected.detail, false);  // No login, say: that may change.
  co_await rest(short_rest);
  co_return nullptr;
}

void KeptNode::finish_gone() {
  gone_ = true;
  finish();
}

void KeptNode::finish() {
  finished_ = true;
  end_incarnation();
  watch_ = nullptr;
  former_witnesses_.clear();
  show(PresenceState::left);
  waiting_.wake_all();
}

Call KeptNode::call_on(const SessionPtr& session) const {
  Call call;
  call.bound = session;
  return call;
}

// What rests on a look must not wait for another connection: meanwhile the node may have been made anew by another client,
// and its versions begin again.
Call KeptNode::call_on_word_of(const SessionPtr& session, const Seen& seen) const {
  Call call = call_on(session);
  call.deadline = seen.believed_until;
  call.only_on = looked_on_;
  return call;
}

// Until there is news, a wish, or the time is over.
Awaitable<void> KeptNode::rest(std::optional<std::chrono::milliseconds> limit) {
  std::optional<zk::Signal::TimePoint> until;
  if (limit) until = std::chrono::steady_clock::now() + *limit;
  return wake_.wait(until);
}

Awaitable<void> KeptNode::serve(SessionPtr session) {
  const zk::SessionEnd end(session, wake_);
  const zk::NodeUse use = spec_.lasting() ? nullptr : zk::use_nodes(*spec_.client, *session);
  witness_ = zk::make_uuid();
  if (!spec_.lasting()) known_ = 0;
  created_ = doubted_ = false;
  told_version_.reset();
  witness_is_known_ = false;
  lost_ = 0;
  stale_ = spec_.lasting() || !former_witnesses_.empty();  // Our node may not be known there yet.
  if (node_.empty()) co_await find_name(session);
  while (!over(session)) {
    wake_.clear();
    const std::optional<Rest> pause = co_await take_turn(session);
    if (pause) co_await rest(pause->limit);
  }
  watch_ = nullptr;
  if (spec_.lasting()) co_return;
  end_incarnation();
  if (created_) former_witnesses_[session->id()] = {witness(), use};
  if (!finished_) show(PresenceState::absent);
}

/// A look, and what follows from it.
Awaitable<std::optional<KeptNode::Rest>> KeptNode::take_turn(SessionPtr session) {
  const std::uint64_t generation = wanted_;
  std::optional<PendingReply> creating = begin_to_create(session);
  SeenPtr seen = as_told(*session);
  if (seen == nullptr) seen = co_await look(session);
  if (creating) {
    const bool made = co_await is_made(session, std::move(*creating), generation);
    if (!made) co_return std::nullopt;
  }
  if (over(session)) co_return std::nullopt;
  if (seen->failure != nullptr) {
    co_await endure(std::move(seen->failure));
    co_return std::nullopt;
  }
  const PresenceStep step = decide_presence(seen->facts);
  if (step == PresenceStep::done) {
    const std::optional<Rest> before = rest_before_gone(*session);
    if (!before) finish_gone();
    co_return before;
  }
  co_return co_await act(session, step, std::move(seen));
}

/// A session sees all that it has created. A create of one that was lost may come to light later: a server that stood still
/// hands on what it was sent, and the leader does it for as long as it has that session, which is less than two timeouts. So
/// it takes another look then. Nullopt: nothing can come any more.
std::optional<KeptNode::Rest> KeptNode::rest_before_gone(const zk::SessionState& session) {
  const auto now = std::chrono::steady_clock::now();
  auto last = now;
  for (Doubt& doubt : doubts_) {
    if (doubt.session == session.id()) continue;
    if (!doubt.passes) doubt.passes = now + 2 * doubt.timeout;
    last = std::max(last, *doubt.passes);
  }
  if (last == now) return std::nullopt;
  return Rest{std::chrono::ceil<std::chrono::milliseconds>(last - now)};
}

// With no earlier session nothing of ours can be there, so the create goes out before the first look, in one flight.
std::optional<PendingReply> KeptNode::begin_to_create(const SessionPtr& session) {
  if (!former_witnesses_.empty() || created_ || spec_.lasting() || leaving_) return std::nullopt;
  return spec_.client->launch(creation(Seen(), false, false), call_on(session));
}

Awaitable<bool> KeptNode::is_made(SessionPtr session, PendingReply creating, std::uint64_t generation) {
  Reply reply = co_await creating.get();
  if (reply.ok()) co_return true;
  const Seen nothing;
  const Request request = creation(nothing, false, false);
  co_await conclude(session, request, generation, std::move(reply));
  co_return false;
}

/// Nothing could be read.
Awaitable<void> KeptNode::endure(ReplyPtr failure) {
  stale_ = true;
  if (is_transient(*failure)) co_return;
  const bool busy = failure->failed(Errc::throttled) || failure->failed(Errc::overloaded);
  show_problem(*failure->error, failure->detail, !busy);
  if (!busy) {
    end_incarnation();
    show(PresenceState::absent);
    if (gives_up_removal()) {
      finish();
      co_return;
    }
  }
  co_await rest(busy ? short_rest : std::chrono::milliseconds(long_rest));
}

/// What a look would find before our node is removed, by the watch that the last look has armed; null: that takes a look.
/// A silent watch says little where nothing comes from the server. So it counts only for as long as a write of this session
/// shows that an earlier change would have been told; and only on the connection that the look was answered on, since the
/// events of another one may still be to come. What is sent on its word must not wait.
KeptNode::SeenPtr KeptNode::as_told(const zk::SessionState& session) {
  const std::optional<std::int32_t> version = std::exchange(told_version_, std::nullopt);
  if (!leaving_ || !version || watch_fired_ || stale_ || !spec_.child.empty()) return nullptr;
  if (!spec_.lasting() && !witness_is_known_) return nullptr;
  if (session.connections() != looked_on_ || !spec_.client->sends_at_once()) return nullptr;
  const std::chrono::nanoseconds silence = zkclient::BootClock::now() - session.told_up_to();
  if (silence >= longest_silence) return nullptr;
  auto seen = std::make_unique<Seen>();
  seen->facts = first_facts(session);
  seen->facts.node = FoundNode{known_, seen->facts.session};
  if (!spec_.lasting()) seen->facts.witness = known_;
  seen->version = *version;
  seen->believed_until = std::chrono::steady_clock::now() + (longest_silence - silence);
  return seen;
}

/// Those that take no look.
PresenceFacts KeptNode::first_facts(const zk::SessionState& session) const {
  PresenceFacts facts;
  facts.session = spec_.lasting() ? 0 : session.id();
  facts.known = known_;
  facts.wanted = !leaving_;
  // A node that was replaced belongs to one that came later.
  facts.replace_others = spec_.conflict == Conflict::replace && !was_kept_;
  return facts;
}

Awaitable<KeptNode::SeenPtr> KeptNode::look(SessionPtr session) {
  Look look(call_on(session));
  if (!doubts_.empty() || (leaving_ && doubted_)) {
    look.seen->failure = co_await settle_doubts(look.call);
    if (look.seen->failure != nullptr) co_return std::move(look.seen);
    doubted_ = false;
  }
  begin_to_look(look);
  // One after the other, since many nodes may be looked for at once: so there is one reply at a time in memory here.
  for (std::size_t i = 0; i < look.reads.size(); ++i) {
    const Reply reply = co_await look.reads[i].reply.get();
    take_in(look, look.reads[i].what, reply);
  }
  const PresenceFacts& facts = look.seen->facts;
  witness_is_known_ = facts.node && facts.witness == facts.node->czxid && !watch_fired_;
  co_return std::move(look.seen);
}

/// All in one flight.
void KeptNode::begin_to_look(Look& look) {
  look.seen->facts = first_facts(*look.call.bound);
  looked_on_ = look.call.bound->connections();
  if (stale_) witness_is_known_ = false;
  watch_ = make_watch();
  look.syncs = std::exchange(stale_, false);
  if (look.syncs) begin_to_read(look, Found::sync, OpType::sync, node_);
  // To leave takes no right to read, unless the data has to tell.
  const OpType type = leaving_ && doubts_.empty() ? OpType::exists : OpType::get;
  Request node = zk::make_request(type, node_);
  look.reads.push_back({Found::node, spec_.client->launch_watching(std::move(node), look.call, watch_)});
  if (created_ && !witness_is_known_) begin_to_read(look, Found::witness, OpType::exists, witness());
  const bool may_remove = leaving_ || look.seen->facts.replace_others;
  if (may_remove && !spec_.child.empty()) begin_to_read(look, Found::child, OpType::exists, spec_.child);
}

void KeptNode::begin_to_read(Look& look, Found what, OpType type, std::string path) {
  if (what == Found::witness) look.reads_witness = true;
  look.reads.push_back({what, spec_.client->launch(zk::make_request(type, std::move(path)), look.call)});
}

void KeptNode::take_in(Look& look, Found what, const Reply& reply) {
  Seen& seen = *look.seen;
  const bool found = look.take(what, reply);
  switch (what) {
    case Found::sync: return;
    case Found::node: return take_in_node(look, reply);
    case Found::witness:
      if (found) seen.facts.witness = reply.stat.czxid;
      return;
    case Found::child: seen.child = found; return;
    case Found::former_witness:
      if (found) seen.facts.former_witness = reply.stat.czxid;
      return;
  }
}

/// It may show that more has to be read.
void KeptNode::take_in_node(Look& look, const Reply& reply) {
  Seen& seen = *look.seen;
  if (reply.ok()) {
    seen.facts.node = FoundNode{reply.stat.czxid, reply.stat.ephemeral_owner, reply.data == *data_};
    seen.facts.renew = !spec_.lasting() && reply.stat.czxid == lost_;
    seen.version = reply.stat.version;
  }
  if (spec_.lasting() && seen.failure == nullptr) recognize(reply, look.syncs, seen);
  if (created_ && !look.reads_witness) {
    // A node that was known by its witness still is, with that.
    const bool is_known = witness_is_known_ && reply.ok() && reply.stat.czxid == known_;
    if (is_known) seen.facts.witness = known_;
    if (!is_known) begin_to_read(look, Found::witness, OpType::exists, witness());
  }
  const auto former = reply.ok() ? former_witnesses_.find(reply.stat.ephemeral_owner) : former_witnesses_.end();
  if (former == former_witnesses_.end()) return;
  seen.facts.former_session = true;
  seen.former_witness = former->second.path;
  begin_to_read(look, Found::former_witness, OpType::exists, seen.former_witness);
}

std::shared_ptr<zk::LoopWatch> KeptNode::make_watch() {
  watch_fired_ = false;
  const auto told = [this](zkclient::WatchEventType type) {
    watch_fired_ = true;
    if (type != zkclient::WatchEventType::data_changed) witness_is_known_ = false;
    wake_.set();
  };
  return std::make_shared<zk::LoopWatch>(spec_.client, zk::WatchRegistry::Kind::data, told);
}

// What is not found now counts as not made: so a majority has to have agreed on what was sent before. Null: it has.
Awaitable<KeptNode::ReplyPtr> KeptNode::settle_doubts(Call call) {
  Reply settled = co_await zk::fresh_by_quorum(spec_.client, zk::make_request(OpType::exists, node_), call);
  if (zk::is_there_or_not(settled)) co_return nullptr;
  co_return std::make_unique<Reply>(std::move(settled));
}

/// Whether the node is there. A read that has overtaken the sync, since the connection broke, counts as lost.
bool KeptNode::Look::take(Found what, const Reply& reply) {
  if (what == Found::sync) synced = std::make_unique<Reply>(reply);
  std::optional<Errc> error;
  if (!zk::is_there_or_not(reply)) {
    error = reply.error;
  } else if (what != Found::sync && syncs && !zk::is_behind(*synced, reply)) {
    error = Errc::connection_loss;
  }
  if (error && seen->failure == nullptr) {
    seen->failure = std::make_unique<Reply>();
    seen->failure->error = error;
  }
  return reply.ok();
}

Awaitable<std::optional<KeptNode::Rest>> KeptNode::act(SessionPtr session, PresenceStep step, SeenPtr seen) {
  switch (step) {
    case PresenceStep::keep: {
      const std::uint64_t generation = wanted_;
      const std::int32_t seen_version = seen->version;
      former_witnesses_.clear();  // What is left of those sessions goes with them.
      co_await keep(session, seen->facts);
      if (over(session) || wake_.is_set()) co_return std::nullopt;
      kept_ = generation;
      settled_ = data_;
      told_version_ = seen_version;
      waiting_.wake_all();
      Rest pause;
      if (shown_.problem()) pause.limit = long_rest;  // There is no lease.
      co_return pause;
    }
    case PresenceStep::wait:
      end_incarnation();
      // A node of a former session that is not proven to be ours goes when that is closed.
      for (auto& [id, former] : former_witnesses_)
        former.use = nullptr;
      if (!leaving_) {
        const std::int64_t owner = seen->facts.node->owner;
        show_problem(Errc::node_exists,
                     owner == 0 ? "another client has made it" : fmt::format("session {:#x} has it", owner), false);
        show(PresenceState::absent);
      }
      co_return Rest();
    default: break;
  }
  if (step != PresenceStep::write) end_incarnation();
  if (spec_.lease && told_ != nullptr && !leaving_) {
    co_await until_told(spec_.client, session, std::exchange(told_, nullptr));
    if (over(session)) co_return std::nullopt;
  }
  if (spec_.lasting() && step == PresenceStep::replace) {
    co_await replace_lasting(session, std::move(seen));
    co_return std::nullopt;
  }
  if (step == PresenceStep::write) {
    const bool may = co_await may_write(session);
    if (!may) co_return std::nullopt;
  }
  const Request request = request_of(step, *seen);
  const std::uint64_t generation = wanted_;
  Request sent = request;
  const Call call = call_on_word_of(session, *seen);
  Reply reply = co_await spec_.client->perform(std::move(sent), call);
  learn(session, request, *seen, reply);
  const bool removed =
      step == PresenceStep::remove || step == PresenceStep::remove_witness || step == PresenceStep::remove_former;
  if (reply.ok() && removed) {
    finish_gone();
  } else if (reply.ok() && step == PresenceStep::write) {
    if (reply.stat.czxid != seen->facts.node->czxid)
      co_return std::nullopt;  // Another client had made it anew, at that version.
    kept_ = generation;
    settled_ = request.data;
    waiting_.wake_all();
  } else {
    co_await conclude(session, request, generation, std::move(reply));
  }
  co_return std::nullopt;
}

/// False: look again. What another client writes over our data is written over at once, but for one that does so again
/// and again: two owners of one node must not keep the servers busy.
Awaitable<bool> KeptNode::may_write(SessionPtr session) {
  const std::uint64_t generation = wanted_;
  if (kept_ != generation) co_return true;
  const auto now = std::chrono::steady_clock::now();
  if (now >= next_rewrite_) {
    next_rewrite_ = now + short_rest;
    co_return true;
  }
  while (!over(session) && !leaving_ && wanted_ == generation && std::chrono::steady_clock::now() < next_rewrite_) {
    wake_.clear();
    co_await wake_.wait(next_rewrite_);
  }
  co_return false;
}

/// After a request that was to bring us nearer to what is wanted. Then the next look decides.
Awaitable<void> KeptNode::conclude(SessionPtr session, const Request& request, std::uint64_t generation, Reply reply) {
  if (reply.ok() || over(session)) co_return;
  stale_ = true;
  if (is_transient(reply)) {
    if (!spec_.lasting() && creates(request)) doubted_ = true;
    co_return;
  }
  if (reply.failed(Errc::throttled)) {
    co_await rest(short_rest);
    co_return;
  }
  const Errc cause = reply.cause();
  const bool changed = cause == Errc::bad_version || cause == Errc::node_exists || cause == Errc::no_node;
  if (changed && !lacks_parent(request, reply)) co_return;  // It is not what it was.
  if (changed) {
    const bool made = co_await make_parents(session);
    if (!made) co_await rest(std::chrono::milliseconds(long_rest));
    co_return;
  }
  if (cause == Errc::not_empty && !spec_.child.empty() && std::exchange(child_may_be_late_, false)) co_return;
  if (cause == Errc::too_large && take_back(generation)) co_return;
  if (cause == Errc::quota_exceeded) {
    // What a transaction removes makes no room for what it creates: one after the other.
    Request former = removals_of(request);
    if (!former.operations.empty()) {
      const Seen looked;
      const Call call = call_on_word_of(session, looked);
      reply = co_await spec_.client->perform(std::move(former), call);
      if (reply.ok() || is_transient(reply)) co_return;
      const Errc why = reply.cause();
      if (why == Errc::no_node || why == Errc::bad_version) co_return;  // It is not what it was: look again.
    }
  }
  show_problem(cause, reply.detail, true);
  const bool stays = request.type == OpType::set || (spec_.lasting() && leaving_);
  if (!stays) {  // Else it is there, only with the data it had.
    end_incarnation();
    show(PresenceState::absent);
  }
  if (removes_only(request) && gives_up_removal()) {
    finish();
    co_return;
  }
  co_await rest(std::chrono::milliseconds(long_rest));
}

// Nobody asks again for what the server has refused, and by a later attempt the node may be another owner's: one that has
// taken it over, which leaves its czxid as it is.
bool KeptNode::gives_up_removal() const { return spec_.lasting() && leaving_ && ownerless_; }

Awaitable<bool> KeptNode::make_parents(SessionPtr session) {
  std::vector<std::string> directories = {zk::parent_of(spec_.node)};
  if (!spec_.lasting()) directories.push_back(spec_.witnesses);
  for (const std::string& directory : directories) {
    const Reply made = co_await zk::ensure(spec_.client, directory, spec_.parent_mode, spec_.acl, call_on(session));
    if (made.ok() || is_transient(made)) continue;
    show_problem(made.cause(), directory, true);
    show(PresenceState::absent);
    co_return false;
  }
  co_return true;
}

// What is too large never will be in force: what was in force before is wanted again, and wishes in between go with it.
// False: there was none.
bool KeptNode::take_back(std::uint64_t generation) {
  if (generation != wanted_) return true;  // Something else is wanted by now.
  if (*data_ == *settled_) return false;
  data_ = settled_;
  refused_after_ = std::max<std::uint64_t>(kept_, 1);  // The first one is what settled_ begins with.
  refused_ = generation;
  waiting_.wake_all();
  return true;
}

// Our node is there as it is wanted.
Awaitable<void> KeptNode::keep(SessionPtr session, PresenceFacts facts) {
  const std::int64_t czxid = facts.node->czxid;
  const IncarnationPtr last = shown_.incarnation();
  const bool same = last != nullptr && !last->over && last->token == FencingToken{czxid};
  known_ = czxid;
  doubted_ = false;
  was_kept_ = true;
  if (!same) begin_incarnation(session, czxid);
  const IncarnationPtr incarnation = shown_.incarnation();
  if (spec_.lease && incarnation->keeper == nullptr) {
    const bool proven = co_await prove(session, facts.witness.has_value());
    if (over(session) || wake_.is_set()) co_return;
    if (proven) {
      const auto keeper = spec_.client->keeper();
      zk::LeaseKeeper::Holder holder;
      holder.gone = [weak = weak_from_this()] {
        const auto self = weak.lock();
        if (self == nullptr) return;
        self->stale_ = true;
        self->wake_.set();
      };
      holder.expired = [weak = weak_from_this(), incarnation](const std::string&) {
        const auto self = weak.lock();
        if (self == nullptr || incarnation->over) return;
        self->end_incarnation();
        self->wake_.set();
      };
      shown_.begin_lease(*incarnation, keeper, keeper->hold(node_, std::move(holder)));
    }
  } else {
    shown_.clear_problem();
  }
  show(PresenceState::present);
}

// Whether a lease can begin now; if not, problem() says why.
Awaitable<bool> KeptNode::prove(SessionPtr session, bool witnessed) {
  Call call;
  call.cancel = proving_ = std::make_shared<zk::CancelScope>();
  if (leaving_) proving_->request();
  const auto waiter = std::make_unique<Waiter>(spec_.client, call);
  Reply reply = co_await waiter->enter_to_hold();
  if (reply.ok() && waiter->session() == session) {
    Request check = existence_check(node_, witnessed ? witness() : "");
    reply = co_await waiter->prove(std::move(check));
    if (reply.failed(Errc::no_node)) {
      witness_is_known_ = false;
      wake_.set();
    }
  }
  if (reply.ok()) {
    shown_.clear_problem();
    co_return waiter->session() == session;
  }
  if (!is_transient(reply)) show_problem(reply.cause(), reply.detail, true);
  co_return false;
}

}  // namespace zkrecipes::detail
