#include "recipes/barriers/round_place.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/barriers/round_decider.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/waiter.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using std::chrono::steady_clock;
using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::PendingReply;
using zk::Reply;
using zk::Request;
using zkclient::Check;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;

namespace {

constexpr const char* entering = "double barrier enter";
constexpr const char* leaving = "double barrier leave";
// How long a call whose time is over may take to withdraw in a way that tells whether a round has begun with it.
constexpr auto last_word = std::chrono::milliseconds(500);

std::string_view name_in(const std::string& path) { return std::string_view(path).substr(path.rfind('/') + 1); }

/// One attempt to come in, with one node in one session.
///
///   create own node
///   loop:  read the roster and the list -> decide_round()
///          entered: prove, grant | begin: write the roster | too few, extra: wait | vanished: start over
///
/// Destroyed without a grant, it has its node removed in the background.
class Attempt {
 public:
  enum class Outcome { entered, vanished, failed };

  Attempt(RoundSpecPtr spec, Call call)
      : spec_(std::move(spec)), client_(spec_->client), waiter_(client_, std::move(call)) {}
  ~Attempt() {
    if (!may_exist_ || outcome_ == Outcome::entered) return;
    if (node_.path.empty()) {
      client_->delete_marked_in_background(spec_->directory, marker_, waiter_.session());
    } else {
      client_->delete_in_background(node_.path, waiter_.session());
    }
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  Awaitable<Outcome> run() {
    outcome_ = Outcome::failed;
    Reply reply = co_await waiter_.enter_to_hold();
    if (reply.ok()) reply = co_await create();
    while (reply.ok()) {
      reply = co_await look();
      if (!reply.ok()) break;
      RoundStep step = decide_round(children_, roster_, name_in(node_.path), spec_->count);
      if (step.kind == RoundStep::Kind::vanished) co_return outcome_ = Outcome::vanished;
      if (step.kind == RoundStep::Kind::entered) co_return co_await come_in();
      if (step.kind == RoundStep::Kind::begin) {
        reply = co_await begin(std::move(step.roster));
        continue;
      }
      if (step.refusable && spec_->refuse_extra) {
        reply.error = Errc::overloaded;
        reply.detail = "N others are before us";
        break;
      }
      reply = co_await wait(step.kind == RoundStep::Kind::extra);
    }
    if (reply.failed(Errc::deadline_exceeded) || reply.failed(Errc::cancelled)) co_return co_await withdraw(reply);
    co_return fail(std::move(reply));
  }

  RoundPlace take() { return std::move(membership_); }
  const Reply& failure() const noexcept { return failure_; }

 private:
  Outcome fail(Reply reply) {
    // What is in doubt is only our own node, and it will be removed.
    if (reply.failed(Errc::in_doubt)) reply.error = reply.given_up.value_or(Errc::connection_loss);
    failure_ = std::move(reply);
    return outcome_ = Outcome::failed;
  }

  // Sets node_.
  Awaitable<Reply> create() {
    const std::string uuid = zk::make_uuid();
    marker_ = fmt::format("_c_{}-", uuid);
    for (;;) {
      Request request = zk::make_request(OpType::create, child_path(spec_->directory, marker_ + "member-"));
      request.data = describe_process(spec_->id);
      request.mode = CreateMode::ephemeral_sequential;
      request.acl = spec_->acl;
      may_exist_ = true;
      Reply created = co_await client_->create_marked(std::move(request), spec_->directory, marker_, waiter_.call());
      may_exist_ = created.ok() || created.failed(Errc::in_doubt);
      if (created.failed(Errc::no_node)) {
        Reply parents = co_await client_->ensure(spec_->directory, CreateMode::container, spec_->acl, waiter_.call());
        if (!parents.ok()) co_return parents;
        continue;
      }
      if (!created.ok()) {
        if (created.given_up) created.error = *created.given_up;
        co_return created;
      }
      if (created.stat.ephemeral_owner != waiter_.session()->id()) {  // Claim nothing that is not this session's.
        created.error = Errc::session_lost;
        co_return created;
      }
      node_ = created;
      co_return created;
    }
  }

  // Reads roster_ and watches it; then reads children_.
  Awaitable<Reply> look() {
    roster_watch_ = waiter_.make_watch(zk::WatchRegistry::Kind::data);
    const PendingReply reading =
        client_->launch_watching(zk::make_request(OpType::get, spec_->directory), waiter_.call(), roster_watch_->watch);
    const PendingReply listing = client_->launch(zk::make_request(OpType::children, spec_->directory), waiter_.call());
    Reply read = co_await reading.get();
    Reply listed = co_await listing.get();
    if (read.failed(Errc::no_node) || listed.failed(Errc::no_node)) {
      children_.clear();  // And our own node with it.
      co_return Reply{};
    }
    if (!read.ok()) co_return read;
    if (!listed.ok()) co_return listed;
    version_ = read.stat.version;
    number_ = read.stat.mzxid;
    roster_ = decode_roster(read.data);
    children_ = std::move(listed.names);
    co_return listed;
  }

  // All of the roster are there, the round before is over (its names cannot come back), and nobody else begins one.
  Awaitable<Reply> begin(std::vector<std::string> roster) {
    Request all = zk::make_request(OpType::multi, spec_->directory);
    all.operations.emplace_back(Transaction::Set{Path(spec_->directory), encode_roster(roster), version_});
    for (const std::string& name : roster)
      all.operations.emplace_back(Check{Path(child_path(spec_->directory, name)), zkclient::any_version});
    Reply begun = co_await client_->perform(std::move(all), waiter_.call());
    if (begun.ok()) waiter_.keeper()->acknowledged(begun.sent);
    // Refused: something has changed. Lost: what came of it is read.
    if (begun.failed(Errc::transaction_failed) || (begun.failed(Errc::in_doubt) && !begun.given_up)) begun = Reply{};
    if (begun.failed(Errc::in_doubt)) begun.error = *begun.given_up;
    co_return begun;
  }

  // One who is extra waits for any of those before it to go, too.
  Awaitable<Reply> wait(bool extra) {
    Reply proven = co_await waiter_.stay_proven(spec_->directory);
    if (!proven.ok()) co_return proven;
    std::vector<std::shared_ptr<Waiter::NodeWatch>> watches = {roster_watch_};
    watches.push_back(waiter_.make_watch());  // Nobody else would tell us that our own node is gone.
    Request own_node = zk::make_request(OpType::get, node_.path);
    const Reply own = co_await client_->perform_watching(std::move(own_node), waiter_.call(), watches.back()->watch);
    if (own.failed(Errc::no_node)) co_return Reply{};
    if (!own.ok()) co_return own;
    if (extra) {
      auto watch = waiter_.make_watch(zk::WatchRegistry::Kind::children);
      Request list = zk::make_request(OpType::children, spec_->directory);
      Reply listed = co_await client_->perform_watching(std::move(list), waiter_.call(), watch->watch);
      if (listed.failed(Errc::no_node)) co_return Reply{};
      if (!listed.ok()) co_return listed;
      if (listed.names.size() != children_.size()) co_return Reply{};  // Changed since: look again.
      std::sort(listed.names.begin(), listed.names.end());
      std::sort(children_.begin(), children_.end());
      if (listed.names != children_) co_return Reply{};
      watches.push_back(std::move(watch));
    }
    Reply waited = co_await waiter_.any_fired(watches);
    co_return waited;
  }

  Awaitable<Outcome> come_in() {
    Request own_node = existence_check(node_.path);
    Reply proven = co_await waiter_.prove(std::move(own_node));
    if (proven.failed(Errc::no_node)) co_return outcome_ = Outcome::vanished;
    if (proven.failed(Errc::deadline_exceeded) || proven.failed(Errc::cancelled)) co_return co_await withdraw(proven);
    if (!proven.ok()) co_return fail(std::move(proven));
    grant();
    co_return outcome_ = Outcome::entered;
  }

  void grant() {
    LeaseCore::Grant grant;
    grant.client = client_;
    grant.session = waiter_.session();
    grant.keeper = waiter_.keeper();
    grant.path = node_.path;
    grant.czxid = node_.stat.czxid;
    membership_.round = {number_, roster_};
    membership_.lease = std::make_shared<LeaseCore>(std::move(grant));
    membership_.lease->begin();
  }

  // The time is over. The node goes on condition that no round has begun meanwhile; if one has, with us, we are in.
  Awaitable<Outcome> withdraw(Reply why) {
    const bool reachable = may_exist_ && waiter_.session()->raw_state() == zkclient::ConnectionState::connected;
    Call limits;
    limits.bound = waiter_.session();
    limits.deadline = steady_clock::now() + last_word;
    // The reply of the create did not come in time; the others may have seen what it made.
    if (reachable && node_.path.empty()) {
      Reply found = co_await client_->find_marked(spec_->directory, marker_, limits);
      if (found.ok() && found.stat.ephemeral_owner == waiter_.session()->id()) node_ = std::move(found);
    }
    while (reachable && !node_.path.empty()) {
      Request read = zk::make_request(OpType::get, spec_->directory);
      Reply seen = co_await client_->perform(std::move(read), limits);
      if (!seen.ok()) break;
      version_ = seen.stat.version;
      number_ = seen.stat.mzxid;
      roster_ = decode_roster(seen.data);
      if (std::find(roster_.begin(), roster_.end(), name_in(node_.path)) != roster_.end()) {
        const auto late = std::make_unique<Waiter>(client_, limits);
        Reply proven = co_await late->enter();
        Request own_node = existence_check(node_.path);
        if (proven.ok()) proven = co_await late->prove(std::move(own_node));
        if (!proven.ok()) break;
        grant();
        co_return outcome_ = Outcome::entered;
      }
      Request remove = zk::make_request(OpType::multi, node_.path);
      remove.operations.emplace_back(Check{Path(spec_->directory), version_});
      remove.operations.emplace_back(Transaction::Remove{Path(node_.path), zkclient::any_version});
      const Reply removed = co_await client_->perform(std::move(remove), limits);
      if (removed.ok()) may_exist_ = false;
      if (!removed.failed(Errc::transaction_failed)) break;
      if (removed.codes.size() == 2 && removed.codes[0] == zk::rc::ok) break;  // There is no such node any more.
    }
    co_return fail(std::move(why));
  }

  const RoundSpecPtr spec_;
  const std::shared_ptr<zk::ClientCore> client_;
  Waiter waiter_;
  bool may_exist_ = false;  // The create was sent and not refused.
  std::string marker_;
  Reply node_;  // Path and Stat of our own node.
  std::vector<std::string> children_;
  std::vector<std::string> roster_;
  std::int32_t version_ = 0;
  std::int64_t number_ = 0;
  std::shared_ptr<Waiter::NodeWatch> roster_watch_;
  Outcome outcome_ = Outcome::failed;
  Reply failure_;
  RoundPlace membership_;
};

}  // namespace

Awaitable<Result<RoundPlace>> enter_round(RoundSpecPtr spec, Call call) {
  for (;;) {
    // On the heap: what it leaves to its wake-ups must not move.
    const auto attempt = std::make_unique<Attempt>(spec, call);
    const Attempt::Outcome outcome = co_await attempt->run();
    if (outcome == Attempt::Outcome::entered) co_return attempt->take();
    if (outcome == Attempt::Outcome::failed) co_return zk::to_error(attempt->failure(), entering, spec->path);
  }
}

Awaitable<Result<void>> leave_round(RoundSpecPtr spec, RoundPlace membership, bool was_inside, Call call) {
  const bool over = membership.lease->session()->over();
  if (!was_inside) {
    co_return zkclient::Error(over ? Errc::session_lost : Errc::not_held, leaving, spec->path,
                              "this member was lost to its round");
  }
  // Sent right now, before anything else that this session does.
  membership.lease->remove_node();
  for (;;) {
    const auto waiter = std::make_unique<Waiter>(spec->client, call);
    Reply reply = co_await waiter->enter();
    while (reply.ok()) {
      Request list = zk::make_request(OpType::children, spec->directory);
      reply = co_await spec->client->perform(std::move(list), waiter->call());
      if (reply.failed(Errc::no_node)) co_return Result<void>();
      if (!reply.ok()) break;
      const std::vector<std::string> left = still_inside(reply.names, membership.round.members);
      if (left.empty()) co_return Result<void>();
      // All wait for the same one, so that most find the others gone as well.
      reply = co_await waiter->wait_until_gone(child_path(spec->directory, left.back()), "still inside:");
    }
    if (!reply.failed(Errc::session_lost)) co_return zk::to_error(reply, leaving, spec->path);
  }
}

}  // namespace zkrecipes::detail
