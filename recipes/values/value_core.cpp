#include "recipes/values/value_core.hpp"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <utility>

#include "recipes/values/counter_kind.hpp"
#include "recipes/values/last_writer.hpp"
#include "recipes/values/latch_kind.hpp"
#include "recipes/values/shared_value_kind.hpp"
#include "zkclient/detail/recipe_random.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* slots_name = "_c_writes";
constexpr const char* markers_name = "_c_markers";

std::string slots_of(const std::string& node) { return zk::child_path(zk::parent_of(node), slots_name); }

// Values beside each other have one folder for their slots.
std::string slot_family(const std::string& node) { return std::string(zk::name_of(node)) + "-"; }

// Refused for what others had written, or for the marker.
bool is_conflict(const Written& written) noexcept {
  return written.outcome == Written::Outcome::refused &&
         (written.code == zk::rc::bad_version || written.code == zk::rc::node_exists ||
          written.code == zk::rc::no_node);
}

}  // namespace

template <typename Kind>
std::shared_ptr<ValueCore<Kind>> ValueCore<Kind>::make(std::shared_ptr<zk::ClientCore> client, std::string node,
                                                       Kind kind, ValueOptions options) {
  const auto retire = [loop = client->loop()](ValueCore* core) {
    loop->post([owned = std::unique_ptr<ValueCore>(core)]() mutable { owned.reset(); });
  };
  return {new ValueCore(std::move(client), std::move(node), std::move(kind), std::move(options)), retire};
}

namespace {

std::unique_ptr<WriteMarker> make_marker(const std::shared_ptr<zk::ClientCore>& client, const std::string& node,
                                         const ValueOptions& options) {
  if (!options.durable) return nullptr;
  return std::make_unique<WriteMarker>(client, zk::child_path(zk::parent_of(node), markers_name), options.acl,
                                       options.max_marker_age);
}

}  // namespace

// The slots are beside the node: one that has them below it would have to be there before them.
template <typename Kind>
ValueCore<Kind>::ValueCore(std::shared_ptr<zk::ClientCore> client, std::string node, Kind kind, ValueOptions options)
    : client_(std::move(client)),
      node_(std::move(node)),
      kind_(std::move(kind)),
      acl_(options.acl),
      writer_(ExactlyOnceWriter::make(client_, slots_of(node_), acl_, slot_family(node_))),
      marker_(make_marker(client_, node_, options)),
      pace_(static_cast<std::uint32_t>(zkclient::detail::random_seed()) | 1),
      unwatched_(client_->events()) {}

// --- Calls ----------------------------------------------------------------------------------------------------------

template <typename Kind>
Awaitable<typename ValueCore<Kind>::Outcome> ValueCore<Kind>::change(std::shared_ptr<ValueCore> self, Request request,
                                                                     Call call) {
  const auto part = std::make_shared<Part>(self->client_->events(), std::move(request));
  if (call.cancel != nullptr && call.cancel->requested()) part->fail(Errc::cancelled, Errc::cancelled);
  const bool late = call.deadline && std::chrono::steady_clock::now() >= *call.deadline;
  if (late) part->fail(Errc::deadline_exceeded, Errc::deadline_exceeded);
  zk::CancelScope::Guard cancelled;
  if (!part->ended) {
    const auto give_up = [raw = self.get(), part](Errc why) { raw->give_up(part, why); };
    cancelled = zk::CancelScope::Guard(call.cancel, [give_up] { give_up(Errc::cancelled); });
    if (call.deadline) part->deadline.set(*call.deadline, [give_up] { give_up(Errc::deadline_exceeded); });
    self->waiting_.insert(Kind::has_looked(part->request) ? self->waiting_.begin() : self->waiting_.end(), part);
    self->start_soon();
  }
  Outcome outcome = co_await part->outcome.get();
  co_return outcome;
}

// What was not sent can be taken back, for the others to be sent without it. What was sent cannot: no attempt may
// differ from the one before it, since nothing would tell which of them was applied.
template <typename Kind>
void ValueCore<Kind>::give_up(const std::shared_ptr<Part>& part, Errc why) {
  if (part->ended) return;
  if (std::erase(waiting_, part) > 0) {
    part->fail(why, why);
    if (batch_.empty() && waiting_.empty() && wait_ != nullptr) wait_->request();
    return;
  }
  switch (progress_) {
    case Progress::idle: part->fail(why, why); break;
    case Progress::unsent: part->withdrawn = why; break;
    case Progress::sent: part->fail(Errc::in_doubt, why, "it was sent, and the answer has not come"); break;
  }
  const bool unwanted = std::all_of(batch_.begin(), batch_.end(), [](const auto& one) { return one->ended; });
  if (unwanted || progress_ == Progress::unsent) wait_->request();
}

template <typename Kind>
Awaitable<Reply> ValueCore<Kind>::look(std::shared_ptr<ValueCore> self, Call call) {
  ValueLookPtr seen = self->known_;
  if (seen == nullptr || !seen->holds() || !seen->watched()) seen = co_await self->see(call);
  if (seen->holds()) self->known_ = seen;
  co_return seen->reply;
}

// --- Reading --------------------------------------------------------------------------------------------------------

template <typename Kind>
ValueLookPtr ValueCore<Kind>::launch_look(const Call& call) {
  auto look = std::make_shared<ValueLook>();
  const auto outdate = [weak = std::weak_ptr(look)](zkclient::WatchEventType) {
    if (const auto seen = weak.lock()) seen->outdated = true;
  };
  look->watch = std::make_shared<zk::LoopWatch>(client_, zk::WatchRegistry::Kind::data, outdate);
  zk::Request get = zk::make_request(Kind::read, node_);
  look->pending = client_->launch_watching(std::move(get), call, look->watch);
  return look;
}

template <typename Kind>
Awaitable<ValueLookPtr> ValueCore<Kind>::see(Call call) {
  for (;;) {
    ValueLookPtr look = launch_look(call);
    Reply reply = co_await look->pending.get();
    if (reply.failed(Errc::overloaded)) {  // There is no room for another watch: without one it is seen only once.
      zk::Request get = zk::make_request(Kind::read, node_);
      reply = co_await client_->perform(std::move(get), call);
      look->outdated = true;
    }
    if (reply.failed(Errc::session_lost) && call.bound == nullptr) continue;  // Together with the answer.
    look->arrive(std::move(reply));
    co_return look;
  }
}

template <typename Kind>
Awaitable<void> ValueCore<Kind>::remember(ValueLookPtr look) {
  if (look == nullptr) co_return;
  Reply reply = co_await look->pending.get();
  look->arrive(std::move(reply));
  if (look->holds()) known_ = std::move(look);
}

// The next change builds upon it. If none comes soon, a read arms a watch, so that a later one still needs a single round
// trip.
template <typename Kind>
void ValueCore<Kind>::remember_own_write(const Step& step, Reply written) {
  written.session = last_session_;
  written.stat = *written.results.back().stat;
  written.data = kind_.data(step);
  known_ = ValueLook::of_own_write(std::move(written));
  unwatched_.set_after(ValueLook::trust_in_own_write, [this] {
    if (const auto self = this->weak_from_this().lock(); self != nullptr && !running_) zk::spawn(watch_again(self));
  });
}

template <typename Kind>
Awaitable<void> ValueCore<Kind>::watch_again(std::shared_ptr<ValueCore> self) {
  if (self->known_ == nullptr || self->known_->watched()) co_return;
  const ValueLookPtr own = std::exchange(self->known_, nullptr);
  Call call;
  call.bound = own->reply.session;
  ValueLookPtr seen = co_await self->see(call);
  if (!self->running_ && self->known_ == nullptr && seen->holds()) self->known_ = std::move(seen);
}

// --- Writing --------------------------------------------------------------------------------------------------------

// Not at once: what else the loop has to do now may want to count as well.
template <typename Kind>
void ValueCore<Kind>::start_soon() {
  if (std::exchange(running_, true)) return;
  client_->events().defer([self = this->shared_from_this()] { zk::spawn(run(self)); });
}

template <typename Kind>
Awaitable<void> ValueCore<Kind>::run(std::shared_ptr<ValueCore> self) {
  while (!self->waiting_.empty())
    co_await self->run_once();
  self->running_ = false;
}

template <typename Kind>
Call ValueCore<Kind>::new_wait() {
  wait_ = std::make_shared<zk::CancelScope>();
  Call call;
  call.cancel = wait_;
  return call;
}

// For others, which may write the node as well.
template <typename Kind>
Awaitable<void> ValueCore<Kind>::rest(WritePace::Duration pause, std::shared_ptr<zk::SessionState> session) {
  zk::Signal over(client_->events());
  const Call call = new_wait();
  const zk::CancelScope::Guard unwanted(call.cancel, [&over] { over.set(); });
  const zk::SessionEnd end(session, over);
  if (session->over()) co_return;
  co_await over.wait(std::chrono::steady_clock::now() + pause);
}

template <typename Kind>
Awaitable<void> ValueCore<Kind>::run_once() {
  constexpr auto none = WritePace::Duration::zero();
  const auto has_turn = [this] { return Kind::has_looked(waiting_.front()->request); };
  if (const auto way = has_turn() ? none : pace_.make_way(ValueLook::Clock::now()); way != none) {
    known_ = nullptr;
    co_await rest(way, last_session_);
    if (waiting_.empty()) co_return;
  }
  ValueLookPtr seen = recall();
  while (!waiting_.empty()) {
    if (seen == nullptr) {
      const Call call = new_wait();
      seen = co_await see(call);
    }
    if (!seen->usable()) {  // If nobody waited any more, others may have come since.
      if (!seen->reply.given_up) fail_all(std::exchange(waiting_, {}), seen->reply);
      co_return;
    }
    if (waiting_.empty()) co_return;
    if (!has_turn() && pace_.asks_who_writes(ValueLook::Clock::now())) {
      const Call call = new_wait();
      const std::int64_t change = seen->reply.stat.mzxid;
      const bool foreign = co_await is_foreign_change(client_, slots_of(node_), slot_family(node_), change, call);
      pace_.told_who_writes(foreign, ValueLook::Clock::now());
      seen = nullptr;
      continue;
    }
    const auto pause = has_turn() ? none : pace_.pause(seen->reply.stat.version, ValueLook::Clock::now());
    if (pause == none) {
      co_await transact(std::move(seen));
      co_return;
    }
    co_await rest(pause, seen->reply.session);
    seen = nullptr;
  }
}

// What the next call in line may build upon.
template <typename Kind>
ValueLookPtr ValueCore<Kind>::recall() {
  ValueLookPtr seen = std::exchange(known_, nullptr);
  if (seen == nullptr || !seen->holds() || Kind::needs_a_read(waiting_.front()->request)) return nullptr;
  seen->recalled = true;
  return seen;
}

template <typename Kind>
Awaitable<void> ValueCore<Kind>::transact(ValueLookPtr seen) {
  const auto end = waiting_.begin() + static_cast<std::ptrdiff_t>(std::min(waiting_.size(), Kind::most_calls));
  batch_.assign(std::make_move_iterator(waiting_.begin()), std::make_move_iterator(end));
  waiting_.erase(waiting_.begin(), end);
  std::vector<Request> requests;
  for (const std::shared_ptr<Part>& part : batch_)
    requests.push_back(part->request);
  Step step = kind_.decide(*seen, requests);
  if (step.write == ValueWrite::nothing) {
    if (seen->holds()) known_ = std::move(seen);
    answer_all(step);
    co_return;
  }
  Call call = new_wait();
  call.bound = last_session_ = seen->reply.session;
  behind_ = nullptr;
  progress_ = Progress::unsent;
  const auto begun = ValueLook::Clock::now();
  // In a row of changes each one tells the next what it needs. Otherwise a read behind does, unless the change is about
  // to be refused, and a pause comes after that: what the read tells would be old when it is over.
  const bool in_a_row = begun - last_change_ < ValueLook::trust_in_own_write;
  const bool tells = changes(step.write) && rests_on_version(step.write);
  const bool read_behind = !tells || (pace_.is_contended() ? pace_.takes_no_turns() : !in_a_row);
  auto sent_at = begun;  // A marker or a slot may have to be made first.
  const auto sent = [this, read_behind, session = call.bound, &sent_at] {
    progress_ = Progress::sent;
    sent_at = ValueLook::Clock::now();
    if (!read_behind) return;
    Call read;
    read.bound = session;
    behind_ = launch_look(read);
  };
  Written written;
  if (is_marked(step)) written.reply = co_await marker_->prepare(call);
  if (written.reply.ok()) written = co_await writer_->write_bound(operations(step, *seen), call, sent);
  const auto ended = ValueLook::Clock::now();
  if (is_conflict(written)) pace_.refused(ended - sent_at, ended);
  if (written.outcome == Written::Outcome::done) {
    pace_.applied(ended - sent_at, ended);
    last_change_ = ended;
    const auto& results = written.reply.results;
    if (changes(step.write) && !results.empty() && results.back().stat) pace_.changed(results.back().stat->version);
  }
  co_await settle(std::move(step), std::move(seen), std::move(written));
}

// What changes nothing need not be found out: it is asked again.
template <typename Kind>
bool ValueCore<Kind>::is_marked(const Step& step) const noexcept {
  return marker_ != nullptr && changes(step.write);
}

template <typename Kind>
std::vector<Transaction::Operation> ValueCore<Kind>::operations(const Step& step, const ValueLook& seen) const {
  using Write = ValueWrite;
  std::vector<Transaction::Operation> all;
  const std::int32_t version = seen.reply.stat.version;
  const std::string data = kind_.data(step);
  if (is_marked(step)) all.push_back(marker_->operation());
  switch (step.write) {
    case Write::create: all.emplace_back(Transaction::Create{Path(node_), data, CreateMode::persistent, acl_}); break;
    case Write::set: all.emplace_back(Transaction::Set{Path(node_), data, version}); break;
    case Write::set_twice: all.emplace_back(Transaction::Set{Path(node_), data, version}); [[fallthrough]];
    case Write::set_always: all.emplace_back(Transaction::Set{Path(node_), data, any_version}); break;
    case Write::check: all.emplace_back(zkclient::Check{Path(node_), version}); break;
    case Write::check_absent:
      all.emplace_back(Transaction::Create{Path(node_), std::string(), CreateMode::persistent, acl_});
      all.emplace_back(Transaction::Remove{Path(node_), any_version});
      break;
    case Write::nothing: break;
  }
  return all;
}

// --- How it ended ---------------------------------------------------------------------------------------------------

template <typename Kind>
Awaitable<void> ValueCore<Kind>::settle(Step step, ValueLookPtr seen, Written written) {
  switch (written.outcome) {
    case Written::Outcome::done:
      if (is_marked(step)) marker_->count();
      co_await settle_success(std::move(step), std::move(seen), std::move(written.reply));
      break;
    case Written::Outcome::refused: co_await settle_refusal(step, written); break;
    case Written::Outcome::in_doubt:
      if (marker_ != nullptr && !written.slot.empty()) {
        co_await settle_doubt(std::move(step), std::move(seen), written);
        break;
      }
      // All callers have given up. The transaction may still be applied: its marker's version tells nothing about the next.
      if (is_marked(step)) marker_->abandon();
      written.reply.error = Errc::in_doubt;
      fail_all(std::exchange(batch_, {}), written.reply);
      break;
    case Written::Outcome::failed: {
      // Withdrawn, or not sent before the session ended.
      const bool unsent = written.reply.given_up || written.reply.failed(Errc::session_lost);
      unsent ? repeat() : fail_all(std::exchange(batch_, {}), written.reply);
      break;
    }
  }
}

// The condition was a version, which a node that was made again may have, too.
template <typename Kind>
Awaitable<void> ValueCore<Kind>::settle_success(Step step, ValueLookPtr seen, Reply reply) {
  const ValueLookPtr behind = std::exchange(behind_, nullptr);
  const bool told =
      rests_on_version(step.write) && changes(step.write) && !reply.results.empty() && reply.results.back().stat;
  if (told && reply.results.back().stat->czxid != seen->reply.stat.czxid) {
    reply.error = Errc::foreign_node;
    reply.detail = "the node was deleted and made again; this was written over its new value";
    answer_the_regardless(step, reply);
  } else if (told || !rests_on_version(step.write)) {
    answer_all(step);
    if (told && behind == nullptr) remember_own_write(step, reply);
  }
  co_await remember(behind);
  if (batch_.empty()) co_return;
  const bool same = co_await still_there(std::move(seen), behind);
  if (same) {
    answer_all(step);
  } else if (!changes(step.write)) {
    repeat();
  } else {
    reply.error = Errc::in_doubt;
    reply.detail = "it was written, maybe into a node that was made again meanwhile";
    answer_the_regardless(step, reply);
  }
}

// Whether it is the same node: the reply that would have told was lost.
template <typename Kind>
Awaitable<bool> ValueCore<Kind>::still_there(ValueLookPtr seen, ValueLookPtr behind) {
  if (behind != nullptr && behind->usable() && !behind->outdated) {
    co_return behind->exists() && behind->reply.stat.czxid == seen->reply.stat.czxid;
  }
  Call call;
  call.cancel = wait_;
  for (;;) {
    zk::Request get = zk::make_request(OpType::exists, node_);
    const Reply now = co_await zk::fresh(client_, std::move(get), call);
    if (now.failed(Errc::session_lost) && !now.given_up) continue;
    co_return now.ok() && now.stat.czxid == seen->reply.stat.czxid;
  }
}

template <typename Kind>
Awaitable<void> ValueCore<Kind>::settle_doubt(Step step, ValueLookPtr seen, Written written) {
  auto fate = WriteMarker::Fate::not_applied;
  if (is_marked(step)) {
    Call call;
    call.cancel = wait_;
    fate = co_await marker_->find_fate(std::move(written.slot), call);
  }
  switch (fate) {
    case WriteMarker::Fate::applied:
      marker_->count();
      co_await settle_success(std::move(step), std::move(seen), Reply());
      break;
    case WriteMarker::Fate::not_applied:
      co_await remember(std::exchange(behind_, nullptr));
      repeat();
      break;
    case WriteMarker::Fate::unknown:
      marker_->abandon();
      written.reply.error = Errc::in_doubt;
      fail_all(std::exchange(batch_, {}), written.reply);
      break;
  }
}

// The parent is missing only if the slot, whose folder would have it too, stands elsewhere.
template <typename Kind>
Awaitable<void> ValueCore<Kind>::settle_refusal(const Step& step, Written written) {
  const bool changed = is_conflict(written);
  progress_ = Progress::idle;  // None of it was applied.
  const bool at_marker = is_marked(step) && written.index == 0;
  if (changed && at_marker) marker_->abandon();
  if (!changed) {
    written.reply.error = zk::rc::to_errc(written.code);
    if (written.code != zk::rc::quota_exceeded) written.reply.detail.clear();
    fail_all(std::exchange(batch_, {}), written.reply);
  }
  const bool creates = step.write == ValueWrite::create || step.write == ValueWrite::check_absent;
  if (creates && !at_marker && written.code == zk::rc::no_node) {
    const Reply made = co_await zk::ensure(client_, zk::parent_of(node_), CreateMode::container, acl_, new_wait());
    if (!made.ok() && !made.given_up && !made.failed(Errc::session_lost)) fail_all(std::exchange(batch_, {}), made);
  }
  co_await remember(std::exchange(behind_, nullptr));
  if (!at_marker) answer_the_refused(step.write, written.code);
  repeat();
}

template <typename Kind>
void ValueCore<Kind>::answer_the_refused(ValueWrite write, int code) {
  std::erase_if(batch_, [write, code](const std::shared_ptr<Part>& part) {
    const auto refusal = Kind::refusal(part->request, write, code);
    if (refusal) answer(*part, *refusal);
    return refusal.has_value();
  });
}

// Before those that came later.
template <typename Kind>
void ValueCore<Kind>::repeat() {
  progress_ = Progress::idle;
  Batch batch = std::exchange(batch_, {});
  for (const std::shared_ptr<Part>& part : batch) {
    if (part->withdrawn) part->fail(*part->withdrawn, *part->withdrawn);
  }
  std::erase_if(batch, [](const std::shared_ptr<Part>& part) { return part->ended; });
  waiting_.insert(waiting_.begin(), std::make_move_iterator(batch.begin()), std::make_move_iterator(batch.end()));
}

template <typename Kind>
void ValueCore<Kind>::answer_all(const Step& step) {
  const Batch batch = std::exchange(batch_, {});
  for (std::size_t i = 0; i < batch.size(); ++i)
    answer(*batch[i], step.answers[i]);
}

template <typename Kind>
void ValueCore<Kind>::answer_the_regardless(const Step& step, const Reply& failure) {
  const Batch batch = std::exchange(batch_, {});
  for (std::size_t i = 0; i < batch.size(); ++i)
    Kind::is_regardless(batch[i]->request) ? answer(*batch[i], step.answers[i]) : fail_all({batch[i]}, failure);
}

template <typename Kind>
void ValueCore<Kind>::answer(Part& part, const Answer& with) {
  Outcome outcome;
  outcome.answer = with;
  outcome.reply.error = with.error;
  outcome.reply.detail = with.why;
  part.end(std::move(outcome));
}

template <typename Kind>
void ValueCore<Kind>::fail_all(Batch batch, const Reply& reply) {
  for (const std::shared_ptr<Part>& part : batch) {
    Outcome outcome;
    outcome.reply = reply;
    part->end(std::move(outcome));
  }
}

template class ValueCore<CounterKind>;
template class ValueCore<LatchKind>;
template class ValueCore<SharedValueKind>;

}  // namespace zkrecipes::detail
