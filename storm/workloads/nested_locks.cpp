#include "storm/workloads/nested_locks.hpp"

#include <atomic>
#include <thread>
#include <vector>

#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/revoke.hpp>
#include <zkrecipes/semaphore.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* nested_path = "/nested";
constexpr const char* shared_permits = "/several/shared";
constexpr int permits = 2;

std::chrono::milliseconds some_time(Place& place) { return std::chrono::milliseconds(500 + place.below(10'000)); }

/// True if it was valid, which is written down.
bool look(Place& place, const zkrecipes::Lease& lease, const std::string& name = {}) {
  const std::int64_t token = lease.token().value;
  const Nanos before = place.now();
  if (!lease.valid()) {
    place.note("lost", token, 0, name);
    return false;
  }
  place.note_at(before, "valid", token, 0, name);
  return true;
}

}  // namespace

// --- Several at once -----------------------------------------------------------------------------

namespace {

void hold_all(Place& place, zkrecipes::MultiLease all, const std::vector<std::string>& names) {
  for (std::size_t i = 0; i < names.size(); ++i)
    place.note("acquired", all.leases()[i].token().value, 0, names[i]);
  for (Hold hold(place, 300); hold.goes_on() && !place.stopped(); hold.looked()) {
    bool lost = false;
    for (std::size_t i = 0; i < names.size(); ++i)
      lost = !look(place, all.leases()[i], names[i]) || lost;
    if (lost) return;
    place.pause(300);
  }
  if (place.below(3) == 0) return;  // The destructor gives them back.
  place.note("releasing");
  all.release(within(5s));
}

}  // namespace

void run_multi_lock(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Mutex first(client, "/several/first");
    zkrecipes::Mutex second(client, "/several/second");
    zkrecipes::Semaphore third(client, shared_permits, permits);
    zkrecipes::MultiLock several;
    std::vector<std::string> names;
    const std::uint64_t chosen = 1 + place.below(7);
    const auto add = [&](const zkrecipes::Acquirable& lock, const char* name) {
      several.add(lock);
      names.emplace_back(name);
    };
    // In an order of its own: two that wait for each other would end in no progress.
    if ((chosen & 4U) != 0 && place.below(2) == 0) add(third, "shared");
    if ((chosen & 2U) != 0) add(second, "second");
    if ((chosen & 1U) != 0) add(first, "first");
    if (names.empty() || ((chosen & 4U) != 0 && names.front() != "shared")) add(third, "shared");
    if (auto all = several.try_acquire_for(some_time(place))) hold_all(place, std::move(*all), names);
    place.pause(50);
  });
}

void look_at_multi_lock(Place& place) {
  expect_nothing_below(place, "/several/first");
  expect_nothing_below(place, "/several/second");
  expect_nothing_below(place, std::string(shared_permits) + "/leases");
  expect_nothing_below(place, std::string(shared_permits) + "/locks");
}

Faults check_multi_lock(const History& history) {
  return all_of({check_named_leases(history, permits), check_named_progress(history, "acquired")});
}

// --- Counted -------------------------------------------------------------------------------------

namespace {

/// Unlocks as often as it has locked, also when a call throws.
class Depth {
 public:
  Depth(Place& place, zkrecipes::RecursiveMutex& mutex) : place_(place), mutex_(mutex) {}
  Depth(const Depth&) = delete;
  Depth& operator=(const Depth&) = delete;
  ~Depth() {
    while (depth_ > 0)
      down();
  }
  bool up(std::chrono::milliseconds time) {
    if (!mutex_.try_lock_for(time)) return false;
    ++depth_;
    tell();
    return true;
  }
  void down() {
    mutex_.unlock();
    --depth_;
    tell();
  }
  [[nodiscard]] int depth() const { return depth_; }

 private:
  void tell() { place_.note("depth", depth_, mutex_.depth()); }

  Place& place_;
  zkrecipes::RecursiveMutex& mutex_;
  int depth_ = 0;
};

void go_up_and_down(Place& place, zkrecipes::RecursiveMutex& mutex) {
  Depth depth(place, mutex);
  if (!depth.up(some_time(place))) return;
  place.note("acquired", mutex.lease().token().value);
  for (Hold hold(place, 300); hold.goes_on() && depth.depth() > 0 && !place.stopped(); hold.looked()) {
    if (!look(place, mutex.lease())) return;
    if (place.below(2) == 0) {
      if (!depth.up(1s)) return;
    } else if (depth.depth() > 1 || hold.is_last()) {
      depth.down();
    }
    place.pause(200);
  }
}

}  // namespace

// Two threads of one process contend as two processes do.
void run_recursive_mutex(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::RecursiveMutex mutex(client, nested_path);
    const auto contend_for_a_while = [&] {
      try {
        for (int i = 0; i < 5 && !place.stopped(); ++i) {
          go_up_and_down(place, mutex);
          place.pause(50);
        }
      } catch (const zkclient::Error& error) {
        place.note("error", 0, 0, error.what());
        place.pause(500);
      }
    };
    const std::jthread other(contend_for_a_while);
    contend_for_a_while();
  });
}

void look_at_nested_locks(Place& place) { expect_nothing_below(place, nested_path); }

Faults check_recursive_mutex(const History& history) {
  return all_of({check_leases(history, 1), check_depth(history), check_progress(history, "acquired")});
}

// --- The selector --------------------------------------------------------------------------------

namespace {

void lead_for_a_while(Place& place, const std::stop_token& stop, zkrecipes::SelectedLeadership& leadership) {
  place.note("term begins");
  place.note("acquired", leadership.token().value);
  for (Hold hold(place, 300); hold.goes_on(); hold.looked()) {
    if (!look(place, leadership) || stop.stop_requested()) break;
    if (place.below(20) == 0) place.pause(4000);  // Stalls, perhaps.
    leadership.alive();
    place.pause(300);
  }
  place.note("term ends");
}

}  // namespace

void run_leader_selector(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::LeaderSelectorOptions options;
    if (place.below(2) == 0) options.progress_timeout = 2s;
    zkrecipes::LeaderSelector selector(
        client, nested_path,
        [&](const std::stop_token& stop, zkrecipes::SelectedLeadership& leadership) {
          lead_for_a_while(place, stop, leadership);
        },
        options);
    selector.start();
    for (std::uint64_t steps = 10 + place.below(60); steps > 0 && !place.stopped(); --steps) {
      place.pause(400);
      const Nanos before = place.now();
      if (selector.is_leader()) place.note_at(before, "leads");
      if (place.below(30) == 0) selector.step_down();
    }
    if (place.below(2) == 0) selector.close(within(20s));
  });
}

Faults check_leader_selector(const History& history) {
  return all_of({check_leases(history, 1), check_terms(history), check_progress(history, "acquired")});
}

// --- Asked back ----------------------------------------------------------------------------------

namespace {

void hold_until_asked(Place& place, zkrecipes::Lease lease) {
  place.note("acquired", lease.token().value);
  for (int looks = 0; looks < 100 && !place.stopped(); ++looks) {
    if (!look(place, lease)) return;
    if (lease.revoke_requested().stop_requested()) {
      place.note("asked", lease.token().value);
      lease.release(within(5s));
      return;
    }
    place.pause(200);
  }
}

/// Asks the one that holds, and waits until it has given way.
void ask(Place& place, zkclient::Client& client, const zkrecipes::Mutex& mutex) {
  for (const zkrecipes::Contender& contender : mutex.contenders(within(10s))) {
    if (!contender.holds) continue;
    place.note("asking", contender.token.value);
    // So long a grace that nothing is ever broken.
    const auto outcome = zkrecipes::revoke(client, mutex.path() / contender.node, {.break_after = 10min}, within(20s));
    place.note(outcome == zkrecipes::RevokeOutcome::released ? "gone" : "not gone", contender.token.value);
  }
}

}  // namespace

void run_revocation(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Mutex mutex(client, nested_path);
    if (place.below(3) == 0) {
      try {
        ask(place, client, mutex);
      } catch (const zkclient::Error& error) {
        if (error.code() != zkclient::Errc::deadline_exceeded && error.code() != zkclient::Errc::in_doubt) throw;
      }
    } else if (auto lease = mutex.try_acquire_for(some_time(place))) {
      hold_until_asked(place, std::move(*lease));
    }
    place.pause(50);
  });
}

Faults check_revocation(const History& history) {
  return all_of({check_leases(history, 1), check_gone(history), check_progress(history, "acquired"),
                 check_progress(history, "asked")});
}

}  // namespace storm
