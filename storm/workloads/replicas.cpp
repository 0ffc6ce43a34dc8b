#include "storm/workloads/replicas.hpp"

#include <algorithm>
#include <atomic>
#include <mutex>
#include <string>
#include <vector>

#include <zkrecipes/replica_group.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/interventions.hpp"
#include "storm/workloads/disks.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

/// One process: its disk, and what it does while it is the primary.
class Server {
 public:
  Server(Place& place, zkclient::Client& client)
      : place_(place),
        disks_(Disks::of(place)),
        group_(client, "/replicas", {.id = place.name(), .storage = disks_.storage(place.name())}, handlers(),
               {.settle = 300ms}) {}

  void step() {
    const std::int64_t epoch = epoch_;
    const Nanos before = place_.now();
    if (!group_.may_write() || epoch != epoch_) return;
    tell_of_term(before, epoch);
    if (place_.below(4) == 0) {
      take_somebody_in(epoch);
    } else {
      write(epoch);
    }
  }
  /// What a member in sync has is what was acknowledged, at least.
  void serve_a_read() {
    const Nanos before = place_.now();
    if (group_.may_serve_reads()) place_.note_at(before, "served", 0, 0, numbers_of(disks_.read(place_.name())));
  }
  /// When nobody is left that has all writes, for a while.
  void give_writes_up(zkclient::Client& client) {
    const auto problem = group_.problem();
    const bool stuck =
        group_.role() == zkrecipes::ReplicaRole::out && problem && problem->code() == zkclient::Errc::not_available;
    stuck_ = stuck ? stuck_ + 1 : 0;
    if (stuck_ < 60) return;
    place_.note("given up");
    zkrecipes::force_primary(client, group_.path(), place_.name(), within(10s));
    place_.note("given up");
  }
  void leave() { group_.leave(within(10s)); }

 private:
  zkrecipes::ReplicaHandlers handlers() {
    zkrecipes::ReplicaHandlers handlers;
    handlers.become_primary = [this](const zkrecipes::PrimaryTerm& term) { take_over(term); };
    handlers.become_secondary = [this](const zkrecipes::SecondaryTerm& term) { disks_.see(place_.name(), term.epoch); };
    return handlers;
  }
  void take_over(const zkrecipes::PrimaryTerm& term) {
    disks_.see(place_.name(), term.epoch);
    const Writes log = disks_.read(place_.name());
    for (const zkrecipes::InSyncReplica& other : term.in_sync) {
      place_.pause(20);
      if (other.id != place_.name()) disks_.replace(other, term.epoch, log);
    }
    const std::lock_guard lock(mutex_);
    log_ = log;
    epoch_ = term.epoch;
  }
  /// Whoever was stopped while it took over may find that it is over: it was never the primary.
  void tell_of_term(Nanos when, std::int64_t epoch) {
    if (told_ != epoch) {
      std::unique_lock lock(mutex_);
      const Writes log = log_;
      lock.unlock();
      place_.note_at(when, "took over", epoch, 0, numbers_of(log));
      place_.note_at(when, "acquired", epoch, 0, "primary");
      told_ = epoch;
    }
    place_.note_at(when, "valid", epoch, 0, "primary");
  }
  /// Sends it to all that are in sync. One that cannot be reached is taken out, or the write is not acknowledged.
  void write(std::int64_t epoch) {
    const std::int64_t number = disks_.next_number();
    if (!disks_.append({place_.name(), disks_.storage(place_.name())}, epoch, number)) return;
    std::vector<std::string> confirmed{place_.name()};
    for (const zkrecipes::InSyncReplica& other : group_.in_sync()) {
      if (other.id == place_.name()) continue;
      place_.pause(20);
      if (place_.below(20) == 0 || other.storage != disks_.storage(other.id)) {  // Not reached.
        if (place_.below(3) != 0) group_.shrink({other.id}, within(10s));
      } else if (disks_.append(other, epoch, number)) {
        confirmed.push_back(other.id);
      }
    }
    place_.pause(20);
    const std::vector<zkrecipes::InSyncReplica> in_sync = group_.in_sync();
    const bool all = std::all_of(in_sync.begin(), in_sync.end(), [&](const zkrecipes::InSyncReplica& one) {
      return std::find(confirmed.begin(), confirmed.end(), one.id) != confirmed.end();
    });
    const Nanos before = place_.now();
    if (all && group_.may_write() && epoch == epoch_) place_.note_at(before, "acknowledged", number, epoch);
  }
  void take_somebody_in(std::int64_t epoch) {
    const std::vector<zkrecipes::InSyncReplica> in_sync = group_.in_sync();
    for (const zkrecipes::ReplicaMember& member : group_.members()) {
      const bool known = std::any_of(in_sync.begin(), in_sync.end(),
                                     [&](const zkrecipes::InSyncReplica& one) { return one.id == member.id; });
      if (known || member.id == place_.name()) continue;
      if (!disks_.replace({member.id, member.storage}, epoch, disks_.read(place_.name()))) continue;
      place_.note("expanding", epoch, 0, member.id);
      group_.expand(epoch, member.id, member.storage, within(10s));
    }
  }

  Place& place_;
  Disks& disks_;
  std::mutex mutex_;
  Writes log_;  // As it was when it took over.
  std::atomic<std::int64_t> epoch_ = 0;
  std::int64_t told_ = 0;
  int stuck_ = 0;                  // For so many steps.
  zkrecipes::ReplicaGroup group_;  // The last one: its handlers use the others.
};

/// `step`, again and again, with a server that is made anew now and then.
template <typename Step>
void be_replica(Place& place, zkclient::Client& client, Step step) {
  Server server(place, client);
  // Who is alone in sync, and cannot lead, keeps all others waiting.
  const int steps = is_too_short_for_leases(place, client) ? 20 : 100;
  for (int i = 0; i < steps && !place.stopped(); ++i) {
    try {
      step(server);
    } catch (const zkclient::Error& error) {
      place.note("error", 0, 0, error.what());
    }
    place.pause(300);
  }
  if (place.below(3) == 0) server.leave();
}

}  // namespace

void run_replicas(Place& place) {
  with_sessions(place,
                [&](zkclient::Client& client) { be_replica(place, client, [](Server& server) { server.step(); }); });
}

// All but one are robbed of their disks now and then.
void run_emptied_replicas(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    if (place.number() != 0 && place.below(3) == 0) {
      Disks::of(place).empty(place.name());
      place.note("emptied");
    }
    be_replica(place, client, [&](Server& server) {
      if (place.below(4) == 0) server.serve_a_read();
      server.step();
      server.give_writes_up(client);
    });
  });
}

void look_at_replicas(Place& place) { place.note("looked"); }

Faults check_replicas_workload(const History& history) {
  return all_of({check_replicas(history), check_named_leases(history, 1), check_progress(history, "acknowledged")});
}

Faults check_emptied_replicas(const History& history) {
  return all_of({check_replicas_workload(history), check_served(history), check_progress(history, "served")});
}

}  // namespace storm
