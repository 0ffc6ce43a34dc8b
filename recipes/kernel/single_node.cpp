#include "recipes/kernel/single_node.hpp"

#include <variant>

#include <fmt/format.h>

#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

namespace {

/// One attempt to get the node, in one session.
///
///   loop:  create both nodes, list, read and watch the wanted one: in one flight
///          decide_flight() -> claim | look: claim what is there, if anything | wait until it is gone, ...
///   claim: decide_claim()  -> clear up behind the predecessor, prove, grant | vanished: start over
class SingleNodeAttempt : public Attempt {
 public:
  using Value = LeasePtr;

  SingleNodeAttempt(SingleNodeSpecPtr spec, std::string data, Patience patience, Call call)
      : Attempt(spec->client, std::move(call), spec->operation, spec->path),
        spec_(std::move(spec)),
        data_(std::move(data)),
        patience_(patience),
        marker_(fmt::format("{}{}-", holding_prefix, zk::make_uuid())),
        holding_(zk::child_path(spec_->directory, marker_ + spec_->name)) {}
  ~SingleNodeAttempt() {
    if (leaves_nodes()) remove_in_background(client_, waiter_.session(), {holding_, spec_->node(), czxid_});
  }

  Awaitable<Outcome> run() {
    Reply reply = co_await waiter_.enter_to_hold();
    while (reply.ok()) {
      reply = co_await create();
      const FlightStep step = decide_flight(reply, node_, read_later_, spec_->conditions.size());
      const bool taken = step == FlightStep::wait || step == FlightStep::try_again;
      if (taken && patience_ == Patience::try_once) co_return Outcome::busy;
      switch (step) {
        case FlightStep::claim: co_return co_await claim();
        case FlightStep::look:
          reply = co_await look();
          if (reply.ok()) co_return co_await claim();
          if (reply.failed(Errc::no_node)) reply = Reply{};  // It was not made: make it again.
          break;
        case FlightStep::make_parents:
          reply = co_await zk::ensure(client_, spec_->directory, spec_->parent_mode, spec_->acl, waiter_.call());
          break;
        case FlightStep::wait: reply = co_await wait(); break;
        case FlightStep::try_again: reply = Reply{}; break;
        case FlightStep::refused: co_return refused(reply);
        case FlightStep::failed: reply.error = reply.cause(); break;
        case FlightStep::read_failed: reply = std::move(node_); break;
      }
    }
    co_return fail(std::move(reply));
  }

  LeasePtr take() const { return lease(); }

 private:
  Request creation() const {
    Request both = zk::make_request(OpType::multi, spec_->node());
    both.operations = spec_->conditions;
    both.operations.emplace_back(Transaction::Create{zkclient::Path(holding_),
                                                     spec_->holding_data.empty() ? data_ : spec_->holding_data,
                                                     CreateMode::ephemeral, spec_->acl});
    both.operations.emplace_back(
        Transaction::Create{zkclient::Path(spec_->node()), data_, CreateMode::ephemeral, spec_->acl});
    both.operations.insert(both.operations.end(), spec_->changes.begin(), spec_->changes.end());
    return both;
  }

  // Earlier tries of this attempt have made nothing: look() has found that out.
  Outcome refused(const Reply& reply) {
    const std::size_t index = reply.refusal()->index;
    const bool condition = index < spec_->conditions.size();
    const Transaction::Operation& operation =
        condition ? spec_->conditions[index] : spec_->changes[index - spec_->conditions.size() - own_creates];
    const std::string node =
        client_->stripped(std::visit([](const auto& of) -> const std::string& { return of.path.str(); }, operation));
    const std::string detail = fmt::format("its {} on {}", condition ? "condition" : "change", node);
    return fail(Error(reply.cause(), spec_->operation, spec_->path, detail, node));
  }

  // The reply to the create; node_ and listed_ are what was read after it, and present_ watches another holder's node.
  Awaitable<Reply> create() {
    // One flight: the server works off a session's requests in order, so what is read is what the create left.
    may_exist_ = true;
    const auto watch = waiter_.make_watch();
    const PendingReply creating = client_->launch(creation(), waiter_.call());
    // The list first: a former holder that is not in it can delete nothing of ours any more, so the node that is read
    // after it stays.
    const PendingReply listing = client_->launch(zk::make_request(OpType::children, spec_->directory), waiter_.call());
    const PendingReply getting =
        client_->launch_watching(zk::make_request(OpType::get, spec_->node()), waiter_.call(), watch->watch);
    Reply created = co_await creating.get();
    const zkclient::BootClock::time_point answered = zkclient::BootClock::now();
    listed_ = co_await listing.get();
    node_ = co_await getting.get();
    if (created.ok()) waiter_.keeper()->acknowledged(created.sent);
    read_later_ = listed_.sent > answered || node_.sent > answered;
    const FlightStep step = decide_flight(created, node_, read_later_, spec_->conditions.size());
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
    Reply found = co_await zk::find_marked(client_, spec_->directory, marker_, waiter_.call());
    if (found.failed(Errc::no_node)) co_return found;
    if (!found.ok()) {
      const bool over = found.failed(Errc::session_lost) || found.failed(Errc::closed);
      if (!over) found.error = Errc::in_doubt;
      co_return found;
    }
    czxid_ = found.stat.czxid;
    Request list = zk::make_request(OpType::children, spec_->directory);
    listed_ = co_await client_->perform(std::move(list), waiter_.call());
    Request get = zk::make_request(OpType::get, spec_->node());
    node_ = co_await client_->perform(std::move(get), waiter_.call());
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
        if (!cleared.ok()) co_return end(std::move(cleared));
        break;
      }
      case ClaimStep::vanished: co_return Outcome::vanished;
      case ClaimStep::wanted_failed: co_return fail(std::move(node_));
      case ClaimStep::list_failed: co_return fail(std::move(listed_));
    }
    co_return co_await prove_and_grant(existence_check(holding_, spec_->node()), make_grant());
  }

  std::string_view own_name() const { return zk::name_of(holding_); }

  // A former holder may have lost the wanted node alone, to an operator's delete. Its second node then lets it pass for
  // the holder, and it may have deleted our node with its own. So its second node goes first; then a check tells
  // whether ours is still there. no_node: it is not.
  Awaitable<Reply> clear_up() {
    for (const std::string& name : listed_.names) {
      if (!is_others(name, own_name(), spec_->name)) continue;
      std::string path = zk::child_path(spec_->directory, name);
      Reply removed;
      do {
        Request remove = zk::make_request(OpType::remove, path);
        removed = co_await client_->perform(std::move(remove), waiter_.call());
      } while (removed.unanswered());
      if (!removed.ok() && !removed.failed(Errc::no_node)) co_return removed;
    }
    Request own_nodes = existence_check(holding_, spec_->node());
    Reply there = co_await waiter_.check(std::move(own_nodes));
    co_return there;
  }

  LeaseCore::Grant make_grant() const {
    LeaseCore::Grant grant = Attempt::make_grant(holding_, czxid_);
    grant.companion = spec_->node();
    grant.data = data_;
    grant.watch_at_once = spec_->watch_at_once;
    grant.revocable = spec_->revocable;
    return grant;
  }

  const SingleNodeSpecPtr spec_;
  const std::string data_;
  const Patience patience_;
  const std::string marker_;
  const std::string holding_;  // Full path of the node that is ours alone.
  bool read_later_ = false;    // Not in the order in which it was sent.
  std::int64_t czxid_ = 0;
  Reply node_;    // The wanted node, as read after the create.
  Reply listed_;  // The directory, likewise.
  std::shared_ptr<Waiter::NodeWatch> present_;
};

}  // namespace

std::string SingleNodeSpec::node() const { return zk::child_path(directory, name); }

bool was_refused(const Error& error) noexcept { return !error.node().empty(); }

Awaitable<Result<LeasePtr>> contend_for_node(SingleNodeSpecPtr spec, std::string data, Patience patience, Call call) {
  const bool requeue = spec->requeue_on_session_loss;
  auto make = [spec = std::move(spec), data = std::move(data), patience, call = std::move(call)] {
    return std::make_unique<SingleNodeAttempt>(spec, data, patience, call);
  };
  return drive(std::move(make), requeue);
}

Awaitable<Result<std::optional<Contender>>> read_holder(SingleNodeSpecPtr spec, std::string operation, Call call) {
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
    looks.push_back(
        spec->client->launch(zk::make_request(OpType::exists, zk::child_path(spec->directory, name)), call));
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
