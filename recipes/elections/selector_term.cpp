#include "recipes/elections/selector_term.hpp"

#include "recipes/kernel/timed.hpp"

namespace zkrecipes::detail {

namespace {

/// A stop callback of the task's that blocks delays the next leader by no more than this.
constexpr auto callback_patience = std::chrono::seconds(1);

}  // namespace

SelectorTerm::SelectorTerm(std::shared_ptr<LeaseCore> lease, Limits limits, std::function<void()> on_stall)
    : lease_(std::move(lease)),
      limits_(limits),
      on_stall_(std::move(on_stall)),
      wake_(std::make_shared<zk::Signal>(lease_->client()->events())) {
  alive();
}

void SelectorTerm::begin() {
  alive();
  lost_.emplace(lease_->lost(), [this] { stop_.request_stop(); });
  lease_->client()->loop()->post([self = shared_from_this()] { zk::spawn(watch(self)); });
}

void SelectorTerm::end() {
  lost_.reset();
  lease_->client()->loop()->post([self = shared_from_this()] {
    self->ended_ = true;
    self->wake_->set();
  });
}

bool SelectorTerm::leads() const noexcept {
  if (stop_.stop_requested()) return false;
  const LeaseState state = lease_->state();
  return state == LeaseState::held || state == LeaseState::uncertain;
}

void SelectorTerm::tell_to_stop() {
  Clock::rep never = 0;
  told_.compare_exchange_strong(never, Clock::now().time_since_epoch().count());
  lease_->client()->loop()->post([self = shared_from_this()] { self->wake_->set(); });
  stop_.request_stop();
}

void SelectorTerm::give_up() {
  stop_.request_stop();
  lease_->drop();
}

// --- The watchdog -------------------------------------------------------------------------------------------------

// When it has to look next.
std::optional<SelectorTerm::Clock::time_point> SelectorTerm::due() const noexcept {
  const Clock::rep told = told_.load();
  if (told != 0) return after(Clock::time_point(Clock::duration(told)), limits_.stop_grace);
  if (limits_.progress_timeout.count() == 0) return std::nullopt;
  const Clock::duration last_alive(last_alive_.load(std::memory_order_relaxed));
  return after(Clock::time_point(last_alive), limits_.progress_timeout);
}

Awaitable<void> SelectorTerm::watch(std::shared_ptr<SelectorTerm> self) {
  const std::shared_ptr<zk::SessionState> session = self->lease_->session();
  const auto observer = session->observe([wake = self->wake_] { wake->set(); });
  while (!self->ended_ && !session->over()) {
    const std::optional<Clock::time_point> due = self->due();
    if (!due || Clock::now() < *due) {
      co_await self->wake_->wait(due);
      self->wake_->clear();
      continue;
    }
    // is_leader() turns false at once; then the task is told, and only then the node goes.
    const bool stalled = self->told_.load() == 0;
    const bool ours = self->lease_->begin_release();
    co_await self->stop_and_wait();
    if (ours) self->lease_->remove_node();
    if (stalled && ours) self->on_stall_();
    break;
  }
  session->forget(observer);
}

// Sets the token; its callbacks are the user's and run on the callback executor.
Awaitable<void> SelectorTerm::stop_and_wait() {
  const auto done = std::make_shared<zk::Signal>(lease_->client()->events());
  lease_->client()->callbacks()->post(
      [self = shared_from_this(), done] {
        self->stop_.request_stop();
        self->lease_->client()->loop()->post([done] { done->set(); });
      },
      true);
  co_await done->wait(Clock::now() + callback_patience);
}

}  // namespace zkrecipes::detail
