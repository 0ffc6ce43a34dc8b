#include "storm/workloads/locks.hpp"

#include <thread>

#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* lock_path = "/lock";
constexpr int semaphore_size = 2;

/// Holds a lease for a while, and writes down how long it was valid.
void hold(Place& place, zkrecipes::Lease lease, bool shared = false) {
  const std::int64_t token = lease.token().value;
  const Nanos granted = place.now();
  if (!lease.valid()) return place.note("lost", token);
  place.note_at(granted, "acquired", token, shared ? 1 : 0);
  for (Hold hold(place, 100); hold.goes_on() && !place.stopped(); hold.looked()) {
    const Nanos before = place.now();
    if (!lease.valid()) {
      place.note("lost", token);
      return;
    }
    place.note_at(before, "valid", token);
    place.pause(100);
  }
  if (place.below(3) == 0) return;  // The destructor gives it back.
  place.note("releasing", token);
  lease.release(within(5s));
}

template <typename Lock>
void contend(Place& place, Lock& lock) {
  if (auto lease = lock.try_acquire_for(std::chrono::milliseconds(500 + place.below(10'000))))
    hold(place, std::move(*lease));
  place.pause(50);
}

template <typename Election>
void lead(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    Election election(client, lock_path);
    hold(place, election.campaign(within(std::chrono::milliseconds(500 + place.below(10'000)))));
    place.pause(50);
  });
}

Faults check_exclusive(const History& history) {
  Faults faults = check_leases(history, 1);
  for (const std::string& fault : check_progress(history, "acquired"))
    faults.push_back(fault);
  return faults;
}

}  // namespace

void run_mutex(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Mutex mutex(client, lock_path);
    contend(place, mutex);
  });
}
void run_unfair_mutex(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::UnfairMutex mutex(client, lock_path);
    contend(place, mutex);
  });
}
void run_semaphore(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Semaphore semaphore(client, lock_path, semaphore_size);
    contend(place, semaphore);
  });
}
void run_shared_mutex(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::SharedMutex mutex(client, lock_path);
    if (place.below(2) == 0) {
      contend(place, mutex);
    } else if (auto lease = mutex.try_acquire_shared_for(std::chrono::milliseconds(500 + place.below(10'000)))) {
      hold(place, std::move(*lease), true);
    }
  });
}
void run_leader_election(Place& place) { lead<zkrecipes::LeaderElection>(place); }
void run_unfair_leader_election(Place& place) { lead<zkrecipes::UnfairLeaderElection>(place); }

void look_at_locks(Place& place) { expect_nothing_below(place, lock_path); }
void look_at_semaphore(Place& place) {
  expect_nothing_below(place, std::string(lock_path) + "/leases");
  expect_nothing_below(place, std::string(lock_path) + "/locks");
}

Faults check_mutex(const History& history) { return check_exclusive(history); }
Faults check_semaphore(const History& history) {
  Faults faults = check_leases(history, semaphore_size);
  for (const std::string& fault : check_progress(history, "acquired"))
    faults.push_back(fault);
  return faults;
}
Faults check_shared_mutex(const History& history) {
  Faults faults = check_shared_leases(history);
  for (const std::string& fault : check_progress(history, "acquired"))
    faults.push_back(fault);
  return faults;
}

}  // namespace storm
