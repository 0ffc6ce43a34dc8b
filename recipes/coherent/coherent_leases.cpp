// How a reader loses its leases, and how it keeps them.

#include <algorithm>
#include <utility>

#include "recipes/coherent/coherent_reader.hpp"

namespace zkrecipes::detail {

namespace {

constexpr std::size_t checks_of_a_beat = 128;

}  // namespace

// --- Losing it ------------------------------------------------------------------------------------------------------

void CoherentReader::let_go(std::uint32_t shard) {
  const auto place = shards_.find(shard);
  if (place == shards_.end() || !place->second.hold) return;
  const Hold hold = std::move(*place->second.hold);
  place->second.hold.reset();
  table_->revoke(shard);
  zk::delete_in_background(client_, hold.path, hold.session);
  if (--holds_ > 0) return;
  if (proving_) keeper_->drop(*std::exchange(proving_, std::nullopt));
  ended_.set();
}

void CoherentReader::let_go_all() {
  std::vector<std::uint32_t> held;
  for (const auto& [shard, of] : shards_) {
    if (of.hold) held.push_back(shard);
  }
  for (const std::uint32_t shard : held)
    let_go(shard);
}

void CoherentReader::close() {
  let_go_all();
  closing_->request();
  waiting_.wake_all();
  ended_.set();
}

// --- Keeping it -----------------------------------------------------------------------------------------------------

// The leases end with what is certain of the session, for good: what is promised anew afterwards does not revive them.
void CoherentReader::keep_proven(const std::shared_ptr<SessionState>& session) {
  const std::shared_ptr<zk::LeaseKeeper>& keeper = client_->keeper();
  if (client_->current() != session || (keeper_ == keeper && proving_)) return;
  keeper_ = keeper;
  const auto end_all = [weak = weak_from_this()] {
    const auto self = weak.lock();
    if (self == nullptr) return;
    self->proving_.reset();
    self->let_go_all();
  };
  zk::LeaseKeeper::Holder holder;
  holder.gone = end_all;
  holder.expired = [end_all](const std::string&) { end_all(); };
  proving_ = keeper_->hold(layout_->items(), std::move(holder));
}

Awaitable<void> CoherentReader::renew(std::shared_ptr<CoherentReader> self) {
  while (self->holds_ > 0) {
    const auto pause = self->term_of(*self->client_->current()) / 4;
    co_await self->ended_.wait(std::chrono::steady_clock::now() + pause);
    self->ended_.clear();
    self->drop_lapsed();
    std::vector<Beat> beats = self->launch_beats();
    for (Beat& beat : beats)
      co_await self->settle(std::move(beat));
  }
  self->renewing_ = false;
}

void CoherentReader::drop_lapsed() {
  const auto now = BootClock::now();
  std::vector<std::uint32_t> lapsed;
  for (const auto& [shard, of] : shards_) {
    if (of.hold && !table_->valid(shard, now)) lapsed.push_back(shard);
  }
  for (const std::uint32_t shard : lapsed)
    let_go(shard);
}

std::vector<CoherentReader::Beat> CoherentReader::launch_beats() {
  std::vector<Beat> beats;
  for (const auto& [shard, of] : shards_) {
    if (!of.hold || of.hold->session != client_->current()) continue;
    if (beats.empty() || beats.back().checks.size() == checks_of_a_beat) beats.emplace_back();
    beats.back().checks.emplace_back(shard, of.hold->epoch);
  }
  Call call;
  call.bound = client_->current();
  for (Beat& beat : beats)
    launch(beat, call);
  return beats;
}

void CoherentReader::launch(Beat& beat, const Call& call) {
  Request multi = zk::make_request(OpType::multi, layout_->items());
  for (const auto& [shard, epoch] : beat.checks)
    multi.operations.emplace_back(zkclient::Check{Path(layout_->gate(shard)), epoch});
  beat.pending = client_->launch(std::move(multi), call);
}

// A check that is refused ends its own lease; the others are asked for again at once.
Awaitable<void> CoherentReader::settle(Beat beat) {
  Call call;
  call.bound = client_->current();
  while (!beat.checks.empty()) {
    const Reply reply = co_await beat.pending.get();
    const auto now = BootClock::now();
    if (reply.ok()) {
      // What has run out by now is over: the keeper says so first.
      if (client_->current() == reply.session) client_->keeper()->acknowledged(reply.sent);
      for (const auto& [shard, epoch] : beat.checks)
        table_->renew(shard, epoch, reply.sent, now);
      co_return;
    }
    const std::optional<zk::Refusal> refusal = reply.refusal();
    if (!refusal || refusal->index >= beat.checks.size()) co_return;  // Lost on the way: there is the next one.
    const auto refused = beat.checks.begin() + static_cast<std::ptrdiff_t>(refusal->index);
    const std::optional<Hold>& hold = shards_[refused->first].hold;
    if (hold && hold->epoch == refused->second) let_go(refused->first);
    beat.checks.erase(refused);
    if (!beat.checks.empty()) launch(beat, call);
  }
}

}  // namespace zkrecipes::detail
