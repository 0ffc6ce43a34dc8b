// How a member becomes the primary, and ceases to be it.

#include <utility>

#include "recipes/kernel/single_node.hpp"
#include "recipes/replication/replica_core.hpp"
#include "recipes/replication/replica_format.hpp"

namespace zkrecipes::detail {

namespace {

constexpr auto after_lost_race = std::chrono::milliseconds(200);
constexpr auto after_refusal = std::chrono::seconds(5);

}  // namespace

bool passes_by_itself(Errc code) noexcept {
  switch (code) {
    case Errc::connection_loss:
    case Errc::in_doubt:
    case Errc::session_lost:
    case Errc::cancelled:
    case Errc::closed:
    case Errc::bad_version:
    case Errc::node_exists:
    case Errc::no_node: return true;
    default: return false;
  }
}

Awaitable<void> ReplicaCore::take_over() {
  const ReplicaState next = taken_over(*facts_.state, self_.id);
  SingleNodeSpec spec;
  spec.client = client_;
  spec.path = path_.str();
  spec.directory = layout_.primary;
  spec.name = "owner";
  spec.parent_mode = CreateMode::persistent;
  spec.acl = options_.acl;
  spec.operation = "replica take over";
  spec.watch_at_once = true;
  spec.revocable = false;
  spec.conditions.emplace_back(zkclient::Check{Path(layout_.member)});
  spec.changes = setting_state(Path(layout_.state), encode(next), version_);
  const std::int32_t version = state_version_after(version_);
  auto shared = std::make_shared<const SingleNodeSpec>(std::move(spec));
  Result<LeasePtr> taken = co_await contend_for_node(std::move(shared), self_.id, Patience::try_once, own_call());
  if (taken && *taken != nullptr) {
    begin_term(std::move(*taken), next, version);
    co_return;
  }
  if (over()) co_return;
  if (!taken && !passes_by_itself(taken.error().errc())) {
    show_problem(taken.error().errc(), taken.error().detail());
    co_await rest(after_refusal);
    co_return;
  }
  // Another one was quicker, or we saw an old state: the cache brings the news.
  co_await rest(after_lost_race);
}

void ReplicaCore::begin_term(LeasePtr lease, const ReplicaState& state, std::int32_t version) {
  const auto term = std::make_shared<LedTerm>(state.epoch, std::move(lease));
  term->members = ReplicaTerm(state);
  term->version = version;
  if (state.leaving.count() > 0) term->quiet_from = BootClock::now() + patience_with_readers(state.leaving);
  {
    const std::lock_guard lock(mutex_);
    term_ = term;
    problem_.reset();
    reads_.revoke();
  }
  zk::spawn(follow_term(shared_from_this(), term));
  show(ReplicaRole::primary);
}

Awaitable<void> ReplicaCore::follow_term(std::shared_ptr<ReplicaCore> self, LedTermPtr term) {
  co_await term->lease->over(Call());
  if (self->term_ == term) self->end_term();
  self->wake_.set();
}

void ReplicaCore::end_term() {
  LedTermPtr ended;
  {
    const std::lock_guard lock(mutex_);
    ended = std::exchange(term_, nullptr);
  }
  if (ended == nullptr) return;
  if (ended->lease->begin_release()) {
    // A lease tells of its loss by itself, and of its release nobody: but become_primary() may run, and wait for the end.
    client_->callbacks()->post([ended] { (void)ended->lease->grant().lost.request_stop(); }, true);
    ended->lease->remove_node();
  }
  waiting_.wake_all();
  wake_.set();
}

}  // namespace zkrecipes::detail
