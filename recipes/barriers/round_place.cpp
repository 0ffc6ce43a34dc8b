#include "recipes/barriers/round_place.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/barriers/round_decider.hpp"
#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/ended_wait.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

using std::chrono::steady_clock;

namespace {

constexpr const char* entering = "double barrier enter";
constexpr const char* leaving = "double barrier leave";
// How long a call whose time is over may take to withdraw in a way that tells whether a round has begun with it.
constexpr auto last_word = std::chrono::milliseconds(500);

/// One attempt to come in, with one node in one session.
///
///   create own node
///   loop:  read the roster and the list -> decide_round()
///          entered: prove, grant | begin: write the roster | too few, extra: wait | vanished: start over
class RoundAttempt : public Attempt {
 public:
  using Value = RoundPlace;

  RoundAttempt(RoundSpecPtr spec, Patience patience, Call call)
      : Attempt(spec->client, std::move(call), entering, spec->path), spec_(std::move(spec)), patience_(patience) {}
  ~RoundAttempt() {
    if (!leaves_nodes()) return;
    std::vector<std::string> known;
    if (!node_.path.empty()) known.push_back(node_.path);
    remove_sequential(spec_->directory, marker_, known);
  }

  Awaitable<Outcome> run() {
    Reply reply = co_await waiter_.enter_to_hold();
    if (reply.ok()) reply = co_await create();
    while (reply.ok()) {
      reply = co_await look();
      if (!reply.ok()) break;
      RoundStep step = decide_round(children_, roster_, own_name(), spec_->count);
      if (step.kind == RoundStep::Kind::vanished) co_return Outcome::vanished;
      if (step.kind == RoundStep::Kind::entered) {
        reply = co_await waiter_.prove(existence_check(node_.path));
        if (reply.failed(Errc::no_node)) co_return Outcome::vanished;
        if (reply.ok()) co_return come_in();
      } else if (step.kind == RoundStep::Kind::begin) {
        reply = co_await begin(std::move(step.roster));
      } else if (step.refusable && spec_->refuse_extra) {
        reply.error = Errc::overloaded;
        reply.detail = "N others are before us";
      } else if (patience_ == Patience::try_once) {
        reply.error = Errc::deadline_exceeded;
      } else {
        reply = co_await wait(step.kind == RoundStep::Kind::extra);
      }
    }
    if (reply.failed(Errc::deadline_exceeded) || reply.failed(Errc::cancelled)) {
      if (reply.detail.empty() && !node_.path.empty()) reply.detail = story();
      co_return co_await withdraw(reply);
    }
    co_return fail(std::move(reply));
  }

  std::string story() const {
    const std::size_t there = members_in_order(children_).size();
    return wait_story(fmt::format("a round of {}", counted(spec_->count, "member")), counted(there, "member"));
  }

  RoundPlace take() const { return {{number_, roster_}, Lease(lease())}; }

 private:
  std::string_view own_name() const { return zk::name_of(node_.path); }

  // Sets node_.
  Awaitable<Reply> create() {
    const std::string uuid = zk::make_uuid();
    marker_ = fmt::format("_c_{}-", uuid);
    for (;;) {
      Request request = zk::make_request(OpType::create, zk::child_path(spec_->directory, marker_ + "member-"));
      request.data = describe_process(spec_->id);
      request.mode = CreateMode::ephemeral_sequential;
      request.acl = spec_->acl;
      may_exist_ = true;
      Reply created =
          co_await zk::create_marked(client_, std::move(request), spec_->directory, marker_, waiter_.call());
      may_exist_ = created.ok() || created.failed(Errc::in_doubt);
      if (created.failed(Errc::no_node)) {
        Reply parents =
            co_await zk::ensure(client_, spec_->directory, CreateMode::container, spec_->acl, waiter_.call());
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

  // All of the roster are there, the round before is over (its names cannot come back), and no other client begins one.
  Awaitable<Reply> begin(std::vector<std::string> roster) {
    Request all = zk::make_request(OpType::multi, spec_->directory);
    all.operations.emplace_back(Transaction::Set{Path(spec_->directory), encode_roster(roster), version_});
    for (const std::string& name : roster)
      all.operations.emplace_back(Check{Path(zk::child_path(spec_->directory, name)), zkclient::any_version});
    Reply begun = co_await client_->perform(std::move(all), waiter_.call());
    if (begun.ok()) waiter_.keeper()->acknowledged(begun.sent);
    const Errc cause = begun.ok() ? Errc{} : begun.cause();
    // Something has changed. Lost: what came of it is read.
    if (cause == Errc::no_node || cause == Errc::bad_version || begun.unanswered()) co_return Reply{};
    if (begun.failed(Errc::transaction_failed)) begun.error = cause;
    if (begun.failed(Errc::in_doubt)) begun.error = *begun.given_up;
    co_return begun;
  }

  // An extra member waits for any of those before it to go, too.
  Awaitable<Reply> wait(bool extra) {
    Reply proven = co_await waiter_.stay_proven(spec_->directory);
    if (!proven.ok()) co_return proven;
    std::vector<std::shared_ptr<Waiter::NodeWatch>> watches = {roster_watch_};
    watches.push_back(waiter_.make_watch());  // No other watch tells us that our own node is gone.
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

  Outcome come_in() {
    grant(make_grant(node_.path, node_.stat.czxid));
    return Outcome::granted;
  }

  // The time is over. The node goes on condition that no round has begun meanwhile; if one has, with us, we are in.
  Awaitable<Outcome> withdraw(Reply why) {
    const bool reachable = may_exist_ && waiter_.session()->raw_state() == zkclient::ConnectionState::connected;
    Call limits;
    limits.bound = waiter_.session();
    limits.deadline = steady_clock::now() + last_word;
    // The reply of the create did not come in time; the others may have seen what it made.
    if (reachable && node_.path.empty()) {
      Reply found = co_await zk::find_marked(client_, spec_->directory, marker_, limits);
      if (found.ok() && found.stat.ephemeral_owner == waiter_.session()->id()) node_ = std::move(found);
    }
    while (reachable && !node_.path.empty()) {
      Request read = zk::make_request(OpType::get, spec_->directory);
      Reply seen = co_await client_->perform(std::move(read), limits);
      if (!seen.ok()) break;
      version_ = seen.stat.version;
      number_ = seen.stat.mzxid;
      roster_ = decode_roster(seen.data);
      if (std::find(roster_.begin(), roster_.end(), own_name()) != roster_.end()) {
        const auto late = std::make_unique<Waiter>(client_, limits);
        Reply proven = co_await late->enter();
        Request own_node = existence_check(node_.path);
        if (proven.ok()) proven = co_await late->prove(std::move(own_node));
        if (!proven.ok()) break;
        co_return come_in();
      }
      Request remove = zk::make_request(OpType::multi, node_.path);
      remove.operations.emplace_back(Check{Path(spec_->directory), version_});
      remove.operations.emplace_back(Transaction::Remove{Path(node_.path), zkclient::any_version});
      const Reply removed = co_await client_->perform(std::move(remove), limits);
      if (removed.ok()) may_exist_ = false;
      if (!removed.failed(Errc::transaction_failed)) break;
      if (removed.refused(1, zk::rc::no_node)) break;  // There is no such node any more.
    }
    co_return fail(std::move(why));
  }

  const RoundSpecPtr spec_;
  const Patience patience_;
  std::string marker_;
  Reply node_;  // Path and Stat of our own node.
  std::vector<std::string> children_;
  std::vector<std::string> roster_;
  std::int32_t version_ = 0;
  std::int64_t number_ = 0;
  std::shared_ptr<Waiter::NodeWatch> roster_watch_;
};

}  // namespace

Awaitable<Result<RoundPlace>> enter_round(RoundSpecPtr spec, Patience patience, Call call) {
  auto make = [spec = std::move(spec), patience, call = std::move(call)] {
    return std::make_unique<RoundAttempt>(spec, patience, call);
  };
  return drive(std::move(make));
}

Awaitable<Result<void>> leave_round(RoundSpecPtr spec, RoundPlace place, bool was_inside, Patience patience,
                                    Call call) {
  const bool over = place.lease.impl()->session()->over();
  if (!was_inside) {
    co_return zkclient::Error(over ? Errc::session_lost : Errc::not_held, leaving, spec->path,
                              "this member was lost to its round");
  }
  // Sent right now, before anything else that this session does.
  place.lease.impl()->remove_node();
  for (;;) {
    const auto waiter = std::make_unique<Waiter>(spec->client, call);
    Reply reply = co_await waiter->enter();
    while (reply.ok()) {
      Request list = zk::make_request(OpType::children, spec->directory);
      reply = co_await spec->client->perform(std::move(list), waiter->call());
      if (reply.failed(Errc::no_node)) co_return Result<void>();
      if (!reply.ok()) break;
      const std::vector<std::string> left = still_inside(reply.names, place.round.members);
      if (left.empty()) co_return Result<void>();
      if (patience == Patience::try_once) {
        co_return zkclient::Error(Errc::deadline_exceeded, leaving, spec->path,
                                  wait_story("the others to leave", counted(left.size(), "member")));
      }
      // All wait for the same one, so that most find the others gone as well.
      reply = co_await waiter->wait_until_gone(zk::child_path(spec->directory, left.back()), "still inside:");
    }
    if (!reply.failed(Errc::session_lost)) co_return zk::to_error(reply, leaving, spec->path);
  }
}

}  // namespace zkrecipes::detail
