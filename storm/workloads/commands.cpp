#include "storm/workloads/commands.hpp"

#include <algorithm>
#include <condition_variable>
#include <csignal>
#include <functional>
#include <mutex>
#include <optional>
#include <stop_token>
#include <thread>
#include <vector>

#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>

#include "storm/checkers/commands.hpp"
#include "storm/workloads/sessions.hpp"
#include "tools/zkr/run/decider.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;
using zkr::Act;
using zkr::Decision;
using zkr::Instant;

constexpr const char* commands_path = "/commands";

Instant boot_now() { return Instant(zkclient::BootClock::now().time_since_epoch()); }

using Acquire = std::function<zkrecipes::Lease(const zkclient::Client& client, const zkclient::CallOptions& call)>;

/// What a call is to meet.
struct Script {
  zkr::RunOptions options;
  // The command, and what it has started: so many lines until they end by themselves.
  std::vector<std::uint64_t> lines;
  bool heeds_term = true;
  std::uint64_t keeper_hangs_one_in = 0;     // Of so many waits one is far too long. 0: none.
  std::optional<std::uint64_t> front_lives;  // For so many lines.
  std::chrono::milliseconds longest_hang{};
};

Script some_script(Place& place) {
  const auto session = static_cast<std::uint64_t>(place.habits().most_session.count());
  Script script;
  const auto maybe = [&place](std::uint64_t one_in) { return place.below(one_in) == 0; };
  const bool is_long = maybe(place.habits().long_hold_one_in);
  script.lines.push_back(1 + place.below(is_long ? session * 3 / 2 : 1500));
  while (script.lines.size() < 3 && maybe(3))
    script.lines.push_back(1 + place.below(2000));
  script.heeds_term = !maybe(3);
  if (maybe(3)) script.options.grace = std::chrono::milliseconds(place.below(session / 4));
  if (maybe(4)) script.options.kill_margin = place.habits().least_session / 5;
  if (maybe(6)) script.options.max_hold = std::chrono::milliseconds(500 + place.below(session));
  if (maybe(3)) script.options.on_doubt = zkr::OnDoubt::freeze;
  if (maybe(3)) script.options.descendants = zkr::Descendants::wait;
  if (maybe(4)) script.options.on_revoke = 0;
  // Two of ours that stand still at the same time are too many.
  if (maybe(3)) {
    script.keeper_hangs_one_in = 1 + place.below(20);
    script.longest_hang = place.habits().most_session * 3 / 2;
  } else if (maybe(4)) {
    script.front_lives = place.below(2000);
  }
  return script;
}

/// One call of zkr. All of it but the worker, which makes the library's calls, goes by what the decider says.
class ModelledZkr {
 public:
  ModelledZkr(Place& place, Acquire acquire, Script script)
      : place_(place),
        acquire_(std::move(acquire)),
        script_(std::move(script)),
        client_(place.servers(), some_client_options(place)) {}

  /// Until nothing of it is left to do.
  void run() {
    std::thread worker([this] { work(); });
    std::thread front([this] { be_front(); });
    std::thread command([this] { be_command(); });
    be_keeper();
    {
      const std::lock_guard lock(mutex_);
      done_ = true;
    }
    changed_.notify_all();
    stop_.request_stop();
    client_.close();
    command.join();
    front.join();
    worker.join();
  }

 private:
  // --- The lease ---
  zkclient::CallOptions limits() {
    zkclient::CallOptions call;
    call.stop = stop_.get_token();
    return call;
  }
  void work() noexcept {
    try {
      client_.connect({.deadline = 20s, .stop = stop_.get_token()});
      hold(acquire_(client_, limits()));
    } catch (const zkclient::Error& error) {
      place_.note("error", 0, 0, error.what());
      stop_.stop_requested() ? leave() : finish(zkr::LeaseState::failed);
    }
  }
  void hold(zkrecipes::Lease lease) {
    const std::function<void()> tell = [this] { tell_news(); };
    const std::stop_callback lost(lease.lost(), tell);
    const std::stop_callback revoked(lease.revoke_requested(), tell);
    {
      std::unique_lock lock(mutex_);
      held_ = std::move(lease);
      lease_.state = zkr::LeaseState::held;
      lease_.timeout = client_.session().timeout();
      lease_.granted_at = boot_now();
      lease_.token = static_cast<std::uint64_t>(held_->token().value);
      news_ = true;
      changed_.notify_all();
      changed_.wait(lock, [this] { return leaving_ || done_; });
    }
    try {
      held_->release(within(std::chrono::hours(24)));
      finish(zkr::LeaseState::gone);
    } catch (const zkclient::Error&) {
      leave();
    }
  }
  void leave() {
    try {
      if (client_.session().id() != 0) {
        client_.connect({.deadline = client_.session().timeout()});
        client_.close();
      }
    } catch (const zkclient::Error&) {  // NOLINT(bugprone-empty-catch): the session is over by now.
    }
    finish(zkr::LeaseState::gone);
  }
  void finish(zkr::LeaseState state) {
    {
      const std::lock_guard lock(mutex_);
      lease_.state = state;
    }
    tell_news();
  }
  void tell_news() {
    {
      const std::lock_guard lock(mutex_);
      news_ = true;
    }
    changed_.notify_all();
  }

  // --- The keeper ---
  void be_keeper() {
    while (true) {
      const Decision decision = act_until_wait();
      if (decision.act == Act::quit) return;
      wait_until(decision.look_at);
    }
  }
  void wait_until(const std::optional<Instant>& due) {
    std::unique_lock lock(mutex_);
    if (script_.keeper_hangs_one_in != 0 && place_.below(script_.keeper_hangs_one_in) == 0) {
      hangs_ = true;
      lock.unlock();
      std::this_thread::sleep_for(
          std::chrono::milliseconds(place_.below(static_cast<std::uint64_t>(script_.longest_hang.count()))));
      lock.lock();
      hangs_ = false;
    }
    // Its real timer goes by the boot clock, which no condition variable does.
    while (!news_ && !(place_.stopped() && !told_) && !(due && boot_now() >= *due))
      changed_.wait_for(lock, due ? std::clamp<Nanos>(*due - boot_now(), 0ms, 50ms) : 50ms);
    news_ = false;
  }
  Decision act_until_wait() {
    while (true) {
      std::unique_lock lock(mutex_);
      hear_end();
      const zkr::Facts now = facts();
      const Decision decision = zkr::decide(now, past_, script_.options);
      past_ = zkr::after(past_, now, decision);
      perform(decision, lock);
      keeper_due_ = decision.look_at;
      if (decision.act == Act::wait || decision.act == Act::quit || decision.look_at) return decision;
    }
  }
  /// The world's end is near: the command is told, and ends soon; where there is none, we are.
  void hear_end() {
    if (!place_.stopped() || told_) return;
    told_ = true;
    if (child_ != zkr::Child::running) stop_signal_ = SIGTERM;
    for (std::uint64_t& left : alive_)
      left = std::min<std::uint64_t>(left, 100);
  }
  zkr::Facts facts() {
    look_at_lease();
    return {.now = boot_now(),
            .lease = lease_,
            .child = child_,
            .child_ending = child_ending_,
            .tree_empty = alive_.empty(),
            .front_gone = front_gone_,
            .told_to_end = told_,
            .stop_signal = stop_signal_,
            .drained_at = std::nullopt};
  }
  void look_at_lease() {
    if (lease_.state != zkr::LeaseState::held || leaving_) return;
    lease_.proven_at = Instant(held_->session()->proven_at().time_since_epoch());
    lease_.revoke_asked = lease_.revoke_asked || held_->revoke_requested().stop_requested();
    const Instant until(held_->valid_until().time_since_epoch());
    if (!held_->valid()) lease_.state = zkr::LeaseState::lost;
    if (lease_.state == zkr::LeaseState::held) lease_.valid_until = page_until_ = until;
  }
  void perform(const Decision& decision, std::unique_lock<std::mutex>& lock) {
    switch (decision.act) {
      case Act::run: return start_command();
      case Act::term: return end_softly();
      case Act::kill: return kill_all();
      case Act::freeze: frozen_ = true; return;
      case Act::thaw: frozen_ = false; return changed_.notify_all();
      case Act::release: return release(lock);
      default: return;
    }
  }
  void release(std::unique_lock<std::mutex>& lock) {
    place_.note("releasing", token());
    leaving_ = true;
    lock.unlock();
    stop_.request_stop();
    changed_.notify_all();
  }

  // --- The front ---
  void be_front() {
    std::unique_lock lock(mutex_);
    while (!done_) {
      const Instant due = front_due();
      const bool watches = !alive_.empty() && !front_gone_;
      if (watches && boot_now() >= due) kill_all();
      changed_.wait_for(lock, watches ? std::clamp<Nanos>(due - boot_now(), 1ms, 20ms) : 20ms);
    }
  }

  // --- The command ---
  void start_command() {
    child_ = zkr::Child::running;
    alive_ = script_.lines;
    // Between fork and exec it looks at the clock.
    if (boot_now() >= zkr::deadlines(lease_, script_.options).kill_at) kill_all();
    changed_.notify_all();
  }
  void be_command() {
    std::unique_lock lock(mutex_);
    while (true) {
      changed_.wait(lock, [this] { return done_ || (!alive_.empty() && !frozen_); });
      if (done_) return;
      write_line();
      lock.unlock();
      std::this_thread::sleep_for(1ms);
      lock.lock();
    }
  }
  void write_line() {
    const bool valid = !leaving_ && held_->valid();
    if (valid) certain_until_ = std::max(certain_until_, Instant(held_->valid_until().time_since_epoch()));
    const Nanos at = place_.now();
    const Instant looked = boot_now();
    const Nanos stood_still = place_.now() - at;
    const Nanos left = certain_until_ - looked + stood_still;
    if (left <= Nanos::zero()) tell_who_is_late();
    if (!valid && !leaving_ && hangs_ && left > Nanos::zero()) place_.note_at(at, "ended early", token());
    place_.note_at(at, wrote_++ == 0 ? "acquired" : "valid", token(), left.count() / 1000);
    if (script_.front_lives == wrote_) lose_front();
    for (std::uint64_t& one : alive_)
      --one;
    bury();
  }
  void lose_front() {
    front_gone_ = true;
    news_ = true;
    place_.note("no front", token());
  }
  void end_softly() {
    if (!script_.heeds_term) return;
    for (std::uint64_t& left : alive_)
      left = std::min<std::uint64_t>(left, place_.below(300));
    bury();
  }
  void kill_all() {
    if (child_ == zkr::Child::running) child_ending_ = {.signal = SIGKILL};
    std::fill(alive_.begin(), alive_.end(), 0);
    bury();
  }
  /// The first one is the command itself.
  void bury() {
    if (child_ == zkr::Child::running && alive_.front() == 0) child_ = zkr::Child::ended;
    const std::size_t before = alive_.size();
    std::erase(alive_, 0);
    if (alive_.size() == before) return;
    news_ = true;
    changed_.notify_all();
  }

  std::int64_t token() const { return static_cast<std::int64_t>(lease_.token); }
  Instant front_due() const { return zkr::front_kills_at(page_until_, lease_.timeout, script_.options); }
  void tell_who_is_late() {
    if (keeper_due_) note_lateness("late keeper", *keeper_due_);
    if (!front_gone_) note_lateness("late front", front_due());
  }
  /// Who acts when it should shares a processor with others, but does not stand still.
  void note_lateness(const char* what, Instant due) {
    const zkr::Duration late = boot_now() - due;
    if (late > zkr::kill_margin(lease_.timeout, script_.options) / 4) place_.note(what, token(), late.count());
  }

  Place& place_;
  const Acquire acquire_;
  const Script script_;
  zkclient::Client client_;
  std::stop_source stop_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool news_ = false;
  bool leaving_ = false;
  bool done_ = false;
  bool told_ = false;
  int stop_signal_ = 0;
  std::optional<zkrecipes::Lease> held_;
  zkr::Lease lease_;
  zkr::Past past_;
  std::optional<Instant> keeper_due_;  // When it looks again.
  bool hangs_ = false;                 // The keeper hears nothing.
  Instant page_until_{};               // As the keeper has seen it last: what the front knows.
  Instant certain_until_{};            // As the library says it.
  bool front_gone_ = false;
  zkr::Child child_ = zkr::Child::none;
  zkr::Ending child_ending_;
  std::vector<std::uint64_t> alive_;  // Lines that each is still to write.
  bool frozen_ = false;
  std::uint64_t wrote_ = 0;
};

void run_commands(Place& place, const Acquire& acquire) {
  while (!place.stopped()) {
    try {
      ModelledZkr(place, acquire, some_script(place)).run();
      if (place.below(10) == 0) {
        zkclient::Client client(place.servers(), some_client_options(place));
        client.connect(within(5s));
        zkrecipes::revoke_holders(client, commands_path, {}, within(5s));
      }
    } catch (const zkclient::Error& error) {
      place.note("error", 0, 0, error.what());
    }
    place.pause(200);
  }
}

}  // namespace

void run_locked_commands(Place& place) {
  run_commands(place, [](const zkclient::Client& client, const zkclient::CallOptions& call) {
    return zkrecipes::Mutex(client, commands_path).acquire(call);
  });
}
void run_leading_commands(Place& place) {
  run_commands(place, [](const zkclient::Client& client, const zkclient::CallOptions& call) -> zkrecipes::Lease {
    return zkrecipes::LeaderElection(client, commands_path).campaign(call);
  });
}

void look_at_commands(Place& place) { expect_nothing_below(place, commands_path); }

Faults check_commands_workload(const History& history) {
  Faults faults = check_commands(history);
  for (const std::string& fault : check_progress(history, "acquired"))
    faults.push_back(fault);
  return faults;
}

}  // namespace storm
