#include "recipes/replication/replica_core.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/replication/replica_format.hpp"

namespace zkrecipes::detail {

namespace {

constexpr auto after_failure = std::chrono::milliseconds(200);

std::vector<ReplicaMember> members_in(const Snapshot& nodes) {
  std::vector<ReplicaMember> members;
  for (const CachedNodePtr& node : nodes.children("members")) {
    if (auto member = decode_replica_member(node->name, node->data)) members.push_back(std::move(*member));
  }
  return members;
}

}  // namespace

void RoleBacklog::call(const RoleNewsPtr& news) {
  switch (news->role) {
    case ReplicaRole::primary: {
      PrimaryTerm term;
      term.epoch = news->led->epoch;
      term.in_sync = news->in_sync;
      term.token = news->led->lease->token();
      term.lost = news->led->lease->lost();
      handlers_.become_primary(term);
      news->led->ready = true;
      return;
    }
    case ReplicaRole::secondary:
    case ReplicaRole::out:
      if (news->secondary.epoch > 0) {
        handlers_.become_secondary(news->secondary);
        return;
      }
      break;
    default: break;
  }
  if (handlers_.become_idle) handlers_.become_idle(news->role);
}

ReplicaLayout::ReplicaLayout(const zk::ClientCore& client, const Path& path, const std::string& id)
    : state(client.full(path / "state")),
      member(zk::child_path(client.full(path / "members"), id)),
      primary(client.full(path / "primary")) {}

ReplicaCore::ReplicaCore(std::shared_ptr<zk::ClientCore> client, Path path, Replica self, ReplicaGroupOptions options)
    : client_(std::move(client)),
      path_(std::move(path)),
      self_(std::move(self)),
      options_(std::move(options)),
      layout_(*client_, path_, self_.id),
      wake_(client_->events()),
      reads_changed_(client_->events()) {}

void ReplicaCore::begin(ReplicaHandlers handlers) {
  told_by_ = handlers_->add(client_->callbacks(), RoleBacklog(std::move(handlers)));
  const auto begin = [self = shared_from_this()] {
    zk::spawn(run(self));
    zk::spawn(renew_reads(self));
  };
  if (!client_->loop()->post(begin)) throw Error(client_->loop()->refusal(), replica_group, path_.str());
}

// --- From any thread ------------------------------------------------------------------------------------------------

ReplicaRole ReplicaCore::role() const noexcept {
  if (process_.forked()) return ReplicaRole::left;
  const std::lock_guard lock(mutex_);
  return role_;
}

std::optional<Error> ReplicaCore::problem() const {
  if (process_.forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  return problem_;
}

std::optional<ReplicaState> ReplicaCore::state() const {
  if (process_.forked()) return std::nullopt;
  const std::lock_guard lock(mutex_);
  if (term_ != nullptr) return term_->members.state();  // The cache lags behind our own writes.
  return facts_.state;
}

std::vector<ReplicaMember> ReplicaCore::members() const {
  if (process_.forked()) return {};
  Snapshot nodes;
  {
    const std::lock_guard lock(mutex_);
    if (!nodes_) return {};
    nodes = *nodes_;
  }
  return members_in(nodes);
}

bool ReplicaCore::may_write() const noexcept {
  if (process_.forked()) return false;
  const std::lock_guard lock(mutex_);
  if (term_ == nullptr || !term_->ready || BootClock::now() < term_->quiet_from) return false;
  const ReplicaState& state = term_->members.state();
  return state.in_sync.size() >= state.minimum && term_->held();
}

bool ReplicaCore::may_serve_reads() const noexcept {
  if (process_.forked()) return false;
  const std::lock_guard lock(mutex_);
  if (term_ != nullptr) return term_->ready && term_->held();
  return reads_.valid(BootClock::now());
}

std::vector<InSyncReplica> ReplicaCore::in_sync() const {
  if (process_.forked()) return {};
  const std::lock_guard lock(mutex_);
  return term_ != nullptr && term_->held() ? term_->members.counted() : std::vector<InSyncReplica>();
}

std::string ReplicaCore::payload(std::uint64_t version) const {
  ReplicaMember member = self_as_member();
  member.version = version;
  return encode(member);
}

ReplicaMember ReplicaCore::self_as_member() const {
  ReplicaMember member{self_.id, self_.storage, options_.read_term, 0, self_.address};
  if (member.term.count() == 0) member.term = client_->options().session_timeout * 7 / 12;
  return member;
}

Error ReplicaCore::error(Errc code, const char* operation, std::string_view detail) const {
  return Error(code, operation, path_.str(), detail);
}

void ReplicaCore::wake() {
  client_->loop()->post([weak = weak_from_this()] {
    if (const auto self = weak.lock()) self->wake_.set();
  });
}

void ReplicaCore::close() {
  if (process_.forked()) return;
  {
    const std::lock_guard lock(mutex_);
    reads_.revoke();
  }
  client_->loop()->post([self = shared_from_this()] {
    self->ended_->request();
    self->end_term();
    self->wake_.set();
    self->reads_changed_.set();
    self->waiting_.wake_all();
  });
  handlers_->stop();
}

void ReplicaCore::wait_for_handlers() {
  if (!process_.forked() && !handlers_->runs_here()) handlers_->wait();
}

void ReplicaCore::see(const Snapshot& nodes) {
  {
    const std::lock_guard lock(mutex_);
    if (nodes_ && nodes_->revision() >= nodes.revision()) return;
    nodes_ = nodes;
  }
  wake();
}

void ReplicaCore::see(CacheState state) {
  {
    const std::lock_guard lock(mutex_);
    cache_ = state;
  }
  wake();
}

void ReplicaCore::see(PresenceState state) {
  {
    const std::lock_guard lock(mutex_);
    presence_ = state;
  }
  wake();
}

// --- Looking --------------------------------------------------------------------------------------------------------

bool ReplicaCore::look() {
  Snapshot nodes;
  {
    const std::lock_guard lock(mutex_);
    if (!nodes_) return false;
    nodes = *nodes_;
  }
  ReplicaFacts facts;
  const CachedNode* state = nodes.find("state");
  ReplicaDefect defect = ReplicaDefect::none;
  if (state != nullptr) facts.state = read_replica_state(state->data, state->stat.version, defect);
  facts.members = members_in(nodes);
  facts.owned = nodes.exists("primary/owner");
  if (!facts.owned && free_epoch_ != (facts.state ? facts.state->epoch : 0)) {
    free_epoch_ = facts.state ? facts.state->epoch : 0;
    free_since_ = std::chrono::steady_clock::now();
  }
  if (facts.owned) free_epoch_.reset();
  version_ = state != nullptr ? state->stat.version : 0;
  {
    const std::lock_guard lock(mutex_);
    facts.founded = facts_.founded || state != nullptr;
    facts_ = std::move(facts);
  }
  see_read_right();
  if (defect != ReplicaDefect::none) {
    show_state_problem(Errc::foreign_node, fmt::format("{}: {}", (path_ / "state").str(), to_string(defect)));
  } else if (facts_.founded && !facts_.state) {
    show_state_problem(Errc::no_node, fmt::format("{} was removed", (path_ / "state").str()));
  } else if (std::exchange(state_problem_, false)) {
    clear_problem();
  }
  return true;
}

// --- Running --------------------------------------------------------------------------------------------------------

Call ReplicaCore::own_call() const {
  Call call;
  call.cancel = ended_;
  return call;
}

Awaitable<void> ReplicaCore::rest(std::chrono::milliseconds limit) {
  return wake_.wait(std::chrono::steady_clock::now() + limit);
}

// With its client.
bool ReplicaCore::closed() const {
  const std::lock_guard lock(mutex_);
  return cache_ == CacheState::closed || presence_ == PresenceState::left;
}

bool ReplicaCore::present() const {
  const std::lock_guard lock(mutex_);
  return presence_ == PresenceState::present;
}

Awaitable<void> ReplicaCore::run(std::shared_ptr<ReplicaCore> self) {
  while (!self->over()) {
    self->wake_.clear();
    if (self->closed()) break;
    if (!self->look()) {
      co_await self->wake_.wait(std::nullopt);
      continue;
    }
    ReplicaFacts facts = self->facts_;
    facts.present = self->present();
    if (self->term_ != nullptr) facts.term = self->term_->epoch;
    const ReplicaDecision decision = decide_replica(self->self_as_member(), facts);
    co_await self->act(decision);
  }
  self->ended_->request();
  self->end_term();
  self->reads_changed_.set();
  self->waiting_.wake_all();
  self->show(ReplicaRole::left);
}

Awaitable<void> ReplicaCore::act(ReplicaDecision decision) {
  std::optional<std::chrono::steady_clock::time_point> until;
  switch (decision.step) {
    case ReplicaStep::join:
    case ReplicaStep::give_up: show(ReplicaRole::joining); break;
    case ReplicaStep::found: co_await found(); co_return;
    case ReplicaStep::lead: show(ReplicaRole::primary); break;
    case ReplicaStep::step_down: end_term(); co_return;
    case ReplicaStep::follow:
      clear_problem();
      show(ReplicaRole::secondary);
      break;
    case ReplicaStep::catch_up:
    case ReplicaStep::wait:
      clear_problem();
      show(ReplicaRole::out);
      break;
    case ReplicaStep::unavailable:
      show_problem(Errc::not_available, "no member that is in sync is there");
      show(ReplicaRole::out);
      break;
    case ReplicaStep::stand_by:
      show(ReplicaRole::candidate);
      until = free_since_ + options_.settle * static_cast<int>(decision.rank);
      if (std::chrono::steady_clock::now() < *until) break;
      co_await take_over();
      co_return;
    case ReplicaStep::take_over:
      show(ReplicaRole::candidate);
      co_await take_over();
      co_return;
  }
  co_await wake_.wait(until);
}

// The first member makes the state, with itself in sync: nothing was ever acknowledged.
Awaitable<void> ReplicaCore::found() {
  const Call call = own_call();
  Request create = zk::make_request(OpType::create, layout_.state);
  create.data = encode(first_state(self_as_member(), options_.minimum));
  create.acl = options_.acl;
  const Reply made = co_await client_->perform(std::move(create), call);
  if (!made.ok() && !made.failed(Errc::node_exists) && !over()) {
    if (!passes_by_itself(made.cause())) show_problem(made.cause(), made.detail);
    co_await rest(after_failure);
    co_return;
  }
  co_await wake_.wait(std::nullopt);
}

// --- Showing --------------------------------------------------------------------------------------------------------

void ReplicaCore::show(ReplicaRole role) {
  RoleNews news;
  news.role = role;
  {
    const std::lock_guard lock(mutex_);
    role_ = role;
    if (role == ReplicaRole::primary) {
      news.led = term_;
      news.in_sync = term_->members.counted();
    }
    const bool follows = (role == ReplicaRole::secondary || role == ReplicaRole::out) && facts_.owned && facts_.state;
    if (follows) {
      news.secondary = {facts_.state->epoch, facts_.state->primary, "", role == ReplicaRole::secondary};
      for (const ReplicaMember& member : facts_.members) {
        if (member.id == news.secondary.primary) news.secondary.address = member.address;
      }
    }
  }
  if (told_ != nullptr && told_->same(news)) return;
  told_ = std::make_shared<const RoleNews>(std::move(news));
  handlers_->tell(told_);
}

void ReplicaCore::show_problem(Errc code, std::string detail) {
  const std::lock_guard lock(mutex_);
  problem_ = error(code, replica_group, detail);
}

void ReplicaCore::show_state_problem(Errc code, std::string detail) {
  show_problem(code, std::move(detail));
  state_problem_ = true;
}

void ReplicaCore::clear_problem() {
  const std::lock_guard lock(mutex_);
  problem_.reset();
}

}  // namespace zkrecipes::detail
