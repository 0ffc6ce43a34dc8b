#include "recipes/locks/permits.hpp"

#include <fmt/format.h>

#include "recipes/kernel/attempt.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/locks/permit_decider.hpp"

namespace zkrecipes::detail {

namespace {

/// One attempt to get permits, in one session: waits for its turn, which is the inner mutex, then
///
///   create all nodes, in one flight, then list
///   loop:  decide(list, limit) -> acquired: prove, grant | wait: for a change of list or limit | vanished: start over
class PermitAttempt : public Attempt {
 public:
  using Value = std::vector<LeasePtr>;

  PermitAttempt(PermitSpecPtr spec, std::string data, int count, Patience patience, Call call)
      : Attempt(spec->turn->client, call, spec->operation, spec->turn->path),
        spec_(std::move(spec)),
        data_(std::move(data)),
        count_(count),
        patience_(patience),
        unbound_(std::move(call)),
        uuid_(zk::make_uuid()),
        marker_(spec_->turn->layout.marker(uuid_, "lease")) {}
  ~PermitAttempt() {
    if (leaves_nodes()) remove_sequential(spec_->directory, marker_, own_paths());
  }

  Awaitable<Outcome> run() {
    Result<LeasePtr> turn = co_await contend(spec_->turn, data_, patience_, unbound_);
    if (!turn) co_return fail(turn.error());
    if (*turn == nullptr) co_return Outcome::busy;
    turn_ = Lease(std::move(*turn));
    const Outcome outcome = co_await take_permits();
    turn_ = Lease();  // The next one's turn, whatever came out. After an exception the destructor gives it back.
    co_return outcome;
  }

  Value take() const { return leases(); }

 private:
  Awaitable<Outcome> take_permits() {
    Reply reply = co_await waiter_.enter_to_hold();
    if (reply.ok() && waiter_.session() != turn_.impl()->session()) co_return Outcome::vanished;
    if (reply.ok()) reply = co_await create();
    while (reply.ok()) {
      reply = co_await look();
      if (!reply.ok()) break;
      if (std::exchange(look_again_, false)) continue;
      const bool has_turn = turn_.state() != LeaseState::lost;
      const PermitStep step = has_turn ? decide_permits(children_, own_, limit_) : PermitStep::vanished;
      if (step == PermitStep::vanished) co_return Outcome::vanished;
      if (step == PermitStep::acquired) co_return co_await prove_and_grant_all();
      if (patience_ == Patience::try_once) co_return Outcome::busy;
      reply = co_await wait();
    }
    co_return fail(std::move(reply));
  }

  Awaitable<Reply> wait() {
    Reply reply = co_await waiter_.stay_proven(spec_->directory);
    if (reply.ok()) reply = co_await waiter_.any_fired(watches_);
    if (reply.failed(Errc::deadline_exceeded)) {
      reply.detail =
          fmt::format("{} of {} leases are taken, {} are wanted", children_.size() - own_.size(), limit_, own_.size());
    }
    co_return reply;
  }

  Awaitable<Outcome> prove_and_grant_all() {
    Reply proven = co_await waiter_.prove(own_nodes());
    if (!proven.ok()) co_return end(std::move(proven));
    for (const std::string& path : own_paths()) {
      LeaseCore::Grant one = make_grant(path, czxid_);
      one.data = data_;
      grant(std::move(one));
    }
    co_return Outcome::granted;
  }

  Request creation() const {
    Request all = zk::make_request(OpType::multi, spec_->directory);
    const std::string path = zk::child_path(spec_->directory, spec_->turn->layout.name(uuid_, "lease"));
    for (int i = 0; i < count_; ++i) {
      all.operations.emplace_back(
          Transaction::Create{Path(path), data_, CreateMode::ephemeral_sequential, spec_->turn->acl});
    }
    return all;
  }

  // Sets own_.
  Awaitable<Reply> create() {
    for (;;) {
      may_exist_ = true;
      Request all = creation();
      Reply created = co_await client_->perform(std::move(all), waiter_.call());
      if (created.unanswered()) {
        created = co_await recover();
        if (created.failed(Errc::no_node)) continue;  // It was not done.
        if (!created.ok() && !created.failed(Errc::session_lost) && !created.failed(Errc::closed)) {
          created.error = Errc::in_doubt;
        }
        co_return created;
      }
      if (!created.ok() && !created.failed(Errc::in_doubt)) created.error = created.cause();
      may_exist_ = created.ok() || created.failed(Errc::in_doubt);
      if (created.failed(Errc::no_node)) {
        const zkclient::CreateMode mode = spec_->turn->layout.parent_mode();
        Reply parents = co_await zk::ensure(client_, spec_->directory, mode, spec_->turn->acl, waiter_.call());
        if (!parents.ok()) co_return parents;
        continue;
      }
      if (!created.ok()) co_return created;
      waiter_.keeper()->acknowledged(created.sent);
      for (const zkclient::OperationResult& result : created.results)
        own_.push_back(std::string(zk::name_of(result.path)));
      co_return created;
    }
  }

  // The reply was lost: all nodes are there, or none. It proves nothing; see prove().
  Awaitable<Reply> recover() {
    Request list = zk::make_request(OpType::children, spec_->directory);
    Reply listed = co_await zk::fresh_by_quorum(client_, std::move(list), waiter_.call());
    if (!listed.ok()) co_return listed;
    for (const std::string& name : listed.names) {
      if (name.starts_with(marker_)) own_.push_back(name);
    }
    if (own_.empty()) listed.error = Errc::no_node;
    co_return listed;
  }

  // Reads children_, limit_ and the czxid of our nodes. A caller that waits watches what can change the answer.
  Awaitable<Reply> look() {
    watches_.clear();
    const bool watching = patience_ == Patience::wait;
    const PendingReply listing = read(OpType::children, spec_->directory, watching, zk::WatchRegistry::Kind::children);
    const PendingReply own = read(OpType::exists, zk::child_path(spec_->directory, own_.front()), false, data_watch);
    PendingReply limit;
    PendingReply turn;
    const bool reads_limit = spec_->fixed_limit == 0;
    if (reads_limit) limit = read(OpType::exists, spec_->limit_node, watching, data_watch);
    if (watching) turn = read(OpType::get, turn_.impl()->grant().path, true, data_watch);
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
    // A node of ours that is missing is no failure of the look: decide_permits() judges what is left.
    for (Reply* reply : {&limited, &mine, &seen, &listed}) {
      if (!reply->ok() && !reply->failed(Errc::no_node)) co_return std::move(*reply);
    }
    if (mine.failed(Errc::no_node)) listed.names.clear();  // Not our turn any more: its node was deleted.
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
    made = co_await zk::ensure(client_, zk::parent_of(spec_->limit_node), CreateMode::container, spec_->turn->acl,
                               waiter_.call());
    if (!made.ok()) co_return made;
    do {
      Request create = zk::make_request(OpType::create, spec_->limit_node);
      create.data = encode_limit(*spec_->initial_limit);
      create.mode = CreateMode::persistent;
      create.acl = spec_->turn->acl;
      made = co_await client_->perform(std::move(create), waiter_.call());
    } while (made.unanswered());  // Made by this call or by another: it is there.
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

  std::vector<std::string> own_paths() const {
    std::vector<std::string> paths;
    for (const std::string& name : own_)
      paths.push_back(zk::child_path(spec_->directory, name));
    return paths;
  }

  Request own_nodes() const {
    Request check = zk::make_request(OpType::multi, spec_->directory);
    for (const std::string& path : own_paths())
      check.operations.emplace_back(zkclient::Check{Path(path)});
    return check;
  }

  const PermitSpecPtr spec_;
  const std::string data_;
  const int count_;
  const Patience patience_;
  const Call unbound_;  // For the turn, which has an attempt of its own.
  const std::string uuid_;
  const std::string marker_;
  Lease turn_;                    // On the inner mutex.
  std::vector<std::string> own_;  // Names of our nodes.
  std::int64_t czxid_ = 0;        // Of all of them.
  std::vector<std::string> children_;
  int limit_ = 0;
  bool look_again_ = false;
  std::vector<std::shared_ptr<Waiter::NodeWatch>> watches_;
};

}  // namespace

Awaitable<Result<std::vector<LeasePtr>>> take_leases(PermitSpecPtr spec, std::string data, int count, Patience patience,
                                                     Call call) {
  auto make = [spec = std::move(spec), data = std::move(data), count, patience, call = std::move(call)] {
    return std::make_unique<PermitAttempt>(spec, data, count, patience, call);
  };
  return drive(std::move(make));
}

}  // namespace zkrecipes::detail
