#include "recipes/commit/commit_tree.hpp"

#include <algorithm>
#include <random>

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
using zkclient::Transaction;
using zkclient::WatchEventType;

// --- Paths --------------------------------------------------------------------------------------------------------

namespace {

std::string joined(std::string_view parent, std::string_view name) {
  std::string path(parent);
  path += '/';
  path += name;
  return path;
}

}  // namespace

CommitTree::CommitTree(std::shared_ptr<zk::ClientCore> core, const Path& where, zkclient::AclList list)
    : client(std::move(core)), path(where.str()), acl(std::move(list)) {
  const std::string root = client->full(where) == "/" ? std::string() : client->full(where);
  participants = root + "/participants";
  inboxes = root + "/inbox";
  transactions = root + "/transactions";
}

std::string CommitTree::presence(std::string_view name) const { return joined(participants, name); }
std::string CommitTree::inbox(std::string_view name) const { return joined(inboxes, name); }
std::string CommitTree::inbox_entry(std::string_view name, std::string_view id) const {
  return joined(joined(inboxes, name), id);
}
std::string CommitTree::transaction(std::string_view id) const { return joined(transactions, id); }
std::string CommitTree::child(std::string_view id, std::string_view name) const {
  return joined(joined(transactions, id), name);
}
std::string CommitTree::child(std::string_view id, std::string_view prefix, std::string_view name) const {
  std::string path_of = joined(joined(transactions, id), prefix);
  path_of += name;
  return path_of;
}
std::string CommitTree::shown(std::string_view id) const { return client->stripped(transaction(id)); }

// --- Nodes --------------------------------------------------------------------------------------------------------

Awaitable<Reply> ensure_tree(TreePtr tree, std::vector<std::string> wanted, Call call) {
  // Persistent, all of them: a container that is empty for a moment would be removed, and with it what it stands for.
  wanted.insert(wanted.end(), {tree->participants, tree->inboxes, tree->transactions});
  Reply reply;
  for (const std::string& node : wanted) {
    reply = co_await tree->client->ensure(node, CreateMode::persistent, tree->acl, call);
    if (!reply.ok()) co_return reply;
  }
  co_return reply;
}

Awaitable<Reply> certain(TreePtr tree, std::string path, Call call) {
  const PendingReply synced = tree->client->launch(zk::make_request(OpType::sync, path), call);
  const PendingReply read = tree->client->launch(zk::make_request(OpType::exists, path), call);
  Reply sync = co_await synced.get();
  Reply exists = co_await read.get();
  co_return sync.ok() ? exists : sync;
}

std::optional<FailedOperation> failed_operation(Reply& reply) {
  if (!reply.failed(Errc::transaction_failed)) return std::nullopt;
  for (std::size_t i = 0; i < reply.codes.size(); ++i) {
    const int code = reply.codes[i];
    if (code == zk::rc::ok || code == zk::rc::runtime_inconsistency) continue;
    const bool raced = code == zk::rc::no_node || code == zk::rc::node_exists || code == zk::rc::bad_version ||
                       code == zk::rc::not_empty;
    if (raced) return FailedOperation{i, code};
    reply.error = zk::rc::to_errc(code);
    break;
  }
  return std::nullopt;
}

// --- Wake ---------------------------------------------------------------------------------------------------------

Wake::WatchPtr Wake::watch(zk::WatchRegistry::Kind kind) const {
  auto made = std::make_shared<NodeWatch>();
  made->watch = std::make_shared<zk::LoopWatch>(
      client_, kind, [signal = signal_, weak = std::weak_ptr<NodeWatch>(made)](WatchEventType type) {
        const auto alive = weak.lock();
        if (alive == nullptr) return;
        alive->event = type;
        signal->set();
      });
  return made;
}

Awaitable<void> Wake::wait(std::optional<LoopTime> deadline) const {
  if (client_->closing()) co_return;
  struct Observation {
    std::shared_ptr<zk::SessionState> session;
    zk::SessionState::ObserverId id;
    ~Observation() { session->forget(id); }
  };
  const auto session = client_->current();
  const Observation observation{session, session->observe([signal = signal_.get(), raw = session.get()] {
                                  if (raw->over()) signal->set();
                                })};
  co_await signal_->wait(deadline);
}

// --- Roll ---------------------------------------------------------------------------------------------------------

namespace {

std::minstd_rand& dice() {
  thread_local std::minstd_rand random{std::random_device{}()};
  return random;
}

}  // namespace

VoteTally::VoteTally(TreePtr tree, const Wake& wake, std::string id, std::string_view prefix,
                     const std::vector<std::string>& names)
    : tree_(std::move(tree)), wake_(wake), id_(std::move(id)), prefix_(prefix), missing_(names) {
  std::shuffle(missing_.begin(), missing_.end(), dice());
}

void VoteTally::mark(const std::string& name) {
  if (std::erase(missing_, name) > 0) seen_.insert(name);
}

void VoteTally::note(const Ballot& ballot) {
  for (const std::string& name : prefix_ == vote_prefix ? ballot.voted : ballot.acknowledged)
    mark(name);
}

Awaitable<Reply> VoteTally::list(Call call) {
  Request request = zk::make_request(OpType::children, tree_->transaction(id_));
  Reply listed = co_await tree_->client->perform(std::move(request), call);
  if (listed.ok()) note(sort_out(listed.names));
  co_return listed;
}

Awaitable<Reply> VoteTally::advance(Call call) {
  constexpr std::size_t few = 2;  // So few that asking for each costs no more than listing all.
  const std::string watched = missing_.empty() ? std::string() : missing_.back();
  if (watch_ != nullptr && watch_->event) {
    if (watch_->event == WatchEventType::created) {
      mark(watched);
      list_ = list_ || missing_.size() > few;
    } else {
      list_ = true;  // The session is a new one: is the transaction still there?
    }
    watch_ = nullptr;
  }
  while (!missing_.empty()) {
    if (list_) {
      const std::string before = missing_.back();
      Reply listed = co_await list(call);
      if (!listed.ok()) co_return listed;
      list_ = false;
      if (watch_ != nullptr && (missing_.empty() || missing_.back() != before)) watch_ = nullptr;
      continue;
    }
    if (watch_ != nullptr) break;
    auto armed = wake_.watch();
    const std::string name = missing_.back();
    Request request = zk::make_request(OpType::exists, tree_->child(id_, prefix_, name));
    Reply seen = co_await tree_->client->perform_watching(std::move(request), call, armed->watch);
    if (seen.ok()) {
      mark(name);
    } else if (seen.failed(Errc::no_node)) {
      watch_ = std::move(armed);
    } else {
      co_return seen;
    }
  }
  co_return Reply{};
}

// --- Roster -------------------------------------------------------------------------------------------------------

struct Roster::State {
  State(TreePtr where, std::chrono::milliseconds patience)
      : tree(std::move(where)), grace(patience), wake(tree->client) {}

  TreePtr tree;
  std::chrono::milliseconds grace;
  Wake wake;
  bool followed = false;
  bool ended = false;
  std::optional<LoopTime> known_since;
  std::set<std::string, std::less<>> present;
  std::map<std::string, LoopTime, std::less<>> left;
  std::vector<std::weak_ptr<zk::Signal>> told;
};

Roster::Roster(TreePtr tree, std::chrono::milliseconds grace)
    : state_(std::make_shared<State>(std::move(tree), grace)) {}

// On whichever thread the last owner is.
Roster::~Roster() {
  const auto loop = state_->tree->client->loop();
  loop->post([state = std::move(state_)] {
    state->ended = true;
    state->wake.signal()->set();
  });
}

void Roster::follow() {
  if (std::exchange(state_->followed, true)) return;
  zk::spawn(watch(state_));
}

Roster::Absence Roster::absence(const std::vector<std::string>& names,
                                const std::set<std::string, std::less<>>& voted) const {
  Absence result;
  if (!state_->known_since) return result;
  const auto now = std::chrono::steady_clock::now();
  for (const std::string& name : names) {
    if (voted.contains(name) || state_->present.contains(name)) continue;
    const auto left = state_->left.find(name);
    const LoopTime gone_at = (left == state_->left.end() ? *state_->known_since : left->second) + state_->grace;
    if (gone_at <= now) {
      result.gone = name;
      return result;
    }
    result.next = std::min(result.next.value_or(gone_at), gone_at);
  }
  return result;
}

void Roster::tell(const std::shared_ptr<zk::Signal>& signal) {
  bool known = false;
  std::erase_if(state_->told, [&](const auto& weak) {
    const auto alive = weak.lock();
    known = known || alive == signal;
    return alive == nullptr;
  });
  if (!known) state_->told.push_back(signal);
}

Awaitable<void> Roster::watch(std::shared_ptr<State> state) {
  const auto& client = state->tree->client;
  while (!state->ended && !client->closing()) {
    state->wake.clear();
    const auto armed = state->wake.watch(zk::WatchRegistry::Kind::children);
    Request request = zk::make_request(OpType::children, state->tree->participants);
    const Call call;
    Reply listed = co_await client->perform_watching(std::move(request), call, armed->watch);
    if (!listed.ok()) {  // Not there yet, or no connection: nobody is taken for gone.
      if (listed.failed(Errc::closed)) co_return;
      co_await state->wake.wait(std::chrono::steady_clock::now() + std::chrono::milliseconds(200));
      continue;
    }
    const auto now = std::chrono::steady_clock::now();
    if (!state->known_since) state->known_since = now;
    std::set<std::string, std::less<>> present(listed.names.begin(), listed.names.end());
    for (const std::string& name : state->present) {
      if (!present.contains(name)) state->left[name] = now;
    }
    for (const std::string& name : present)
      state->left.erase(name);
    state->present = std::move(present);
    for (const auto& weak : state->told) {
      if (const auto signal = weak.lock()) signal->set();
    }
    if (!state->ended) co_await state->wake.wait(std::nullopt);
  }
}

// --- The decision -------------------------------------------------------------------------------------------------

Awaitable<DecisionFound> read_decision(TreePtr tree, std::string id, Call call) {
  DecisionFound found;
  Request get = zk::make_request(OpType::get, tree->child(id, decision_node));
  Reply read = co_await tree->client->perform(std::move(get), call);
  if (read.ok()) {
    found.decision = decode_decision(read.data);
    if (!found.decision) {
      found.failure.error = Errc::foreign_node;
      found.failure.detail = "the decision is not one of ours";
    }
    co_return found;
  }
  if (!read.failed(Errc::no_node)) {
    found.failure = std::move(read);
    co_return found;
  }
  std::string node = tree->transaction(id);
  Reply exists = co_await certain(tree, std::move(node), call);
  if (exists.failed(Errc::no_node)) {
    found.gone = true;
  } else if (!exists.ok()) {
    found.failure = std::move(exists);
  }
  co_return found;
}

namespace {

Request decision_request(const CommitTree& tree, const std::string& id, const std::vector<std::string>& participants,
                         const Decision& wanted) {
  const std::string node = tree.child(id, decision_node);
  Request request = zk::make_request(OpType::multi, node);
  if (wanted.committed) {
    // A vote to abort has version 1.
    for (const std::string& name : participants)
      request.operations.emplace_back(zkclient::Check{Path(tree.child(id, vote_prefix, name)), 0});
  }
  request.operations.emplace_back(Transaction::Create{Path(node), encode(wanted), CreateMode::persistent, tree.acl});
  return request;
}

}  // namespace

Awaitable<DecisionFound> make_decision(TreePtr tree, std::string id, std::vector<std::string> participants,
                                       Decision wanted, Call call) {
  for (;;) {
    Request request = decision_request(*tree, id, participants, wanted);
    Reply reply = co_await tree->client->perform(std::move(request), call);
    DecisionFound found;
    if (reply.ok()) {
      found.decision = std::move(wanted);
      co_return found;
    }
    // If it was done, the next attempt finds it: it does not matter who has decided.
    if (reply.failed(Errc::in_doubt) && !reply.given_up) continue;
    if (!failed_operation(reply)) {
      found.failure = std::move(reply);
      co_return found;
    }
    found = co_await read_decision(tree, id, call);
    co_return found;
  }
}

}  // namespace zkrecipes::detail
