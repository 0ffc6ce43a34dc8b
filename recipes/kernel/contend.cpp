#include "recipes/kernel/contend.hpp"

#include <algorithm>
#include <chrono>

#include "recipes/kernel/sequence.hpp"
#include "recipes/kernel/waiter.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::PendingReply;
using zk::Reply;
using zk::Request;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Result;

namespace {

/// As many children make a queue in which a list costs more than a record. (It gains nothing below about a hundred.)
constexpr std::size_t long_queue = 100;
/// Whoever has waited for so long does not know how long the queue has become. So it looks for a record first, and leaves
/// one to its successor if there is one: only the first of such a row pays for a look in vain.
constexpr auto long_wait = std::chrono::milliseconds(50);

/// One attempt to get through the queue, with one node in one session.
///
///   enter: create own node and list, in one flight
///   loop:  decide(list) -> acquired: prove, grant | watch: wait for it, list again | vanished: start over
///
/// Destroyed without a grant, it has its node removed in the background.
class Attempt {
 public:
  enum class Outcome { granted, busy, vanished, failed };

  Attempt(const ContendSpec& spec, std::string data, Call call)
      : spec_(spec), data_(std::move(data)), waiter_(spec.client, std::move(call)) {}
  ~Attempt() {
    if (!may_exist_ || outcome_ == Outcome::granted) return;
    if (node_.path.empty()) {
      spec_.client->delete_marked_in_background(spec_.directory, marker_, waiter_.session());
    } else {
      spec_.client->delete_in_background(node_.path, waiter_.session());
    }
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  Awaitable<Outcome> run(Patience patience) {
    outcome_ = Outcome::failed;
    Reply entered = co_await enter();
    if (!entered.ok()) co_return fail(std::move(entered));
    for (;;) {
      const WaitStep step = decide_wait(children_, name(), spec_.names);
      if (step.kind == WaitStep::Kind::vanished) co_return outcome_ = Outcome::vanished;
      if (step.kind == WaitStep::Kind::acquired) {
        Request own_node = existence_check(node_.path);
        Reply proven = co_await waiter_.prove(std::move(own_node));
        if (proven.failed(Errc::no_node)) co_return outcome_ = Outcome::vanished;
        if (!proven.ok()) co_return fail(std::move(proven));
        grant();
        co_return outcome_ = Outcome::granted;
      }
      if (patience == Patience::try_once) co_return outcome_ = Outcome::busy;
      Reply waited = co_await wait_for(step);
      if (waited.failed(Errc::no_node)) co_return outcome_ = Outcome::vanished;
      if (!waited.ok()) co_return fail(std::move(waited));
    }
  }

  const LeasePtr& lease() const noexcept { return lease_; }
  const Reply& failure() const noexcept { return failure_; }

 private:
  std::string_view name() const { return std::string_view(node_.path).substr(node_.path.rfind('/') + 1); }

  Outcome fail(Reply reply) {
    // What is in doubt is only our own node, and that will be removed.
    if (reply.failed(Errc::in_doubt)) reply.error = reply.given_up.value_or(Errc::connection_loss);
    failure_ = std::move(reply);
    return outcome_ = Outcome::failed;
  }

  // Sets node_, and children_ to the list.
  Awaitable<Reply> enter() {
    Reply connected = co_await waiter_.enter_to_hold();
    if (!connected.ok()) co_return connected;
    for (;;) {
      Reply created = co_await create_and_list();
      if (!created.failed(Errc::no_node)) co_return created;
      Reply parents =
          co_await spec_.client->ensure(spec_.directory, spec_.layout.parent_mode(), spec_.acl, waiter_.call());
      if (!parents.ok()) co_return parents;
    }
  }

  Awaitable<Reply> create_and_list() {
    const std::string uuid = zk::make_uuid();
    marker_ = spec_.layout.marker(uuid, spec_.kind);
    node_ = Reply();  // The one before, if any, went with the directory.
    Request create = zk::make_request(OpType::create, child_path(spec_.directory, spec_.layout.name(uuid, spec_.kind)));
    create.data = data_;
    create.mode = zkclient::CreateMode::ephemeral_sequential;
    create.acl = spec_.acl;
    may_exist_ = true;
    // One flight: the server works off a session's requests in order, so the list holds the new node.
    const PendingReply creating = spec_.client->launch(create, waiter_.call());
    const PendingReply listing =
        spec_.client->launch(zk::make_request(OpType::children, spec_.directory), waiter_.call());
    Reply created = co_await creating.get();
    Reply listed = co_await listing.get();
    const bool unknown = created.failed(Errc::in_doubt) && !created.given_up;
    if (unknown) {
      created = co_await recover(std::move(create));
      if (created.ok()) listed = co_await list();
    }
    const bool refused = created.error && !created.failed(Errc::in_doubt);
    if (refused) may_exist_ = false;
    if (!created.ok()) co_return created;
    if (created.stat.ephemeral_owner != waiter_.session()->id()) {  // Claim nothing that is not this session's.
      created.error = Errc::session_lost;
      co_return created;
    }
    node_ = created;
    if (!unknown) waiter_.keeper()->acknowledged(created.sent);  // Else it was read, which proves nothing; see prove().
    learn(listed);
    co_return listed;
  }

  // The reply of the create was lost: the node is there and is found by its marker, or it has to be made again.
  Awaitable<Reply> recover(Request create) {
    Reply found = co_await spec_.client->find_marked(spec_.directory, marker_, waiter_.call());
    if (!found.failed(Errc::no_node)) {
      // A look that failed leaves the node in doubt, unless it is over with the session.
      const bool over = found.failed(Errc::session_lost) || found.failed(Errc::closed);
      if (!found.ok() && !over) found.error = Errc::in_doubt;
      co_return found;
    }
    Reply made = co_await spec_.client->create_marked(std::move(create), spec_.directory, marker_, waiter_.call());
    co_return made;
  }

  Awaitable<Reply> list() {
    Reply listed = co_await spec_.client->perform(zk::make_request(OpType::children, spec_.directory), waiter_.call());
    co_return listed;
  }

  /// What a list, or a record, tells about the queue.
  void learn(Reply& listed) {
    listed_at_ = listed.sent;
    children_ = std::move(listed.names);
    crowded_ = long_queue_ = lists_contenders(long_queue);
    // What the directory's node holds is known if it is nothing, or what was read there before.
    const bool known = listed.stat.data_length == 0 || record_version_ == listed.stat.version;
    record_version_ = known ? std::optional(listed.stat.version) : std::nullopt;
  }

  // There may be any number of other children.
  bool lists_contenders(std::size_t least) const {
    if (children_.size() < least) return false;
    const auto contends = [&](const std::string& child) {
      return sequence_of(child, spec_.names.exclusive).has_value();
    };
    return static_cast<std::size_t>(std::count_if(children_.begin(), children_.end(), contends)) >= least;
  }

  Awaitable<Reply> list_again() {
    Reply listed = co_await list();
    if (listed.ok()) learn(listed);
    co_return listed;
  }

  // Waits until `step.node` is gone, and learns who is before us then.
  Awaitable<Reply> wait_for(const WaitStep step) {
    if (step.last_obstacle) {  // The next one: its lease may begin at any time.
      Reply proven = co_await waiter_.stay_proven(spec_.directory);
      if (!proven.ok()) co_return proven;
    }
    if (spec_.look_ahead && !step.last_obstacle) {
      Reply ahead = co_await look_ahead(step);
      if (!ahead.ok() || list_is_new_) co_return ahead;
    }
    std::shared_ptr<Waiter::NodeWatch> armed = near_node_ == step.node ? std::move(near_) : nullptr;
    near_ = nullptr;
    children_ = std::vector<std::string>();  // Thousands of waiters need not keep a list of thousands each.
    const std::string_view relation = step.last_obstacle ? "held by" : "waits behind others, next";
    Reply gone = co_await waiter_.wait_until_gone(child_path(spec_.directory, step.node), relation, std::move(armed));
    if (!gone.ok()) co_return gone;
    const std::shared_ptr<zk::SessionState>& session = waiter_.session();
    const bool proven = zkclient::BootClock::now() + session->timeout() / 6 < session->valid_until();
    const bool young = zkclient::BootClock::now() - listed_at_ < spec_.trusts_list;
    if (proven && step.last_obstacle && young) {
      children_ = {std::string(name())};
      co_return Reply{};
    }
    const bool by_record = spec_.hands_over && (long_queue_ || std::chrono::steady_clock::now() - entered_ > long_wait);
    if (proven && !step.last_obstacle && !by_record) {
      Reply listed = co_await list_again();  // It also tells whether our own node is still there.
      co_return listed;
    }
    // In one flight: whether our own node is still there, and the rest of the queue, unless nobody else was before us.
    // A read will do for that while there is a young proof; a lease on an old one would begin just before it ends.
    const Request own_node = proven ? zk::make_request(OpType::exists, node_.path) : existence_check(node_.path);
    const PendingReply looking = spec_.client->launch(own_node, waiter_.call());
    Reply learned;
    if (by_record) {
      learned = co_await read_record(step);
    } else if (step.last_obstacle) {
      children_ = {std::string(name())};
    } else {
      learned = co_await list_again();
    }
    Reply present = co_await looking.get();
    if (!proven) present = co_await waiter_.checked(own_node, std::move(present));
    co_return present.ok() ? std::move(learned) : std::move(present);
  }

  // After `former.node` has gone: was it the first in the queue, as we know or as it has said? Else the list tells.
  Awaitable<Reply> read_record(const WaitStep former) {
    Request get = zk::make_request(OpType::get, spec_.directory);
    Reply record = co_await spec_.client->perform(std::move(get), waiter_.call());
    if (!record.ok()) co_return record;
    if (former.last_obstacle || record.data == former.node) {
      children_ = {std::string(name())};
      crowded_ = record.stat.children_count > 1;
    } else {
      Reply listed = co_await list_again();
      if (!listed.ok()) co_return listed;
      crowded_ = lists_contenders(2);
    }
    const bool ours = record.data.empty() || sequence_of(record.data, spec_.names.exclusive).has_value();
    record_version_ = ours ? std::optional(record.stat.version) : std::nullopt;
    co_return record;
  }

  // Watches `step.node` and the one before it. When the latter goes first, the list is read while the former still holds
  // (list_is_new_), so that its end may be the grant.
  Awaitable<Reply> look_ahead(const WaitStep step) {
    list_is_new_ = false;
    std::erase(children_, step.node);
    const WaitStep beyond = decide_wait(children_, name(), spec_.names);
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
      if (seen.failed(Errc::no_node)) seen = Reply{};  // Whoever waits for it finds that out.
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

  PendingReply watch(const std::string& node, const std::shared_ptr<Waiter::NodeWatch>& watch) {
    Request get = zk::make_request(OpType::get, child_path(spec_.directory, node));
    return spec_.client->launch_watching(std::move(get), waiter_.call(), watch->watch);
  }

  void grant() {
    LeaseCore::Grant grant;
    grant.client = spec_.client;
    grant.session = waiter_.session();
    grant.keeper = waiter_.keeper();
    grant.path = node_.path;
    grant.czxid = node_.stat.czxid;
    grant.data = data_;
    grant.watch_at_once = spec_.watch_at_once;
    if (spec_.hands_over && crowded_ && record_version_) {
      grant.record = spec_.directory;
      grant.record_version = *record_version_;
    }
    lease_ = std::make_shared<LeaseCore>(std::move(grant));
    lease_->begin();
  }

  const ContendSpec& spec_;
  const std::string data_;
  Waiter waiter_;
  bool may_exist_ = false;  // The create was sent and not refused.
  std::string marker_;
  Reply node_;                                 // Path and Stat of our own node.
  std::vector<std::string> children_;          // As far as it is known; empty while waiting.
  zkclient::BootClock::time_point listed_at_;  // When the last list was asked for.
  const std::chrono::steady_clock::time_point entered_ = std::chrono::steady_clock::now();
  bool long_queue_ = false;                     // When it was last listed.
  bool crowded_ = false;                        // There is a successor who will read a record.
  std::optional<std::int32_t> record_version_;  // Of the directory's node, if we may write there.
  std::string near_node_;                       // Look-ahead: what near_ watches.
  std::shared_ptr<Waiter::NodeWatch> near_;
  bool list_is_new_ = false;
  Outcome outcome_ = Outcome::failed;
  Reply failure_;
  LeasePtr lease_;
};

}  // namespace

Awaitable<Result<LeasePtr>> contend(ContendSpecPtr shared, std::string data, Patience patience, Call call) {
  const ContendSpec& spec = *shared;
  const auto to_error = [&](const Reply& reply) { return zk::to_error(reply, spec.operation, spec.path); };
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
    if (failure.failed(Errc::session_lost) && spec.requeue_on_session_loss) continue;
    co_return to_error(failure);
  }
}

}  // namespace zkrecipes::detail
