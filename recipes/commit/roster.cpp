#include "recipes/commit/roster.hpp"

#include <algorithm>
#include <map>
#include <utility>

#include "recipes/commit/node_events.hpp"

namespace zkrecipes::detail {

struct Roster::State {
  State(TreePtr where, std::chrono::milliseconds patience)
      : tree(std::move(where)), grace(patience), events(tree->client) {}

  TreePtr tree;
  std::chrono::milliseconds grace;
  NodeEvents events;
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
    state->events.set();
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
    const LoopTime absent_since = left == state_->left.end() ? *state_->known_since : left->second;
    const LoopTime gone_at = after(absent_since, state_->grace);
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
    state->events.clear();
    const auto armed = state->events.watch(zk::WatchRegistry::Kind::children);
    Request request = zk::make_request(OpType::children, state->tree->participants);
    const Call call;
    Reply listed = co_await client->perform_watching(std::move(request), call, armed->watch);
    if (!listed.ok()) {  // Not there yet, or no connection for long: no participant is taken for gone.
      if (listed.failed(Errc::closed)) co_return;
      state->known_since.reset();
      state->left.clear();  // They may come and go unseen now.
      co_await state->events.wait(from_now(pause_after_failure));
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
    if (!state->ended) co_await state->events.wait(std::nullopt);
  }
}

}  // namespace zkrecipes::detail
