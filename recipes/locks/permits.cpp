#include "recipes/locks/permits.hpp"

#include <algorithm>

#include <fmt/format.h>

#include "recipes/kernel/refusal.hpp"
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
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;

PermitStep decide_permits(const std::vector<std::string>& children, const std::vector<std::string>& own, int limit) {
  const auto present = [&](const std::string& name) {
    return std::find(children.begin(), children.end(), name) != children.end();
  };
  if (own.empty() || !std::all_of(own.begin(), own.end(), present)) return PermitStep::vanished;
  const bool fits = limit > 0 && children.size() <= static_cast<std::size_t>(limit);
  return fits ? PermitStep::acquired : PermitStep::wait;
}

std::optional<int> decode_limit(std::string_view data) {
  if (data.size() != 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : data)
    value = value << 8U | static_cast<unsigned char>(c);
  const auto limit = static_cast<std::int32_t>(value);
  if (limit < 0 || limit > most_leases) return std::nullopt;
  return limit;
}

std::string encode_limit(int limit) {
  std::string data;
  for (int shift = 24; shift >= 0; shift -= 8)
    data += static_cast<char>(static_cast<std::uint32_t>(limit) >> static_cast<unsigned>(shift) & 0xFFU);
  return data;
}

namespace {

/// One attempt to get leases by one who has the inner mutex, in one session.
///
///   create all nodes, in one flight, then list
///   loop:  decide(list, limit) -> acquired: prove, grant | wait: for a change of list or limit | vanished: start over
///
/// Destroyed without a grant, it has its nodes removed in the background.
class Attempt {
 public:
  enum class Outcome { granted, busy, vanished, failed };

  Attempt(PermitSpecPtr spec, std::string data, int count, LeasePtr turn, Call call)
      : spec_(std::move(spec)),
        client_(spec_->queue->client),
        data_(std::move(data)),
        count_(count),
        turn_(std::move(turn)),
        uuid_(zk::make_uuid()),
        marker_(spec_->queue->layout.marker(uuid_, "lease")),
        waiter_(client_, std::move(call)) {}
  ~Attempt() {
    if (!may_exist_ || outcome_ == Outcome::granted) return;
    for (const std::string& name : own_)
      client_->delete_in_background(child_path(spec_->directory, name), waiter_.session());
    if (own_.empty()) client_->delete_marked_in_background(spec_->directory, marker_, waiter_.session());
  }
  Attempt(const Attempt&) = delete;
  Attempt& operator=(const Attempt&) = delete;

  Awaitable<Outcome> run(Patience patience) {
    outcome_ = Outcome::failed;
    Reply reply = co_await waiter_.enter_to_hold();
    if (!reply.ok()) co_return fail(std::move(reply));
    if (waiter_.session() != turn_->session()) co_return outcome_ = Outcome::vanished;
    reply = co_await create();
    if (!reply.ok()) co_return fail(std::move(reply));
    for (;;) {
      reply = co_await look(patience);
      if (!reply.ok()) co_return fail(std::move(reply));
      if (std::exchange(look_again_, false)) continue;
      const PermitStep step =
          turn_->state() == LeaseState::lost ? PermitStep::vanished : decide_permits(children_, own_, limit_);
      if (step == PermitStep::vanished) co_return outcome_ = Outcome::vanished;
      if (step == PermitStep::acquired) {
        Request nodes = own_nodes();
        reply = co_await waiter_.prove(std::move(nodes));
        if (reply.failed(Errc::no_node)) co_return outcome_ = Outcome::vanished;
        if (!reply.ok()) co_return fail(std::move(reply));
        grant();
        co_return outcome_ = Outcome::granted;
      }
      if (patience == Patience::try_once) co_return outcome_ = Outcome::busy;
      reply = co_await waiter_.stay_proven(spec_->directory);
      if (reply.ok()) reply = co_await waiter_.any_fired(watches_);
      if (reply.failed(Errc::deadline_exceeded)) {
        reply.detail = fmt::format("{} of {} leases are taken, {} are wanted", children_.size() - own_.size(), limit_,
                                   own_.size());
      }
      if (!reply.ok()) co_return fail(std::move(reply));
    }
  }

  const std::vector<LeasePtr>& leases() const noexcept { return leases_; }
  const Reply& failure() const noexcept { return failure_; }

 private:
  Outcome fail(Reply reply) {
    // What is in doubt is only our own nodes, and they will be removed.
    if (reply.failed(Errc::in_doubt)) reply.error = reply.given_up.value_or(Errc::connection_loss);
    failure_ = std::move(reply);
    return outcome_ = Outcome::failed;
  }

  Request creation() const {
    Request all = zk::make_request(OpType::multi, spec_->directory);
    const std::string path = child_path(spec_->directory, spec_->queue->layout.name(uuid_, "lease"));
    for (int i = 0; i < count_; ++i) {
      all.operations.emplace_back(
          Transaction::Create{Path(path), data_, CreateMode::ephemeral_sequential, spec_->queue->acl});
    }
    return all;
  }

  // Sets own_.
  Awaitable<Reply> create() {
    for (;;) {
      may_exist_ = true;
      Request all = creation();
      Reply created = co_await client_->perform(std::move(all), waiter_.call());
      if (created.failed(Errc::in_doubt) && !created.given_up) {
        created = co_await recover();
        if (created.failed(Errc::no_node)) continue;  // It was not done.
        if (!created.ok() && !created.failed(Errc::session_lost) && !created.failed(Errc::closed)) {
          created.error = Errc::in_doubt;
        }
        co_return created;
      }
      if (created.failed(Errc::transaction_failed)) created.error = refusal_of(created);
      may_exist_ = created.ok() || created.failed(Errc::in_doubt);
      if (created.failed(Errc::no_node)) {
        const zkclient::CreateMode mode = spec_->queue->layout.parent_mode();
        Reply parents = co_await client_->ensure(spec_->directory, mode, spec_->queue->acl, waiter_.call());
        if (!parents.ok()) co_return parents;
        continue;
      }
      if (!created.ok()) co_return created;
      waiter_.keeper()->acknowledged(created.sent);
      for (const zkclient::OperationResult& result : created.results)
        own_.push_back(result.path.substr(result.path.rfind('/') + 1));
      co_return created;
    }
  }

  // The reply was lost: all nodes are there, or none. It proves nothing; see prove().
  Awaitable<Reply> recover() {
    const PendingReply syncing = client_->launch(zk::make_request(OpType::sync, spec_->directory), waiter_.call());
    const PendingReply listing = client_->launch(zk::make_request(OpType::children, spec_->directory), waiter_.call());
    Reply synced = co_await syncing.get();
    Reply listed = co_await listing.get();
    if (listed.ok() && !synced.ok()) co_return synced;
    if (!listed.ok()) co_return listed;
    for (const std::string& name : listed.names) {
      if (name.starts_with(marker_)) own_.push_back(name);
    }
    if (own_.empty()) listed.error = Errc::no_node;
    co_return listed;
  }

  // Reads children_, limit_ and the czxid of our nodes. Whoever may wait watches what can change the answer.
  Awaitable<Reply> look(Patience patience) {
    watches_.clear();
    const bool watching = patience == Patience::wait;
    const PendingReply listing = read(OpType::children, spec_->directory, watching, zk::WatchRegistry::Kind::children);
    const PendingReply own = read(OpType::exists, child_path(spec_->directory, own_.front()), false, data_watch);
    PendingReply limit;
    PendingReply turn;
    const bool reads_limit = spec_->fixed_limit == 0;
    if (reads_limit) limit = read(OpType::exists, spec_->limit_node, watching, data_watch);
    if (watching) turn = read(OpType::get, turn_->grant().path, true, data_watch);
    Reply listed = co_await listing.get();
    Reply seen = co_await own.get();
    Reply limited;
    if (reads_limit) limited = co_await limit.get();
    Reply mine;
    if (watching) mine = co_await turn.get();
    limit_ = spec_->fixed_limit;
    if (reads_limit && limited.ok()) {  // The watch was armed before this is read, so no change is missed.
      Request get = zk::make_request(OpType::get, spec_->limit_node);
      limited = co_await client_->perform(std::move(get), waiter_.call());
    }
    if (reads_limit && limited.failed(Errc::no_node)) co_return co_await set_initial_limit();
    if (reads_limit && limited.ok()) {
      const std::optional<int> value = decode_limit(limited.data);
      if (!value) limited = refuse_limit();
      limit_ = value.value_or(0);
    }
    // What is missing decides nothing here: a missing limit is 0, the rest is for decide_permits().
    for (Reply* reply : {&limited, &mine, &seen, &listed}) {
      if (!reply->ok() && !reply->failed(Errc::no_node)) co_return std::move(*reply);
    }
    if (mine.failed(Errc::no_node)) listed.names.clear();  // Not our turn any more: somebody deleted it.
    czxid_ = seen.stat.czxid;
    const bool ours = seen.ok() && seen.stat.ephemeral_owner == waiter_.session()->id();
    children_ = ours ? std::move(listed.names) : std::vector<std::string>();
    co_return Reply{};
  }

  // Then looks again.
  Awaitable<Reply> set_initial_limit() {
    Reply made;
    if (!spec_->initial_limit) {
      made.error = Errc::no_node;
      made.detail = fmt::format(
          "{}, which holds the number of leases, is missing: see Semaphore::set_limit() and "
          "SemaphoreOptions::initial_limit",
          client_->stripped(spec_->limit_node));
      co_return made;
    }
    made = co_await client_->ensure(zk::parent_of(spec_->limit_node), CreateMode::container, spec_->queue->acl,
                                    waiter_.call());
    if (!made.ok()) co_return made;
    do {
      Request create = zk::make_request(OpType::create, spec_->limit_node);
      create.data = encode_limit(*spec_->initial_limit);
      create.mode = CreateMode::persistent;
      create.acl = spec_->queue->acl;
      made = co_await client_->perform(std::move(create), waiter_.call());
    } while (made.failed(Errc::in_doubt) && !made.given_up);  // Whoever made it, it is there.
    if (made.failed(Errc::node_exists)) made = Reply{};
    if (made.ok()) children_.clear();
    look_again_ = made.ok();
    co_return made;
  }

  static constexpr auto data_watch = zk::WatchRegistry::Kind::data;

  PendingReply read(OpType type, std::string path, bool watching, zk::WatchRegistry::Kind kind) {
    Request request = zk::make_request(type, std::move(path));
    if (!watching) return client_->launch(std::move(request), waiter_.call());
    watches_.push_back(waiter_.make_watch(kind));
    return client_->launch_watching(std::move(request), waiter_.call(), watches_.back()->watch);
  }

  Reply refuse_limit() const {
    Reply reply;
    reply.error = Errc::foreign_node;
    reply.detail = fmt::format("{} does not hold a number of leases", client_->stripped(spec_->limit_node));
    return reply;
  }

  Request own_nodes() const {
    Request check = zk::make_request(OpType::multi, spec_->directory);
    for (const std::string& name : own_)
      check.operations.emplace_back(zkclient::Check{Path(child_path(spec_->directory, name))});
    return check;
  }

  void grant() {
    for (const std::string& name : own_) {
      LeaseCore::Grant grant;
      grant.client = client_;
      grant.session = waiter_.session();
      grant.keeper = waiter_.keeper();
      grant.path = child_path(spec_->directory, name);
      grant.czxid = czxid_;
      grant.data = data_;
      leases_.push_back(std::make_shared<LeaseCore>(std::move(grant)));
      leases_.back()->begin();
    }
  }

  const PermitSpecPtr spec_;
  const std::shared_ptr<zk::ClientCore> client_;
  const std::string data_;
  const int count_;
  const LeasePtr turn_;  // On the inner mutex.
  const std::string uuid_;
  const std::string marker_;
  Waiter waiter_;
  bool may_exist_ = false;        // The create was sent and not refused.
  std::vector<std::string> own_;  // Names of our nodes.
  std::int64_t czxid_ = 0;        // Of all of them.
  std::vector<std::string> children_;
  int limit_ = 0;
  bool look_again_ = false;
  std::vector<std::shared_ptr<Waiter::NodeWatch>> watches_;
  Outcome outcome_ = Outcome::failed;
  Reply failure_;
  std::vector<LeasePtr> leases_;
};

}  // namespace

Awaitable<Result<std::vector<LeasePtr>>> take_leases(PermitSpecPtr spec, std::string data, int count, Patience patience,
                                                     Call call) {
  for (;;) {
    Result<LeasePtr> turn = co_await contend(spec->queue, data, patience, call);
    if (!turn) co_return turn.error();
    if (*turn == nullptr) co_return std::vector<LeasePtr>();
    const auto attempt = std::make_unique<Attempt>(spec, data, count, *turn, call);
    const Attempt::Outcome outcome = co_await attempt->run(patience);
    (*turn)->drop();  // The next one's turn, whatever came out.
    switch (outcome) {
      case Attempt::Outcome::granted: co_return attempt->leases();
      case Attempt::Outcome::busy: co_return std::vector<LeasePtr>();
      case Attempt::Outcome::vanished: continue;
      case Attempt::Outcome::failed: break;
    }
    co_return zk::to_error(attempt->failure(), spec->operation, spec->queue->path);
  }
}

}  // namespace zkrecipes::detail
