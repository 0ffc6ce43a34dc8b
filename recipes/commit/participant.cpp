#include "recipes/commit/participant.hpp"

#include <algorithm>
#include <random>

#include "recipes/commit/participant_transaction.hpp"
#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

using zk::Awaitable;
using zk::Call;
using zk::OpType;
using zk::Reply;
using zk::Request;
using zkclient::CreateMode;
using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;
using zkclient::Result;
using zkclient::Transaction;

namespace {

constexpr const char* operation = "serve transactions";
constexpr auto pause_after_failure = std::chrono::milliseconds(200);
constexpr std::size_t max_swept_at_once = 16;

LoopTime from_now(std::chrono::milliseconds time) { return std::chrono::steady_clock::now() + time; }

// So that those who began together do not go on together.
std::chrono::milliseconds scattered(std::chrono::milliseconds time) {
  thread_local std::minstd_rand random{std::random_device{}()};
  return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(time.count() / 2, time.count())(random));
}

}  // namespace

// --- The board ----------------------------------------------------------------------------------------------------

void InDoubtBoard::put(InDoubtTransaction transaction) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[transaction.id];
  if (transaction.payload.empty()) transaction.payload = std::move(entry.transaction.payload);
  entry.transaction = std::move(transaction);
}

void InDoubtBoard::set_problem(const std::string& id, std::string problem, bool resolvable) {
  const std::lock_guard lock(mutex_);
  Entry& entry = entries_[id];
  entry.transaction.id = id;
  entry.transaction.problem = std::move(problem);
  entry.resolvable = resolvable;
}

void InDoubtBoard::remove(const std::string& id) {
  const std::lock_guard lock(mutex_);
  entries_.erase(id);
}

std::vector<InDoubtTransaction> InDoubtBoard::list() const {
  const std::lock_guard lock(mutex_);
  std::vector<InDoubtTransaction> all;
  all.reserve(entries_.size());
  for (const auto& [id, entry] : entries_)
    all.push_back(entry.transaction);
  return all;
}

bool InDoubtBoard::resolve(const std::string& id, bool commit) {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  if (found == entries_.end() || !found->second.resolvable) return false;
  found->second.resolved = commit;
  return true;
}

std::optional<bool> InDoubtBoard::resolution(const std::string& id) const {
  const std::lock_guard lock(mutex_);
  const auto found = entries_.find(id);
  return found == entries_.end() ? std::nullopt : found->second.resolved;
}

// --- Begin and end ------------------------------------------------------------------------------------------------

std::shared_ptr<CommitServer> CommitServer::make(CommitServerSetup setup, CommitHandlers handlers) {
  const std::shared_ptr<zk::Loop> loop = setup.tree->client->loop();
  const auto destroy = [loop](CommitServer* server) { loop->post([owned = std::unique_ptr<CommitServer>(server)] {}); };
  return {new CommitServer(std::move(setup), std::move(handlers)), destroy};
}

CommitServer::CommitServer(CommitServerSetup setup, CommitHandlers handlers)
    : setup_(std::move(setup)),
      tree_(setup_.tree),
      runner_(std::make_shared<HandlerExecutor>(tree_->client, setup_.log, std::move(handlers))),
      driver_(std::make_shared<TransactionDriver>(tree_, setup_.absence_grace)),
      wake_(tree_->client) {
  setup_.log = nullptr;  // The runner has it, until it has finished.
  call_.cancel = std::make_shared<zk::CancelScope>();
  if (setup_.sweep_interval.count() > 0) next_sweep_ = from_now(scattered(setup_.sweep_interval));
}

bool CommitServer::ended() const { return ending_ || tree_->client->closing(); }

void CommitServer::end() {
  ending_ = true;
  call_.cancel->request();
  for (const auto& [id, served] : served_)
    served->wake.signal()->set();
}

Awaitable<void> CommitServer::serve(std::shared_ptr<CommitServer> self, Call call, std::vector<LoggedTransaction> open,
                                    zkclient::UniqueFunction<void(Result<void>)> done) {
  self->deadline_ = call.deadline;
  self->stop_ = call.cancel;
  self->runner_->on_failure([weak = self->weak_from_this()] {
    const auto alive = weak.lock();
    if (alive == nullptr) return;
    alive->end();  // Also what waits for a connection.
    alive->wake_.signal()->set();
  });
  const zk::CancelScope::Guard stopped(call.cancel, [self] {
    self->end();
    self->wake_.signal()->set();
  });
  for (LoggedTransaction& transaction : open) {
    const std::string id = transaction.id;
    self->take_up(id, std::move(transaction));
  }
  co_await self->attend();
  self->end();
  co_await self->wind_up();
  auto finish = [self, done = std::move(done)]() mutable {
    if (self->runner_->failure()) self->failure_ = self->runner_->failure();
    if (self->failure_) {
      done(*self->failure_);
    } else if (self->tree_->client->closing()) {
      done(Error(Errc::closed, operation, self->tree_->path));
    } else {
      done(Result<void>());
    }
  };
  self->runner_->finish(std::move(finish));
}

// Nothing of ours runs any more when we leave, or the client is closing, and waits for that itself.
Awaitable<void> CommitServer::wind_up() {
  while (!served_.empty()) {
    wake_.clear();
    Wake waiting(tree_->client);
    for (const auto& [id, served] : served_)
      served->ended = waiting.signal();
    co_await waiting.signal()->wait(std::nullopt);
  }
  if (tree_->client->closing()) co_return;
  const auto idle = std::make_shared<bool>(false);
  runner_->finish([client = tree_->client, signal = wake_.signal(), idle] {
    client->loop()->post([signal, idle] {
      *idle = true;
      signal->set();
    });
  });
  while (!*idle && !tree_->client->closing()) {
    wake_.clear();
    co_await wake_.wait(std::nullopt);
  }
  if (session_ == nullptr || tree_->client->closing()) co_return;
  Call last;
  last.bound = session_;
  last.deadline = from_now(std::chrono::seconds(1));
  Request remove = zk::make_request(OpType::remove, tree_->presence(setup_.name));
  (void)co_await tree_->client->perform(std::move(remove), last);
}

void CommitServer::wake_up(const std::string& id) {
  const auto found = served_.find(id);
  if (found != served_.end()) found->second->wake.signal()->set();
}

void CommitServer::take_up(const std::string& id, std::optional<LoggedTransaction> logged) {
  if (ended() || served_.contains(id)) return;
  auto served = std::make_shared<Served>(tree_->client);
  served->transaction.id = id;
  if (logged) {
    served->logged = logged->state;
    if (auto data = decode_logged(logged->data)) {
      served->transaction.payload = std::move(data->payload);
      served->tree = data->tree;
    }
  }
  served_.emplace(id, served);
  zk::spawn(handle(shared_from_this(), served));
}

Awaitable<void> CommitServer::handle(std::shared_ptr<CommitServer> self, ServedPtr served) {
  {
    Handling handling(*self, served);
    co_await handling.run();
  }
  self->served_.erase(served->transaction.id);
  if (served->ended != nullptr) served->ended->set();
}

// --- Presence and inbox -------------------------------------------------------------------------------------------

Awaitable<void> CommitServer::attend() {
  const auto over = [this] {
    const bool stopped = stop_ != nullptr && stop_->requested();
    const bool late = deadline_ && std::chrono::steady_clock::now() >= *deadline_;
    return ended() || stopped || late || runner_->failure();
  };
  while (!over()) {
    wake_.clear();
    Reply reply = co_await be_present();
    const bool present = reply.ok() && session_ != nullptr;
    if (present) reply = co_await read_inbox();
    if (over()) co_return;
    if (!reply.ok()) {
      if (reply.failed(Errc::no_auth)) {
        failure_ = zk::to_error(reply, operation, tree_->path);
        co_return;
      }
      const LoopTime again = from_now(pause_after_failure);
      co_await wake_.wait(deadline_ ? std::min(*deadline_, again) : again);
      continue;
    }
    if (next_sweep_ && std::chrono::steady_clock::now() >= *next_sweep_) {
      next_sweep_ = from_now(scattered(setup_.sweep_interval));
      if (present && !std::exchange(sweeping_, true)) zk::spawn(sweep(shared_from_this()));
    }
    std::optional<LoopTime> next = next_sweep_;
    if (deadline_) next = std::min(next.value_or(*deadline_), *deadline_);
    co_await wake_.wait(next);
  }
}

// Ok with a null session_: somebody else has our name, and we wait until it goes.
Awaitable<Reply> CommitServer::be_present() {
  Call call = call_;
  call.deadline = deadline_;
  Reply reply = co_await tree_->client->connected(call);
  if (!reply.ok()) co_return reply;
  const auto session = reply.session;
  if (session_ == session && presence_ != nullptr && !presence_->event) co_return reply;
  session_ = nullptr;
  call.bound = session;
  if (greeted_ != session) {
    // What this server knows must not be older than what we knew in the last session: what we have acknowledged is gone.
    Request sync = zk::make_request(OpType::sync, tree_->transactions);
    reply = co_await tree_->client->perform(std::move(sync), call);
    if (reply.ok() || reply.failed(Errc::no_node)) {
      std::vector<std::string> wanted{tree_->inbox(setup_.name)};
      reply = co_await ensure_tree(tree_, std::move(wanted), call);
    }
    if (!reply.ok()) co_return reply;
    greeted_ = session;
    inbox_ = nullptr;
    inbox_version_ = -1;
  }
  for (;;) {
    presence_ = wake_.watch();
    Request get = zk::make_request(OpType::get, tree_->presence(setup_.name));
    reply = co_await tree_->client->perform_watching(std::move(get), call, presence_->watch);
    const bool ours = reply.ok() && reply.data == setup_.identity;
    if (ours && reply.stat.ephemeral_owner == session->id()) {
      session_ = session;
      for (const auto& [id, served] : served_)
        served->wake.signal()->set();
      co_return reply;
    }
    if (!reply.ok() && !reply.failed(Errc::no_node)) co_return reply;
    if (reply.ok() && !ours) co_return reply;
    reply = co_await claim_presence(std::move(reply));
    if (!reply.ok()) co_return reply;
  }
}

// Nobody has the name, or the process that had it had our log: it is dead, or it would hold the log's lock.
Awaitable<Reply> CommitServer::claim_presence(Reply found) {
  const std::string node = tree_->presence(setup_.name);
  Request claim = zk::make_request(OpType::multi, node);
  if (found.ok()) claim.operations.emplace_back(Transaction::Remove{Path(node), found.stat.version});
  claim.operations.emplace_back(Transaction::Create{Path(node), setup_.identity, CreateMode::ephemeral, tree_->acl});
  Call call = call_;
  call.deadline = deadline_;
  call.bound = greeted_;
  Reply reply = co_await tree_->client->perform(std::move(claim), call);
  const auto failed = failed_operation(reply);
  if (failed && failed->code == zk::rc::no_node && !found.ok()) {
    co_await wait_until_made_again();
    std::vector<std::string> wanted{tree_->inbox(setup_.name)};
    reply = co_await ensure_tree(tree_, std::move(wanted), call);
  } else if (failed || (reply.failed(Errc::in_doubt) && !reply.given_up)) {
    reply.error.reset();  // Look again.
  }
  co_return reply;
}

// Somebody has removed the tree, and may not be done: making it anew at once, again and again, would keep him from that.
Awaitable<void> CommitServer::wait_until_made_again() {
  const Wake pause(tree_->client);  // Of its own, so that nothing wakes it, and nothing is missed.
  co_await pause.wait(from_now(pause_after_failure));
}

Awaitable<Reply> CommitServer::read_inbox() {
  Call call = call_;
  call.deadline = deadline_;
  call.bound = session_;
  const std::string inbox = tree_->inbox(setup_.name);
  while (inbox_ == nullptr || inbox_->event) {
    inbox_ = wake_.watch();
    Request get = zk::make_request(OpType::get, inbox);
    Reply read = co_await tree_->client->perform_watching(std::move(get), call, inbox_->watch);
    if (!read.ok()) inbox_ = nullptr;
    if (read.failed(Errc::no_node)) {
      co_await wait_until_made_again();
      std::vector<std::string> wanted{inbox};
      Reply made = co_await ensure_tree(tree_, std::move(wanted), call);
      if (!made.ok()) co_return made;
      continue;
    }
    if (!read.ok()) co_return read;
    const bool same = inbox_version_ >= 0 && read.stat.czxid == inbox_czxid_;
    if (same && read.stat.version == inbox_version_) continue;
    if (same && read.stat.version == inbox_version_ + 1) {
      inbox_version_ = read.stat.version;
      take_up(read.data);
      continue;
    }
    // More than one since, or we have just come: list them. The list has a version, too, so that nothing is taken up twice.
    Request list = zk::make_request(OpType::children, inbox);
    Reply listed = co_await tree_->client->perform(std::move(list), call);
    if (!listed.ok()) {
      inbox_ = nullptr;
      co_return listed;
    }
    if (inbox_version_ < 0 || read.stat.czxid != inbox_czxid_) {
      Request exists = zk::make_request(OpType::exists, tree_->transactions);
      Reply tree = co_await tree_->client->perform(std::move(exists), call);
      if (!tree.ok()) {
        inbox_ = nullptr;
        co_return tree;
      }
      tree_czxid_ = tree.stat.czxid;
      for (const auto& [id, served] : served_)
        served->wake.signal()->set();
    }
    inbox_czxid_ = listed.stat.czxid;
    inbox_version_ = listed.stat.version;
    for (const std::string& id : listed.names)
      take_up(id);
  }
  co_return Reply{};
}

// --- What nobody finishes -----------------------------------------------------------------------------------------

Awaitable<void> CommitServer::sweep(std::shared_ptr<CommitServer> self) {
  Result<std::vector<std::string>> found = co_await self->driver_->orphans(self->call_);
  if (found) {
    const std::set<std::string> before =
        std::exchange(self->swept_, std::set<std::string>(found->begin(), found->end()));
    for (std::string& id : *found) {
      if (self->ended() || self->driver_->active() >= max_swept_at_once) break;
      if (!before.contains(id)) continue;  // It had less time than a sweep interval.
      Result<DrivePtr> adopted = co_await self->driver_->adopt(std::move(id), self->call_);
      if (!adopted) break;
    }
  }
  self->sweeping_ = false;
}

}  // namespace zkrecipes::detail
