#include "storm/workloads/interventions.hpp"

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/revoke.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/interventions.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;
using zkclient::Errc;

/// Nothing is said of the others.
bool gave_up(const zkclient::Error& error) {
  return error.code() == Errc::deadline_exceeded || error.code() == zkclient::ErrorKind::in_doubt;
}

}  // namespace

// --- Locks that are broken -----------------------------------------------------------------------

namespace {

constexpr const char* broken_path = "/broken";

/// Some give way when they are asked, others never do.
void hold_stubbornly(Place& place, zkrecipes::Lease lease) {
  const std::int64_t token = lease.token().value;
  const bool stubborn = place.below(3) != 0;
  place.note("acquired", token);
  for (std::uint64_t looks = place.below(2) == 0 ? 5 : 100; looks > 0 && !place.stopped(); --looks) {
    const Nanos before = place.now();
    if (!lease.valid()) return place.note("lost", token);
    place.note_at(before, "valid", token);
    if (!stubborn && lease.revoke_requested().stop_requested()) break;
    place.pause(200);
  }
  if (place.below(2) == 0) lease.release(within(5s));
}

void break_holders(Place& place, zkclient::Client& client, const zkrecipes::Mutex& mutex) {
  for (const zkrecipes::Contender& contender : mutex.contenders(within(10s))) {
    if (!contender.holds) continue;
    const std::int64_t token = contender.token.value;
    const auto grace = std::chrono::milliseconds(place.below(2) == 0 ? 0 : place.below(3000));
    place.note("breaking", token);
    const auto outcome = zkrecipes::revoke(client, mutex.path() / contender.node, {.break_after = grace}, within(20s));
    const bool broken = outcome == zkrecipes::RevokeOutcome::broken;
    // One that is told that the holder gave it back may have broken it: a lost reply is resolved by looking.
    place.note(broken ? "broken" : "gone", token);
  }
}

}  // namespace

void run_broken_locks(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Mutex mutex(client, broken_path);
    if (place.below(4) == 0) {
      try {
        break_holders(place, client, mutex);
      } catch (const zkclient::Error& error) {
        if (!gave_up(error)) throw;
      }
    } else if (auto lease = mutex.try_acquire_for(std::chrono::milliseconds(500 + place.below(10'000)))) {
      hold_stubbornly(place, std::move(*lease));
    }
    place.pause(100);
  });
}

void look_at_broken_locks(Place& place) { expect_nothing_below(place, broken_path); }

Faults check_broken_locks(const History& history) {
  return all_of(
      {check_broken_leases(history, 30s), check_progress(history, "acquired"), check_progress(history, "broken")});
}

// --- A gate that falls with whoever raised it ----------------------------------------------------

namespace {

constexpr const char* mortal_path = "/mortal";

/// The session in which all was done, if it was one.
std::optional<std::int64_t> session_of(const zkclient::Client& client) {
  const zkclient::Session session = client.session();
  return session.id() == 0 ? std::nullopt : std::optional(session.id());
}

void use_mortal_gate(Place& place, zkclient::Client& client, zkrecipes::Barrier& gate) {
  const auto session = session_of(client);
  switch (place.below(6)) {
    case 0:
    case 1: {
      place.note("raising");
      const bool raised = gate.raise(zkrecipes::BarrierLife::ephemeral, within(10s));
      place.note("raised");
      if (raised && session && session == session_of(client)) place.note("up", *session);
      break;
    }
    case 2:
      place.note("lowering");
      gate.lower(within(10s));
      place.note("lowered");
      break;
    default:
      if (!gate.wait_for(std::chrono::milliseconds(100 + place.below(2000)))) break;
      // A server may tell a session that ends of its own nodes' end; it answers nothing more in it.
      (void)client.exists(mortal_path, within(10s));
      if (session && session == session_of(client)) place.note("passed", *session);
      break;
  }
}

}  // namespace

void run_mortal_gate(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Barrier gate(client, mortal_path);
    use_mortal_gate(place, client, gate);
    place.pause(200);
  });
}

void look_at_mortal_gate(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  // Sessions of killed processes last for a while.
  if (!zkrecipes::Barrier(client, mortal_path).wait_for(100s)) place.note("still up");
}

Faults check_mortal_gate_workload(const History& history) {
  return all_of({check_mortal_gate(history), check_progress(history, "passed"), check_progress(history, "raised")});
}

// --- Names that are taken from a former life -----------------------------------------------------

namespace {

std::set<std::string> ids_in(const zkrecipes::GroupSnapshot& group) {
  std::set<std::string> ids;
  for (const zkrecipes::Member& member : group.members)
    ids.insert(member.id);
  return ids;
}

std::string listed_with_commas(const std::set<std::string>& names) {
  std::string text;
  for (const std::string& name : names)
    text += (text.empty() ? "" : ",") + name;
  return text;
}

zkrecipes::ServiceInstance instance_of(const std::string& service, const std::string& id, zkrecipes::ServiceType type) {
  return {.name = service, .id = id, .address = "10.0.0.1", .port = 80, .type = type};
}

/// A member and two instances: one of an id that is its own, one of many under one id.
class Presences {
 public:
  Presences(Place& place, zkclient::Client& client)
      : place_(place),
        group_(client, "/replaced/group", {.conflict = zkrecipes::Conflict::replace, .lease = true}),
        directory_(client, "/replaced/services", {.conflict = zkrecipes::Conflict::replace}),
        member_(group_.join(place.name(), "payload", within(30s))),
        own_(directory_.register_instance(instance_of("own", place.name(), zkrecipes::ServiceType::dynamic),
                                          within(30s))),
        one_of_many_(directory_.register_instance(
            instance_of("many", "twin", zkrecipes::ServiceType::dynamic_sequential), within(30s))) {
    place.note("joined", member_.token().value);
  }

  void look() {
    const std::int64_t token = member_.token().value;
    const Nanos before = place_.now();
    if (member_.valid() && member_.token().value == token) place_.note_at(before, "valid", token);
  }
  void change() {
    const zkclient::CallOptions call = within(10s);
    member_.update(std::to_string(place_.below(100)), call);
    zkrecipes::ServiceInstance self = own_.instance();
    self.port = static_cast<std::int32_t>(1 + place_.below(60'000));
    own_.update(self, within(10s));
  }
  /// All have been told to stop, and stay until the others have looked.
  void stay_and_look() {
    member_.wait_present(within(20s));
    own_.wait_present(within(20s));
    one_of_many_.wait_present(within(20s));
    place_.note("stays");
    for (const char* service : {"own", "many"})
      place_.note("stay", 0, 0, service);
    std::this_thread::sleep_for(12s);  // By now those that are not there have gone.
    place_.note("sees", 0, 0, listed_with_commas(ids_in(group_.members(within(10s)))));
    for (const char* service : {"own", "many"}) {
      const auto listing = directory_.instances(service, within(10s));
      place_.note("counts", static_cast<std::int64_t>(listing.instances.size()), 0, service);
    }
    std::this_thread::sleep_for(15s);
  }
  void leave() {
    one_of_many_.unregister(within(10s));
    member_.leave(within(10s));
  }

 private:
  Place& place_;
  zkrecipes::Group group_;
  zkrecipes::ServiceDirectory directory_;
  zkrecipes::Membership member_;
  zkrecipes::Registration own_;
  zkrecipes::Registration one_of_many_;
};

}  // namespace

void run_replacements(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    Presences all(place, client);
    for (int i = 0; i < 60 && !place.stopped(); ++i) {
      all.look();
      if (place.below(20) == 0) all.change();
      place.pause(200);
    }
    if (place.stopped()) all.stay_and_look();
    if (place.below(2) == 0) all.leave();
  });
}

void look_at_replacements(Place& place) { place.note("looked"); }

Faults check_replacements(const History& history) {
  return all_of({check_members(history), check_counts(history), check_progress(history, "joined")});
}

}  // namespace storm
