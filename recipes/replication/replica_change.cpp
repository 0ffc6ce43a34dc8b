// How a primary changes who is in sync.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "recipes/replication/member_witnesses.hpp"
#include "recipes/replication/replica_core.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* not_primary = "it is not the primary, or not any more";
constexpr auto before_asking_again = std::chrono::milliseconds(100);

}  // namespace

struct ReplicaCore::Done {
  Wish wish;
  std::optional<Result<void>> result = {};
};

InSyncReplica ReplicaCore::find_member(const std::string& id, const std::string& storage) const {
  for (const ReplicaMember& member : members()) {
    if (member.id == id && member.storage == storage) return {member.id, member.storage, member.term};
  }
  throw no_such_member("replica expand", id, storage);
}

zkclient::Error ReplicaCore::no_such_member(const char* operation, const std::string& id,
                                            const std::string& storage) const {
  return error(Errc::no_node, operation, fmt::format("member {} with storage {} is not there", id, storage));
}

// One change after the other. It is carried out to its end, whoever gives up meanwhile: until then members count that
// need not.
Awaitable<Result<void>> ReplicaCore::change(std::shared_ptr<ReplicaCore> self, Wish wish, Call call) {
  const char* const operation = wish.operation;
  const LedTermPtr term = self->term_;
  if (term == nullptr) co_return self->error(Errc::not_held, operation, not_primary);
  if (wish.epoch != any_epoch && wish.epoch != term->members.state().epoch)
    co_return self->error(Errc::not_held, operation, fmt::format("it is not the primary of epoch {}", wish.epoch));
  const Waiting waiter(self->waiting_, self->client_->events(), call);
  const auto done = std::make_shared<Done>();
  done->wish = std::move(wish);
  bool begun = false;
  for (;;) {
    waiter->clear();
    if (!begun && !term->changing) {
      begun = true;
      term->changing = true;
      zk::spawn(carry_out(self, term, done));
    }
    if (done->result) co_return std::move(*done->result);
    if (!begun && self->term_ != term) co_return self->error(Errc::not_held, operation, not_primary);
    if (const auto failure = waiter->failure(self->client_->closing())) co_return self->error(*failure, operation);
    co_await waiter->wait();
  }
}

Awaitable<void> ReplicaCore::carry_out(std::shared_ptr<ReplicaCore> self, LedTermPtr term, std::shared_ptr<Done> done) {
  Result<void> result = co_await self->write(term, done);
  done->result.emplace(std::move(result));
  term->changing = false;
  self->waiting_.wake_all();
}

Awaitable<Result<void>> ReplicaCore::write(LedTermPtr term, std::shared_ptr<Done> done) {
  const Wish& wish = done->wish;
  const ReplicaState before = term->members.state();
  ReplicaState next = before;
  next.leaving = {};
  next = shrunk(std::move(next), wish.remove);
  if (wish.add) next = expanded(std::move(next), *wish.add);
  // Whom the primary before us took out may serve reads still.
  const BootClock::time_point quiet = wish.remove.empty() ? BootClock::time_point() : term->quiet_from;
  if (next.in_sync == before.in_sync) {
    co_await wait_for_readers(term, quiet);
    if (!term->held()) co_return error(Errc::not_held, wish.operation, not_primary);
    co_return Result<void>();
  }
  const std::chrono::milliseconds longest = next.leaving;
  // Of those that went before this change, the ones of this term were waited for.
  if (BootClock::now() < term->quiet_from) next.leaving = std::max(next.leaving, before.leaving);
  {
    const std::lock_guard lock(mutex_);
    term->members.sending(next);
  }
  Call call;
  call.bound = term->lease->session();
  for (;;) {
    Request all = zk::make_request(OpType::multi, layout_.state);
    all.operations = setting_state(Path(layout_.state), encode(next), term->version);
    all.operations.insert(all.operations.begin(), zkclient::Check{Path(term->lease->grant().path)});
    const std::size_t last = all.operations.size();
    if (wish.add) {
      Result<StandingMember> member = co_await added_member(wish, call);
      if (!member) {
        const std::lock_guard lock(mutex_);
        term->members.settle();
        co_return std::move(member).error();
      }
      all.operations.emplace_back(std::move(member->node));
      all.operations.emplace_back(std::move(member->witness));
    }
    Reply reply = co_await client_->perform(std::move(all), call);
    // It has reported another version; or it was gone, and is back, perhaps with another storage.
    if (wish.add && (reply.refused(last, zk::rc::bad_version) || reply.refused(last + 1, zk::rc::no_node))) continue;
    const bool changed = reply.refused(1, zk::rc::bad_version);
    Fate fate = reply.ok() ? Fate::committed : Fate::unknown;
    if (reply.unanswered() || changed) {
      Fate found = co_await find_fate(term, encode(next));
      fate = found;
      if (fate == Fate::untouched) continue;
    }
    if (fate == Fate::committed) break;
    // Members that may be in sync count as long as that is not known; but then this term is over.
    if (fate == Fate::broken || reply.refused(0, zk::rc::no_node) || reply.refused(1, zk::rc::no_node)) {
      if (term_ == term) end_term();
      co_return error(fate == Fate::broken ? Errc::foreign_node : Errc::not_held, wish.operation, not_primary);
    }
    if (reply.failed(Errc::session_lost) || reply.unanswered()) {
      co_return error(Errc::not_held, wish.operation, not_primary);
    }
    if (!reply.failed(Errc::closed)) {
      const std::lock_guard lock(mutex_);
      term->members.settle();
    }
    if (wish.add && reply.refused(last, zk::rc::no_node))
      co_return no_such_member(wish.operation, wish.add->id, wish.add->storage);
    co_return error(reply.cause(), wish.operation, reply.detail);
  }
  const BootClock::time_point committed = BootClock::now();
  term->version = state_version_after(term->version);
  {
    const std::lock_guard lock(mutex_);
    term->members.committed(next);
  }
  const auto silent = longest.count() > 0 ? committed + patience_with_readers(longest) : committed;
  co_await wait_for_readers(term, std::max(silent, quiet));
  if (!term->held()) co_return error(Errc::not_held, wish.operation, not_primary);
  const std::lock_guard lock(mutex_);
  term->members.settle();
  co_return Result<void>();
}

// The own view may lag behind, and a state must not name the storage of a member that has left.
Awaitable<Result<StandingMember>> ReplicaCore::added_member(const Wish& wish, Call call) {
  auto found = co_await find_standing_member(client_, path_, wish.add->id, wish.operation, std::move(call));
  if (!found && found.error().errc() == Errc::session_lost)
    co_return error(Errc::not_held, wish.operation, found.error().detail());
  const bool other = found ? found->member.storage != wish.add->storage : found.error().errc() == Errc::no_node;
  if (other) co_return no_such_member(wish.operation, wish.add->id, wish.add->storage);
  co_return found;
}

// After a change whose reply was lost, or that found another version. Behind a sync the state could be one from before a
// change that was made: then the member that it took in would not count.
Awaitable<ReplicaCore::Fate> ReplicaCore::find_fate(LedTermPtr term, std::string data) {
  Call call;
  call.bound = term->lease->session();
  for (;;) {
    Request get = zk::make_request(OpType::get, layout_.state);
    const Reply seen = co_await zk::fresh_by_quorum(client_, std::move(get), call);
    if (seen.ok()) {
      if (seen.stat.version == term->version) co_return Fate::untouched;
      const bool ours = seen.stat.version == state_version_after(term->version) && seen.data == data;
      co_return ours ? Fate::committed : Fate::broken;
    }
    if (seen.failed(Errc::no_node)) co_return Fate::broken;
    if (seen.failed(Errc::session_lost) || seen.failed(Errc::closed)) co_return Fate::unknown;
    co_await zk::pause_for(before_asking_again, client_->events(), call.bound);
  }
}

Awaitable<void> ReplicaCore::wait_for_readers(LedTermPtr term, BootClock::time_point until) {
  const auto left = until - BootClock::now();
  if (left.count() <= 0) co_return;
  Call call;
  call.deadline = std::chrono::steady_clock::now() + left;
  co_await term->lease->over(call);
}

Awaitable<Result<void>> ReplicaCore::resign(std::shared_ptr<ReplicaCore> self, Call call) {
  self->ended_->request();
  const LedTermPtr term = self->term_;
  self->end_term();
  self->wake_.set();
  if (term != nullptr) co_await term->lease->removed(call);
  co_return Result<void>();
}

}  // namespace zkrecipes::detail
