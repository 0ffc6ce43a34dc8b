#include "recipes/kernel/single_node.hpp"

#include <fmt/format.h>

#include "recipes/kernel/refusal.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/kernel/waiter.hpp"
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
using zkclient::Result;
using zkclient::Transaction;

namespace {

/// One attempt to get the node, in one session.
///
///   loop:  create both nodes, list, read and watch the wanted one: in one flight
///          decide_flight() -> claim | look: claim what is there, if anything | wait until it is gone, ...
///   claim: decide_claim()  -> clear up behind the predecessor, prove, grant | vanished: start over
///
/// Destroyed without a grant, it has its nodes removed in the background.
class Attempt {
 public:
  enum class Outcome { granted, busy, vanished, failed };

  Attempt(SingleNodePtr spec, std::string data, Call call)
      : spec_(std::move(spec)),
        data_(std::move(data)),
        marker_(fmt::format("{}{}-", holding_prefix, zk::make_uuid())),
        holding_(child_path(spec_->directory, marker_ + spec_->name)),
        waiter_(spec_->client, std::move(call)) {}
  ~Attempt() {
    if (!may_exist_ || outcome_ == Outcome::granted) return;
    remove_in_background(spec_->client, waiter_.session(), {holding_, spec_->node(), czxid_});
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  Awaitable<Outcome> run(Patience patience) {
    outcome_ = Outcome::failed;
    Reply reply = co_await waiter_.enter_to_hold();
    if (!reply.ok()) co_return fail(std::move(reply));
    for (;;) {
      reply = co_await create();
      const FlightStep step = decide_flight(reply, node_, read_later_);
      const bool taken = step == FlightStep::wait || step == FlightStep::try_again;
      if (taken && patience == Patience::try_once) co_return outcome_ = Outcome::busy;
      switch (step) {
        case FlightStep::claim: co_return co_await claim();
        case FlightStep::look:
          reply = co_await look();
          if (reply.ok()) co_return co_await claim();
          if (reply.failed(Errc::no_node)) continue;
          break;
        case FlightStep::make_parents:
          reply = co_await spec_->client->ensure(spec_->directory, spec_->parent_mode, spec_->acl, waiter_.call());
          break;
        case FlightStep::wait: reply = co_await wait(); break;
        case FlightStep::try_again: continue;
        case FlightStep::failed:
          if (reply.failed(Errc::transaction_failed)) reply.error = refusal_of(reply);
          break;
        case FlightStep::read_failed: reply = std::move(node_); break;
      }
      if (!reply.ok()) co_return fail(std::move(reply));
    }
  }

  const LeasePtr& lease() const noexcept { return lease_; }
  const Reply& failure() const noexcept { return failure_; }

 private:
  Outcome fail(Reply reply) {
    // What is in doubt is only our own nodes, and they will be removed.
    if (reply.failed(Errc::in_doubt)) reply.error = reply.given_up.value_or(Errc::connection_loss);
    failure_ = std::move(reply);
    return outcome_ = Outcome::failed;
  }

  Request creation() const {
    Request both = zk::make_request(OpType::multi, spec_->node());
    both.operations.emplace_back(
        Transaction::Create{zkclient::Path(holding_), data_, CreateMode::ephemeral, spec_->acl});
    both.operations.emplace_back(
        Transaction::Create{zkclient::Path(spec_->node()), data_, CreateMode::ephemeral, spec_->acl});
    return both;
  }

  // The reply to the create; node_ and listed_ are what was read after it, and present_ watches a node of somebody else.
  Awaitable<Reply> create() {
    // One flight: the server works off a session's requests in order, so what is read is what the create left.
    may_exist_ = true;
    const auto watch = waiter_.make_watch();
    const PendingReply creating = spec_->client->launch(creation(), waiter_.call());
    // The list first: whoever is not in it can delete nothing of ours any more, so the node that is read after it stays.
    const PendingReply listing =
        spec_->client->launch(zk::make_request(OpType::children, spec_->directory), waiter_.call());
    const PendingReply getting =
        spec_->client->launch_watching(zk::make_request(OpType::get, spec_->node()), waiter_.call(), watch->watch);
    Reply created = co_await creating.get();
    const zkclient::BootClock::time_point answered = zkclient::BootClock::now();
    listed_ = co_await listing.get();
    node_ = co_await getting.get();
    if (created.ok()) waiter_.keeper()->acknowledged(created.sent);
    read_later_ = listed_.sent > answered || node_.sent > answered;
    const FlightStep step = decide_flight(created, node_, read_later_);
    may_exist_ = step == FlightStep::claim || step == FlightStep::look || created.failed(Errc::in_doubt);
    present_ = step == FlightStep::wait ? watch : nullptr;
    if (present_ != nullptr) present_->node = node_;
    co_return created;
  }

  Awaitable<Reply> wait() {
    Reply proven = co_await waiter_.stay_proven(spec_->directory);
    if (!proven.ok()) co_return proven;
    const std::string node = spec_->node();
    Reply gone = co_await waiter_.wait_until_gone(node, "held by", std::move(present_));
    co_return gone;
  }

  // If one of our nodes is there, so was the other. It proves nothing; see prove(). no_node: neither is.
  Awaitable<Reply> look() {
    Reply found = co_await spec_->client->find_marked(spec_->directory, marker_, waiter_.call());
    if (found.failed(Errc::no_node)) co_return found;
    if (!found.ok()) {
      const bool over = found.failed(Errc::session_lost) || found.failed(Errc::closed);
      if (!over) found.error = Errc::in_doubt;
      co_return found;
    }
    czxid_ = found.stat.czxid;
    Request list = zk::make_request(OpType::children, spec_->directory);
    listed_ = co_await spec_->client->perform(std::move(list), waiter_.call());
    Request get = zk::make_request(OpType::get, spec_->node());
    node_ = co_await spec_->client->perform(std::move(get), waiter_.call());
    co_return found;
  }

  // Both nodes were created.
  Awaitable<Outcome> claim() {
    const ClaimStep step = decide_claim({node_, listed_, waiter_.session()->id(), czxid_, own_name(), spec_->name});
    const bool ours = step != ClaimStep::vanished && step != ClaimStep::wanted_failed;
    if (ours) czxid_ = node_.stat.czxid;
    switch (step) {
      case ClaimStep::prove: break;
      case ClaimStep::clear_up: {
        Reply cleared = co_await clear_up();
        if (cleared.failed(Errc::no_node)) co_return outcome_ = Outcome::vanished;
        if (!cleared.ok()) co_return fail(std::move(cleared));
        break;
      }
      case ClaimStep::vanished: co_return outcome_ = Outcome::vanished;
      case ClaimStep::wanted_failed: co_return fail(std::move(node_));
      case ClaimStep::list_failed: co_return fail(std::move(listed_));
    }
    Request own_nodes = existence_check(holding_, spec_->node());
    Reply proven = co_await waiter_.prove(std::move(own_nodes));
    if (proven.failed(Errc::no_node)) co_return outcome_ = Outcome::vanished;
    if (!proven.ok()) co_return fail(std::move(proven));
    grant();
    co_return outcome_ = Outcome::granted;
  }

  std::string_view own_name() const { return std::string_view(holding_).substr(holding_.rfind('/') + 1); }

  // Whoever had the wanted node before has it no more, but what says so may still be there, and let it pass for the
  // holder: somebody deleted the wanted node alone. It may have used that already, and deleted ours with its own; so
  // when it cannot any more, see that ours is still there. no_node: it is not.
  Awaitable<Reply> clear_up() {
    for (const std::string& name : listed_.names) {
      if (!is_others(name, own_name(), spec_->name)) continue;
      std::string path = child_path(spec_->directory, name);
      Reply removed;
      do {
        Request remove = zk::make_request(OpType::remove, path);
        removed = co_await spec_->client->perform(std::move(remove), waiter_.call());
      } while (removed.failed(Errc::in_doubt) && !removed.given_up);
      if (!removed.ok() && !removed.failed(Errc::no_node)) co_return removed;
    }
    Request own_nodes = existence_check(holding_, spec_->node());
    Reply there = co_await waiter_.check(std::move(own_nodes));
    co_return there;
  }

  void grant() {
    LeaseCore::Grant grant;
    grant.client = spec_->client;
    grant.session = waiter_.session();
    grant.keeper = waiter_.keeper();
    grant.path = holding_;
    grant.companion = spec_->node();
    grant.czxid = czxid_;
    grant.data = data_;
    grant.watch_at_once = spec_->watch_at_once;
    lease_ = std::make_shared<LeaseCore>(std::move(grant));
    lease_->begin();
  }

  const SingleNodePtr spec_;
  const std::string data_;
  const std::string marker_;
  const std::string holding_;  // Full path of the node that is ours alone.
  Waiter waiter_;
  bool may_exist_ = false;   // The create was sent and not refused.
  bool read_later_ = false;  // Not in the order in which it was sent.
  std::int64_t czxid_ = 0;
  Reply node_;    // The wanted node, as read after the create.
  Reply listed_;  // The directory, likewise.
  std::shared_ptr<Waiter::NodeWatch> present_;
  Outcome outcome_ = Outcome::failed;
  Reply failure_;
  LeasePtr lease_;
};

}  // namespace

std::string SingleNodeSpec::node() const { return child_path(directory, name); }

Awaitable<Result<LeasePtr>> contend_for_node(SingleNodePtr spec, std::string data, Patience patience, Call call) {
  for (;;) {
    // On the heap: what it leaves to its wake-ups must not move.
    const auto attempt = std::make_unique<Attempt>(spec, data, call);
    const Attempt::Outcome outcome = co_await attempt->run(patience);
    switch (outcome) {
      case Attempt::Outcome::granted: co_return attempt->lease();
      case Attempt::Outcome::busy: co_return LeasePtr();
      case Attempt::Outcome::vanished: continue;
      case Attempt::Outcome::failed: break;
    }
    const Reply& failure = attempt->failure();
    if (failure.failed(Errc::session_lost) && spec->requeue_on_session_loss) continue;
    co_return zk::to_error(failure, spec->operation, spec->path);
  }
}

Awaitable<Result<std::optional<Contender>>> read_holder(SingleNodePtr spec, std::string operation, Call call) {
  const PendingReply getting = spec->client->launch(zk::make_request(OpType::get, spec->node()), call);
  const PendingReply listing = spec->client->launch(zk::make_request(OpType::children, spec->directory), call);
  Reply node = co_await getting.get();
  Reply listed = co_await listing.get();
  if (node.failed(Errc::no_node)) co_return std::optional<Contender>();
  if (!node.ok()) co_return zk::to_error(node, operation, spec->path);
  Contender holder;
  holder.node = spec->name;
  holder.data = std::move(node.data);
  holder.session_id = node.stat.ephemeral_owner;
  holder.since = std::chrono::system_clock::time_point(std::chrono::milliseconds(node.stat.ctime_ms));
  holder.token = {node.stat.czxid};
  holder.holds = true;
  // Its second node is the one made by the same transaction; others of that kind are left over.
  std::vector<std::string> candidates;
  std::vector<PendingReply> looks;
  for (const std::string& name : listed.names) {
    if (!is_holding(name, spec->name)) continue;
    looks.push_back(spec->client->launch(zk::make_request(OpType::exists, child_path(spec->directory, name)), call));
    candidates.push_back(name);
  }
  for (std::size_t i = 0; i < looks.size(); ++i) {
    Reply look = co_await looks[i].get();
    if (!look.ok() && !look.failed(Errc::no_node)) co_return zk::to_error(look, operation, spec->path);
    if (look.ok() && look.stat.czxid == node.stat.czxid) holder.node = candidates[i];
  }
  co_return std::optional<Contender>(std::move(holder));
}

}  // namespace zkrecipes::detail
