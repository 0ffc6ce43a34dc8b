#include "recipes/commit/orphan_sweep.hpp"

#include <random>
#include <utility>
#include <vector>

#include "zkclient/detail/recipe_random.hpp"

namespace zkrecipes::detail {

namespace {

constexpr std::size_t max_at_once = 16;

// So that participants that began together do not sweep together.
std::chrono::milliseconds scattered(std::chrono::milliseconds time) {
  thread_local std::minstd_rand random{static_cast<std::uint32_t>(zkclient::detail::random_seed())};
  return std::chrono::milliseconds(std::uniform_int_distribution<std::int64_t>(time.count() / 2, time.count())(random));
}

}  // namespace

OrphanSweep::OrphanSweep(ParticipantStatePtr state, std::chrono::milliseconds interval)
    : state_(std::move(state)), interval_(interval) {
  if (interval_.count() > 0) next_ = from_now(scattered(interval_));
}

void OrphanSweep::start_when_due() {
  if (!next_ || std::chrono::steady_clock::now() < *next_) return;
  next_ = from_now(scattered(interval_));
  const bool present = state_->session != nullptr;
  if (present && !std::exchange(sweeping_, true)) zk::spawn(sweep(shared_from_this()));
}

// A transaction is adopted when two sweeps have seen it: before, it had less time than an interval.
Awaitable<void> OrphanSweep::sweep(std::shared_ptr<OrphanSweep> self) {
  const ParticipantState& state = *self->state_;
  zk::Call call;
  call.cancel = state.cancel;
  Result<std::vector<std::string>> found = co_await state.driver->orphans(call);
  if (found) {
    const std::set<std::string> before =
        std::exchange(self->seen_, std::set<std::string>(found->begin(), found->end()));
    for (std::string& id : *found) {
      if (state.ended() || state.driver->active() >= max_at_once) break;
      if (!before.contains(id)) continue;
      Result<DrivePtr> adopted = co_await state.driver->adopt(std::move(id), call);
      if (!adopted) break;
    }
  }
  self->sweeping_ = false;
}

}  // namespace zkrecipes::detail
