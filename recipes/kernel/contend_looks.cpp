#include <algorithm>
#include <chrono>

#include "recipes/kernel/contend_attempt.hpp"
#include "recipes/kernel/sequence.hpp"
#include "zkclient/detail/recipe_probes.hpp"

/// The waits of a contender, and the reads that follow them.
namespace zkrecipes::detail {

namespace {

/// With so many contenders a list costs more than a record. (A record gains nothing below about a hundred.)
constexpr std::size_t many_contenders = 100;
/// After so long a waiter does not know how many contenders there are by now. So it looks for a record first, and
/// leaves one to its successor if there is one: only the first waiter of such a row pays for a look in vain.
constexpr auto long_wait = std::chrono::milliseconds(50);

}  // namespace

// The facts about the contenders in a list, or a record.
void ContendAttempt::learn(Reply& listed) {
  listed_at_ = listed.sent;
  children_ = std::move(listed.names);
  crowded_ = long_list_ = lists_contenders(many_contenders);
  // What the directory's node holds is known if it is nothing, or what was read there before.
  const bool known = listed.stat.data_length == 0 || record_version_ == listed.stat.version;
  record_version_ = known ? std::optional(listed.stat.version) : std::nullopt;
}

// There may be any number of other children.
bool ContendAttempt::lists_contenders(std::size_t least) const {
  if (children_.size() < least) return false;
  const auto contends = [&](const std::string& child) {
    return sequence_of(child, spec_->names.exclusive).has_value();
  };
  return static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(), contends)) >= least;
}

Awaitable<Reply> ContendAttempt::list_again() {
  Reply listed = co_await list();
  if (listed.ok()) learn(listed);
  co_return listed;
}

Awaitable<Reply> ContendAttempt::wait_for(const WaitStep step) {
  list_is_new_ = false;
  if (step.last_obstacle) {  // The next one: its lease may begin at any time.
    Reply proven = co_await waiter_.stay_proven(spec_->directory);
    if (!proven.ok()) co_return proven;
  }
  if (spec_->look_ahead && !step.last_obstacle) {
    Reply ahead = co_await look_ahead(step);
    if (!ahead.ok() || list_is_new_) co_return ahead;
  }
  std::shared_ptr<Waiter::NodeWatch> armed = near_node_ == step.node ? std::move(near_) : nullptr;
  near_ = nullptr;
  children_ = std::vector<std::string>();  // Thousands of waiters need not keep a list of thousands each.
  std::string_view relation = "waits behind others, next";
  if (step.last_obstacle) relation = spec_->internal ? "waits behind" : "held by";
  const std::string former = zk::child_path(spec_->directory, step.node);
  Reply gone = co_await waiter_.wait_until_gone(former, relation, std::move(armed));
  if (gone.ok() && step.last_obstacle) zk::probe::hand_over(former, node_.path, waiter_.session()->id());
  co_return gone;
}

LookFacts ContendAttempt::facts_after(const WaitStep& former) const {
  const std::shared_ptr<zk::SessionState>& session = waiter_.session();
  const auto now = zkclient::BootClock::now();
  LookFacts facts;
  facts.last_obstacle = former.last_obstacle;
  facts.session_is_proven = now + session->timeout() / 6 < session->valid_until();
  facts.list_is_young = now - listed_at_ < spec_->trusts_list;
  facts.record_expected = spec_->hands_over && (long_list_ || std::chrono::steady_clock::now() - entered_ > long_wait);
  return facts;
}

Awaitable<Reply> ContendAttempt::look_again(const WaitStep former) {
  if (list_is_new_) co_return Reply{};
  const NextLook next = decide_next_look(facts_after(former));
  const bool checked = next.own_node == NextLook::OwnNode::checked;
  Request own_node;
  PendingReply looking;
  if (next.own_node != NextLook::OwnNode::known) {
    own_node = checked ? existence_check(node_.path) : zk::make_request(OpType::exists, node_.path);
    looking = client_->launch(own_node, waiter_.call());
  }
  Reply learned;
  switch (next.others) {
    case NextLook::Others::none: children_ = {std::string(name())}; break;
    case NextLook::Others::record: learned = co_await read_record(former); break;
    case NextLook::Others::list: learned = co_await list_again(); break;
  }
  if (next.own_node == NextLook::OwnNode::known) co_return learned;
  Reply present = co_await looking.get();
  if (checked) present = co_await waiter_.checked(own_node, std::move(present));
  co_return present.ok() ? std::move(learned) : std::move(present);
}

// After `former.node` has gone: was it the first contender, as we know or as it has said? Else the list tells.
Awaitable<Reply> ContendAttempt::read_record(const WaitStep former) {
  Request get = zk::make_request(OpType::get, spec_->directory);
  Reply record = co_await client_->perform(std::move(get), waiter_.call());
  if (!record.ok()) co_return record;
  if (former.last_obstacle || record.data == former.node) {
    children_ = {std::string(name())};
    crowded_ = record.stat.children_count > 1;
  } else {
    Reply listed = co_await list_again();
    if (!listed.ok()) co_return listed;
    crowded_ = lists_contenders(2);
  }
  const bool ours = record.data.empty() || sequence_of(record.data, spec_->names.exclusive).has_value();
  record_version_ = ours ? std::optional(record.stat.version) : std::nullopt;
  co_return record;
}

// Watches `step.node` and the one before it. When the latter goes first, the list is read while the former still holds
// (list_is_new_), so that its end may be the grant.
Awaitable<Reply> ContendAttempt::look_ahead(const WaitStep step) {
  std::erase(children_, step.node);
  const WaitStep beyond = decide_wait(children_, name(), spec_->names);
  children_ = std::vector<std::string>();
  if (beyond.kind != WaitStep::Kind::watch) co_return Reply{};
  const auto far = waiter_.make_watch();
  PendingReply near_seen;
  const bool arms = near_ == nullptr || near_node_ != step.node;
  if (arms) {
    near_ = waiter_.make_watch();
    near_node_ = step.node;
    near_seen = watch(step.node, near_);
  }
  const PendingReply far_seen = watch(beyond.node, far);
  Reply seen;
  if (arms) {
    seen = co_await near_seen.get();
    if (seen.ok()) near_->node = seen;
  }
  Reply seen_beyond = co_await far_seen.get();
  if (!seen.ok()) {
    near_ = nullptr;
    if (seen.failed(Errc::no_node)) seen = Reply{};  // The next wait finds the node missing.
    co_return seen;
  }
  if (seen_beyond.ok()) {
    std::vector<std::shared_ptr<Waiter::NodeWatch>> both = {near_, far};
    Reply waited = co_await waiter_.any_fired(std::move(both));
    if (!waited.ok() || near_->event) co_return waited;
  } else if (!seen_beyond.failed(Errc::no_node)) {
    co_return seen_beyond;
  }
  Reply listed = co_await list_again();
  list_is_new_ = listed.ok();
  co_return listed;
}

PendingReply ContendAttempt::watch(const std::string& node, const std::shared_ptr<Waiter::NodeWatch>& watch) {
  Request get = zk::make_request(OpType::get, zk::child_path(spec_->directory, node));
  return client_->launch_watching(std::move(get), waiter_.call(), watch->watch);
}

}  // namespace zkrecipes::detail
