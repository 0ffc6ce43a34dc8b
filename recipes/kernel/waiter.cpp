#include "recipes/kernel/waiter.hpp"

#include <algorithm>
#include <ctime>

#include <fmt/format.h>

namespace zkrecipes::detail {

namespace {

Reply obstacle_reply(const zk::LeaseKeeper& keeper) {
  Reply reply;
  if (const auto why = keeper.obstacle()) {
    reply.error = why->code;
    reply.detail = why->detail;
  }
  return reply;
}

}  // namespace

Awaitable<Reply> find_obstacle(std::shared_ptr<zk::ClientCore> client, std::shared_ptr<zk::LeaseKeeper> keeper,
                               zk::Call call) {
  Reply obstructed = obstacle_reply(*keeper);
  if (!obstructed.failed(Errc::connection_too_slow)) co_return obstructed;
  Request write = existence_check("/");  // It was slow; perhaps no proof has come since.
  Reply measured = co_await client->perform(std::move(write), call);
  if (measured.ok()) keeper->acknowledged(measured.sent);
  co_return obstacle_reply(*keeper);
}

Waiter::Waiter(std::shared_ptr<zk::ClientCore> client, zk::Call call)
    : client_(std::move(client)), call_(std::move(call)), wake_(client_->events()) {}

Waiter::~Waiter() {
  if (proving_) keeper_->drop(*proving_);
  if (observing_) session_->forget(observer_);
}

Awaitable<Reply> Waiter::enter() {
  Reply connected = co_await client_->connected(call_);
  if (!connected.ok()) co_return connected;
  session_ = call_.bound = connected.session;
  keeper_ = client_->keeper();
  observer_ = session_->observe([this] { wake_.set(); });
  observing_ = true;
  if (call_.cancel != nullptr && !call_.cancel->requested()) {
    cancelled_ = zk::CancelScope::Guard(call_.cancel, [this] { wake_.set(); });
  }
  co_return connected;
}

Awaitable<Reply> Waiter::enter_to_hold() {
  Reply entered = co_await enter();
  if (!entered.ok()) co_return entered;
  Reply obstructed = co_await find_obstacle(client_, keeper_, call_);
  co_return obstructed.ok() ? std::move(entered) : std::move(obstructed);
}

Awaitable<Reply> Waiter::stay_proven(std::string path) {
  while (keeper_->seems_too_slow()) {
    Request check_path = existence_check(path);
    Reply checked = co_await check(std::move(check_path));
    if (checked.failed(Errc::no_node)) break;  // The waiter finds out by itself.
    if (!checked.ok()) co_return checked;
  }
  if (!proving_) proving_ = keeper_->stay_proven(path);
  co_return obstacle();
}

Reply Waiter::obstacle() const { return obstacle_reply(*keeper_); }

std::shared_ptr<Waiter::NodeWatch> Waiter::make_watch(zk::WatchRegistry::Kind kind) {
  auto made = std::make_shared<NodeWatch>();
  made->watch = std::make_shared<zk::LoopWatch>(client_, kind,
                                                [this, weak = std::weak_ptr<NodeWatch>(made)](WatchEventType type) {
                                                  const auto alive = weak.lock();
                                                  if (alive == nullptr) return;
                                                  alive->event = type;
                                                  wake_.set();
                                                });
  return made;
}

Awaitable<Reply> Waiter::fired(std::shared_ptr<NodeWatch> watch) {
  std::vector<std::shared_ptr<NodeWatch>> one = {std::move(watch)};
  Reply reply = co_await any_fired(std::move(one));
  co_return reply;
}

Awaitable<Reply> Waiter::any_fired(std::vector<std::shared_ptr<NodeWatch>> watches) {
  const auto has_fired = [](const std::shared_ptr<NodeWatch>& watch) { return watch->event.has_value(); };
  for (;;) {
    wake_.clear();
    const auto first = std::find_if(watches.begin(), watches.end(), has_fired);
    if (first != watches.end()) {
      const WatchEventType type = *(*first)->event;
      const bool ended = type == WatchEventType::session_lost || type == WatchEventType::closed;
      if (!ended) keeper_->woken();
      co_return ended ? state() : Reply{};
    }
    Reply now = state();
    if (!now.ok()) co_return now;
    co_await wake_.wait(call_.deadline);
  }
}

Awaitable<Reply> Waiter::wait_until_gone(std::string path, std::string_view relation,
                                         std::shared_ptr<NodeWatch> armed) {
  for (;;) {
    if (armed == nullptr) {
      armed = make_watch();
      // With get, not exists: a watch on a node that has vanished would stay for ever.
      Request get = zk::make_request(OpType::get, path);
      Reply seen = co_await client_->perform_watching(std::move(get), call_, armed->watch);
      if (seen.failed(Errc::no_node)) co_return Reply{};
      if (!seen.ok()) co_return seen;
      armed->node = std::move(seen);
    }
    Reply waited = co_await fired(armed);
    const bool given_up = waited.failed(Errc::deadline_exceeded) || waited.failed(Errc::cancelled);
    if (given_up && armed->node.stat.czxid != 0) {
      waited.detail = fmt::format("{} {}", relation, describe_node(client_->stripped(path), armed->node));
    }
    if (!waited.ok() || armed->event == WatchEventType::deleted) co_return waited;
    armed = nullptr;  // Its data was changed: watch again.
  }
}

Awaitable<Reply> Waiter::check(Request check) {
  Request first = check;
  Reply reply = co_await client_->perform(std::move(first), call_);
  reply = co_await checked(std::move(check), std::move(reply));
  co_return reply;
}

// A check changes nothing: when its reply is lost, it is simply asked again.
Awaitable<Reply> Waiter::checked(Request check, Reply reply) {
  while (reply.unanswered()) {
    Request again = check;
    reply = co_await client_->perform(std::move(again), call_);
  }
  if (reply.failed(Errc::in_doubt)) reply.error = *reply.given_up;
  const bool gone = reply.failed(Errc::transaction_failed) && reply.cause() == Errc::no_node;
  if (gone) reply.error = Errc::no_node;
  if (reply.ok()) keeper_->acknowledged(reply.sent);
  co_return reply;
}

Awaitable<Reply> Waiter::prove(Request nodes) {
  Reply reply;
  const auto patience = std::chrono::steady_clock::now() + 2 * session_->timeout();
  while (!keeper_->proven()) {
    reply = obstacle();
    if (!reply.ok()) break;
    if (std::chrono::steady_clock::now() > patience) {
      reply.error = Errc::connection_too_slow;
      reply.detail = fmt::format(
          "the server's answers take now less, now more time than leases of a session of {} ms stand: "
          "ask for a longer timeout (ClientOptions::session_timeout)",
          session_->timeout().count());
      break;
    }
    Request request = nodes;
    reply = co_await check(std::move(request));
    if (!reply.ok() || keeper_->proven()) break;
    if (keeper_->seems_too_slow()) continue;  // Find out at once.
    // What was heard of the session so far is too old, or too little: the next word counts only after a while.
    wake_.clear();
    const auto pause = keeper_->pause_before_proof();
    const auto later = std::chrono::steady_clock::now() + pause;
    co_await wake_.wait(call_.deadline ? std::min(*call_.deadline, later) : later);
    reply = state();
    if (!reply.ok()) break;
  }
  if (reply.ok() && session_->over()) {
    reply.error = Errc::session_lost;
    reply.detail = session_->end_reason();
  }
  co_return reply;
}

Reply Waiter::state() const {
  Reply reply;
  if (client_->closing()) {
    reply.error = Errc::closed;
  } else if (session_->over()) {
    reply.error = Errc::session_lost;
    reply.detail = session_->end_reason();
  } else if (call_.cancel != nullptr && call_.cancel->requested()) {
    reply.error = Errc::cancelled;
  } else if (call_.deadline && std::chrono::steady_clock::now() >= *call_.deadline) {
    reply.error = Errc::deadline_exceeded;
  }
  return reply;
}

std::string describe_node(const std::string& path, const Reply& node) {
  constexpr std::size_t shown = 200;
  std::string owner = node.data.substr(0, shown);
  for (char& c : owner) {
    if (static_cast<unsigned char>(c) < ' ' || c == 0x7f) c = '?';
  }
  const std::time_t seconds = node.stat.ctime_ms / 1000;
  std::tm utc{};
  ::gmtime_r(&seconds, &utc);
  char since[32];
  std::strftime(since, sizeof since, "%Y-%m-%dT%H:%M:%SZ", &utc);
  const bool persistent = node.stat.ephemeral_owner == 0;
  return fmt::format("{}{}since {} ({}{})", owner, owner.empty() ? "" : ", ", since, path,
                     persistent ? ", a persistent node: no session ends it, an operator has to delete it" : "");
}

Request existence_check(const std::string& path, const std::string& second) {
  Request check = zk::make_request(OpType::multi, path);
  check.operations.emplace_back(zkclient::Check{zkclient::Path(path)});
  if (!second.empty()) check.operations.emplace_back(zkclient::Check{zkclient::Path(second)});
  return check;
}

}  // namespace zkrecipes::detail
