#include "storm/workloads/members.hpp"

#include <algorithm>
#include <atomic>
#include <set>
#include <string_view>
#include <thread>
#include <vector>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/persistent_node.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/operations.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

std::string with_commas(const std::set<std::string>& listed) {
  std::string text;
  for (const std::string& name : listed)
    text += (text.empty() ? "" : ",") + name;
  return text;
}

/// All have been told to stop. Everybody stays until the others have looked; `look` tells whom it sees.
template <typename Look>
void stay_and_look(Place& place, Look look) {
  place.note("stays");
  std::this_thread::sleep_for(8s);  // By now those that are not there have gone.
  place.note("sees", 0, 0, with_commas(look()));
  std::this_thread::sleep_for(15s);
}

}  // namespace

void look_at_members(Place& place) { place.note("looked"); }

// --- Group ---------------------------------------------------------------------------------------

namespace {

void note_who_has_gone(Place& place, const std::vector<zkrecipes::MemberChange>& changes) {
  for (const zkrecipes::MemberChange& change : changes) {
    const bool gone =
        change.kind == zkrecipes::Change::Kind::removed || change.kind == zkrecipes::Change::Kind::replaced;
    if (gone && change.before) place.note("gone", change.before->incarnation.value, 0, change.before->id);
  }
}

void note_membership(Place& place, const zkrecipes::Membership& membership) {
  const std::int64_t token = membership.token().value;
  const Nanos before = place.now();
  if (membership.valid() && membership.token().value == token) place.note_at(before, "valid", token);
}

}  // namespace

void run_group(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Group group(client, "/group", {.lease = true});
    const auto watching = group.on_change([&](const std::vector<zkrecipes::MemberChange>& changes,
                                              const zkrecipes::GroupSnapshot&) { note_who_has_gone(place, changes); });
    zkrecipes::Membership membership = group.join(place.name(), "payload", within(30s));
    place.note("joined", membership.token().value);
    for (int i = 0; i < 60 && !place.stopped(); ++i) {
      note_membership(place, membership);
      if (place.below(20) == 0) {
        const zkclient::CallOptions call = within(10s);
        membership.update(std::to_string(place.below(100)), call);
      }
      place.pause(200);
    }
    if (place.stopped()) {
      membership.wait_present(within(20s));
      stay_and_look(place, [&] {
        std::set<std::string> listed;
        for (const zkrecipes::Member& member : group.members(within(10s)).members)
          listed.insert(member.id);
        return listed;
      });
    }
    if (place.below(2) == 0) membership.leave(within(10s));
  });
}

Faults check_group(const History& history) {
  return all_of({check_gone(history), check_members(history), check_progress(history, "joined")});
}

// --- Persistent nodes ----------------------------------------------------------------------------

namespace {

constexpr const char* nodes_path = "/nodes";

/// Each process has a node of another kind.
zkrecipes::PersistentNodeOptions kind_of_node(const Place& place) {
  using zkclient::CreateMode;
  return {.mode = place.number() % 2 == 0 ? CreateMode::ephemeral : CreateMode::ephemeral_sequential,
          .protection = place.number() / 2 % 2 == 1};
}

/// "p1" of "p1-0000000007" and of "_c_<uuid>-p1-".
std::string maker_of(std::string_view name) {
  constexpr std::size_t id_size = 40;
  if (name.starts_with("_c_")) name.remove_prefix(std::min(id_size, name.size()));
  return std::string(name.substr(0, name.find('-')));
}

/// As an operator does by mistake.
void remove_any_node(Place& place, zkclient::Client& client) {
  const std::vector<std::string> names = client.children(nodes_path, within(10s)).names;
  if (names.empty()) return;
  std::error_code gone_already;
  const zkclient::CallOptions call = within(10s);
  const zkclient::Path node = zkclient::Path(nodes_path) / names[place.below(names.size())];
  client.remove(node, zkclient::any_version, call, gone_already);
}

/// Their makers. Nobody has two.
std::set<std::string> makers_of_nodes(zkclient::Client& client) {
  std::set<std::string> makers;
  client.sync(nodes_path, within(10s));
  for (const std::string& name : client.children(nodes_path, within(10s)).names) {
    if (!makers.insert(maker_of(name)).second) makers.insert("another node: " + name);
  }
  return makers;
}

}  // namespace

void run_nodes(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::PersistentNode node(client, zkclient::Path(nodes_path) / (place.name() + "-"), "", kind_of_node(place));
    // What a former life has left is taken over.
    const zkclient::Path lasting_path = zkclient::Path("/lasting") / place.name();
    zkrecipes::PersistentNode lasting(
        client, lasting_path, "", {.mode = zkclient::CreateMode::container, .conflict = zkrecipes::Conflict::replace});
    node.wait_created(within(30s));
    lasting.wait_created(within(30s));
    place.note("made", node.token().value);
    std::string data;
    for (int i = 0; i < 40 && !place.stopped(); ++i) {
      if (place.below(4) == 0) {
        data = std::to_string(place.below(3));
        (place.below(2) == 0 ? node : lasting).set_data(data, within(10s));
      }
      if (place.below(8) == 0) remove_any_node(place, client);
      place.pause(300);
    }
    if (place.stopped()) {
      node.wait_created(within(20s));
      lasting.set_data(place.name(), within(20s));
      stay_and_look(place, [&] {
        std::set<std::string> makers = makers_of_nodes(client);
        if (client.get(lasting_path, within(10s)).data != place.name()) makers.insert("other data");
        return makers;
      });
    }
    if (place.below(2) != 0) return;
    node.remove(within(10s));
    lasting.remove(within(10s));
  });
}

Faults check_nodes(const History& history) { return all_of({check_members(history), check_progress(history, "made")}); }

// --- Naming --------------------------------------------------------------------------------------

namespace {

constexpr const char* names_path = "/names";

void hold_name(Place& place, zkrecipes::Lease lease, const std::string& name) {
  const std::int64_t token = lease.token().value;
  place.note("acquired", token, 0, name);
  for (std::uint64_t looks = place.below(20); looks > 0 && !place.stopped(); --looks) {
    const Nanos before = place.now();
    if (!lease.valid()) return;
    place.note_at(before, "valid", token, 0, name);
    place.pause(300);
  }
  if (place.below(2) == 0) lease.release(within(5s));
}

/// Adds one to the number that a permanent name means, if nobody else has.
void change_number(Place& place, zkrecipes::Naming& naming) {
  place.note("adding", 1);
  try {
    const auto known = naming.resolve("number", within(10s));
    if (!known) {
      naming.bind_permanent("number", "1", within(10s));
      place.note("added", 0, 1);
    } else {
      const std::int64_t before = std::stoll(known->data);
      static_cast<void>(naming.rebind("number", std::to_string(before + 1), known->version, within(10s)));
      place.note("added", before, before + 1);
    }
  } catch (const zkclient::Error& error) {
    if (error.code() != zkclient::ErrorKind::in_doubt) place.note("not added", 1);
    if (error.code() != zkclient::Errc::bad_version && error.code() != zkclient::Errc::node_exists) throw;
  }
}

}  // namespace

void run_naming(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Naming naming(client, names_path);
    auto own = naming.try_bind_for(place.name(), "here", 30s);
    if (!own) return;
    place.note("acquired", own->token().value, 0, place.name());
    for (int i = 0; i < 10 && !place.stopped(); ++i) {
      const Nanos before = place.now();
      if (!own->valid()) return;
      place.note_at(before, "valid", own->token().value, 0, place.name());
      change_number(place, naming);
      if (auto common = naming.try_bind_for("common", place.name(), 1s)) hold_name(place, std::move(*common), "common");
      place.pause(200);
    }
    if (!place.stopped() || !own->valid()) return;
    stay_and_look(place, [&] {
      std::set<std::string> listed;
      for (const std::string& name : naming.list(within(10s))) {
        if (name.starts_with('p')) listed.insert(name);
      }
      return listed;
    });
    // A thread that stood still for longer than a short session's lease allows: the name is gone, and nobody binds it anew.
    if (!own->valid()) place.note("left");
  });
}

void look_at_names(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  client.sync(names_path, within(60s));
  const auto number = zkrecipes::Naming(client, names_path).resolve("number", within(60s));
  place.note("total", number ? std::stoll(number->data) : 0);
}

Faults check_naming(const History& history) {
  return all_of({check_named_leases(history, 1), check_members(history), check_counter(history),
                 check_additions(history), check_progress(history, "acquired"), check_progress(history, "added")});
}

// --- Discovery -----------------------------------------------------------------------------------

namespace {

std::set<std::string> ids_of(const zkrecipes::ServiceListing& listing) {
  std::set<std::string> listed;
  for (const auto& one : listing.instances)
    listed.insert(one->instance.id);
  return listed;
}

}  // namespace

void run_discovery(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::ServiceDirectory directory(client, "/services");
    const zkrecipes::ServiceProvider provider = directory.provider("storm");
    zkrecipes::ServiceInstance self{.name = "storm", .id = place.name(), .address = "10.0.0.1", .port = 80};
    if (place.number() == 1) self.type = zkrecipes::ServiceType::fixed;
    zkrecipes::Registration registration = directory.register_instance(self, within(30s));
    place.note("registered", registration.token().value);
    for (int i = 0; i < 40 && !place.stopped(); ++i) {
      if (place.below(10) == 0) {
        self.port = static_cast<std::int32_t>(1 + place.below(60'000));
        registration.update(self, within(10s));
      }
      static_cast<void>(provider.pick());
      place.pause(400);
    }
    if (place.stopped()) {
      registration.wait_present(within(20s));
      stay_and_look(place, [&] {
        const std::set<std::string> watched = ids_of(provider.wait_ready(within(10s)));
        const std::set<std::string> read = ids_of(directory.instances("storm", within(10s)));
        if (watched != read) place.note("sees", 0, 0, with_commas(read));
        return watched;
      });
    }
    if (place.below(2) == 0) registration.unregister(within(10s));
  });
}

Faults check_discovery(const History& history) {
  return all_of({check_members(history), check_progress(history, "registered")});
}

// --- Configuration -------------------------------------------------------------------------------

namespace {

std::string shown_values(const zkrecipes::ConfigurationPtr& now) {
  std::string text;
  for (const auto& [key, value] : now->values)
    text += key + "=" + value.text + " ";
  return text;
}

/// Both values are the same in each publication.
void publish_both(Place& place, zkrecipes::Configuration& configuration, const std::string& value) {
  const auto now = configuration.current();
  const std::int64_t expected = now == nullptr ? zkrecipes::any_revision : now->revision;
  zkrecipes::ConfigurationUpdate update;
  update.values["first"] = value;
  update.values["group/second"] = value;
  place.note("publishing", expected, 0, "first=" + value + " group/second=" + value + " ");
  try {
    const std::int64_t revision = configuration.publish(update, expected, within(15s));
    place.note("published", revision, 1);
  } catch (const zkclient::Error& error) {
    place.note("not published", 0, 0, error.what());
    if (error.code() != zkclient::Errc::bad_version) throw;
  }
}

}  // namespace

void run_configuration(Place& place) {
  std::int64_t object = place.now().count() / 1'000'000 * 1000;  // A later life has greater ones.
  int values = 0;
  const std::string life = place.name() + "-" + std::to_string(object);
  with_sessions(place, [&](zkclient::Client& client) {
    ++object;
    zkrecipes::Configuration configuration(client, "/configuration", {.id = place.name()});
    const auto watching = configuration.on_change(
        [&](const std::vector<zkrecipes::ConfigurationChange>&, const zkrecipes::ConfigurationPtr& now) {
          place.note("seen", now->revision, object, shown_values(now));
        });
    for (int i = 0; i < 30 && !place.stopped(); ++i) {
      if (place.below(2) == 0) publish_both(place, configuration, life + "-" + std::to_string(++values));
      // What is in memory grows likewise, but is seen by another thread.
      if (const auto now = configuration.current()) place.note("seen", now->revision, -object, shown_values(now));
      place.pause(300);
    }
    if (place.stopped()) {
      std::this_thread::sleep_for(25s);  // By now the last publication has come.
      const auto now = configuration.current();
      if (configuration.origin() == zkrecipes::ConfigurationOrigin::live) place.note("in force", now->revision);
    }
    configuration.close();
  });
}

Faults check_configuration(const History& history) {
  return all_of({check_revisions(history), check_progress(history, "published"), check_progress(history, "seen")});
}

// --- A gate --------------------------------------------------------------------------------------

namespace {

void use_gate(Place& place, zkrecipes::Barrier& gate) {
  switch (place.below(5)) {
    case 0:
      place.note("raising");
      if (gate.raise(zkrecipes::BarrierLife::persistent, within(10s))) {
        place.note("raised");
        place.note("up");
      }
      break;
    case 1:
      place.note("lowering");
      gate.lower(within(10s));
      place.note("lowered");
      break;
    case 2:
      if (gate.state(within(10s))) place.note("shown up");
      break;
    default:
      place.note("waiting");
      if (gate.wait_for(std::chrono::milliseconds(100 + place.below(2000)))) place.note("passed");
      break;
  }
}

}  // namespace

void run_barrier(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::Barrier gate(client, "/gate");
    use_gate(place, gate);
    place.pause(200);
  });
}

Faults check_barrier(const History& history) {
  return all_of({check_gate(history), check_progress(history, "passed"), check_progress(history, "raised")});
}

}  // namespace storm
