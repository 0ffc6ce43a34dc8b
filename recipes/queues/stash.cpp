#include "recipes/queues/stash.hpp"

#include <algorithm>
#include <utility>

#include "recipes/queues/candidate_items.hpp"

namespace zkrecipes::detail {

using std::chrono::steady_clock;

namespace {

constexpr auto longest_unused = std::chrono::seconds(1);

}  // namespace

void Stash::note_demand() { last_demand_ = steady_clock::now(); }

bool Stash::in_demand() const { return steady_clock::now() - last_demand_ < longest_unused; }

void Stash::put(Taken claim) {
  const auto place = std::find_if(claims_.begin(), claims_.end(),
                                  [&](const Taken& other) { return goes_before(claim.key, other.key); });
  claims_.insert(place, std::move(claim));
}

bool Stash::ready() {
  const auto is_lost = [](const Taken& claim) {
    const LeaseState state = claim.lease->state();
    return state != LeaseState::held && state != LeaseState::uncertain;
  };
  while (!claims_.empty() && is_lost(claims_.front())) {
    const Taken lost = take();  // First: a loss wakes others, which may look in here.
    lost.lease->notice_end();
  }
  return !claims_.empty();
}

Taken Stash::take() {
  Taken first = std::move(claims_.front());
  claims_.pop_front();
  return first;
}

void Stash::retire() {
  retired_ = true;
  wake_.set();
}

zk::Awaitable<std::deque<Taken>> Stash::unused() {
  while (ready() && !retired_ && in_demand()) {
    wake_.clear();
    co_await wake_.wait(last_demand_ + longest_unused);
  }
  returning_ = false;
  co_return std::exchange(claims_, {});
}

}  // namespace zkrecipes::detail
