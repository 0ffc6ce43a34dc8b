#include "storm/workloads/meetings.hpp"

#include <algorithm>
#include <map>
#include <mutex>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/partitioner.hpp>

#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr int barrier_size = 3;
constexpr const char* names = "abcdefgh";

Faults with_progress(Faults faults, const History& history, const std::string& what) {
  for (const std::string& fault : check_progress(history, what))
    faults.push_back(fault);
  return faults;
}

}  // namespace

// --- Double barrier ------------------------------------------------------------------------------

void run_double_barrier(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::DoubleBarrier barrier(client, "/barrier", barrier_size);
    while (!place.stopped()) {
      place.note("entering");
      const auto round = barrier.try_enter_for(5s);
      if (!round) continue;
      const Nanos entered = place.now();
      if (!barrier.inside() || barrier.lost().stop_requested()) continue;
      place.note_at(entered, "inside", round->number, static_cast<std::int64_t>(round->members.size()),
                    fmt::format("{}", fmt::join(round->members, " ")));
      for (std::uint64_t looks = place.below(5); looks > 0; --looks) {
        place.pause(200);
        const Nanos before = place.now();
        if (!barrier.inside() || barrier.lost().stop_requested()) break;
        place.note_at(before, "still inside", round->number);
      }
      place.note("leaving", round->number);
      barrier.leave(within(30s));
      place.note("left", round->number);
      place.pause(200);
    }
  });
}

void look_at_double_barrier(Place& place) { expect_nothing_below(place, "/barrier"); }

Faults check_double_barrier(const History& history) {
  struct Stay {
    std::string who;
    std::int64_t round = 0;
    Nanos from{};
    Nanos until{};
  };
  std::vector<Stay> stays;
  std::map<std::string, std::size_t> current;
  std::map<std::int64_t, std::string> members;
  Faults faults;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "inside" && entry.b != barrier_size)
      faults.push_back(entry.who + " is in a round of " + entry.text);
    if (entry.what == "inside" && members.try_emplace(entry.a, entry.text).first->second != entry.text)
      faults.push_back(entry.who + " is in another round of the same number: " + entry.text);
    if (entry.what == "inside") {
      current[entry.who] = stays.size();
      stays.push_back({entry.who, entry.a, entry.at, entry.at});
    }
    if (entry.what == "still inside" && current.contains(entry.who)) stays[current.at(entry.who)].until = entry.at;
  }
  for (const Stay& one : stays) {
    for (const Stay& other : stays) {
      if (one.round != other.round && one.from <= other.from && other.from < one.until)
        faults.push_back(other.who + " is in another round while " + one.who + " is still inside of one");
    }
  }
  return with_progress(std::move(faults), history, "inside");
}

// --- A cache of children -------------------------------------------------------------------------

namespace {

void ignore_races(const std::function<void()>& write) {
  try {
    write();
  } catch (const zkclient::Error& error) {
    if (error.code() != zkclient::Errc::no_node && error.code() != zkclient::Errc::node_exists) throw;
  }
}

void write_somewhere(Place& place, zkclient::Client& client, bool only_set) {
  const zkclient::Path path = zkclient::Path("/view") / std::string(1, names[place.below(8)]);
  const std::string data = place.name() + " " + std::to_string(place.now().count());
  ignore_races([&] {
    switch (only_set ? 1 : place.below(3)) {
      case 0: client.create(path, data, {.mode = zkclient::CreateMode::persistent}, within(10s)); break;
      case 1: client.set(path, data, zkclient::any_version, within(10s)); break;
      default: client.remove(path, zkclient::any_version, within(10s)); break;
    }
  });
}

std::string shown(const std::map<std::string, std::string>& nodes) {
  std::string text;
  for (const auto& [name, data] : nodes)
    text += fmt::format("{}={};", name, data);
  return text;
}

}  // namespace

void run_view(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    client.ensure("/view", zkclient::CreateMode::persistent, within(30s));
    zkrecipes::ChildrenCache cache(client, "/view");
    // Nodes that come and go hide that a cache has overlooked one. Later ones stay, and are only changed.
    const int come_and_go = static_cast<int>(place.below(60));
    for (int writes = 0; !place.stopped(); ++writes) {
      try {
        write_somewhere(place, client, writes > come_and_go);
        place.note("wrote");
      } catch (const zkclient::Error& error) {  // A cache that outlives it is what is looked at.
        place.note("error", 0, 0, error.what());
      }
      place.pause(200);
    }
    std::this_thread::sleep_for(10s);  // The others have stopped, and what they wrote last has come.
    if (cache.state() != zkrecipes::CacheState::current) return;
    std::map<std::string, std::string> nodes;
    for (const auto& node : cache.snapshot().children())
      nodes[node->name] = node->data;
    place.note("seen", 0, 0, shown(nodes));
  });
}

void look_at_view(Place& place) {
  zkclient::Client client(place.servers(), {.session_timeout = 10s});
  client.connect(within(60s));
  client.sync("/view", within(60s));
  std::map<std::string, std::string> nodes;
  for (const std::string& name : client.children("/view", within(60s)).names)
    nodes[name] = client.get(zkclient::Path("/view") / name, within(60s)).data;
  place.note("truth", 0, 0, shown(nodes));
}

Faults check_view(const History& history) {
  const auto& entries = history.entries();
  const auto truth =
      std::find_if(entries.begin(), entries.end(), [](const Entry& entry) { return entry.what == "truth"; });
  if (truth == entries.end()) return with_progress({"nobody could look at the nodes"}, history, "wrote");
  Faults faults;
  const auto seen = [](const Entry& entry) { return entry.what == "seen"; };
  if (std::none_of(entries.begin(), entries.end(), seen)) faults.push_back("no cache was current at the end");
  for (const Entry& entry : entries) {
    if (entry.what == "seen" && entry.text != truth->text)
      faults.push_back("a cache that is current shows " + entry.text + ", and there is " + truth->text);
  }
  return with_progress(std::move(faults), history, "wrote");
}

// --- A coherent cache: a number that only grows --------------------------------------------------

void run_coherent(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    zkrecipes::CoherentCache cache(client, "/coherent", {.shards = 2});
    for (int i = 0; i < 30 && !place.stopped(); ++i) {
      if (place.below(4) == 0) {
        place.note("asking");
        const auto now = cache.update(
            "number",
            [](const zkrecipes::CoherentItem& item) {
              return std::optional(std::to_string(item.exists ? std::stoll(item.data) + 1 : 1));
            },
            within(15s));
        place.note("reached", std::stoll(*now), 1);
      } else {
        place.note("asking");
        const auto item = cache.get("number", within(15s));
        place.note("reached", item->exists ? std::stoll(item->data) : 0);
      }
      place.pause(200);
    }
  });
}

void look_at_coherent(Place& place) { place.note("looked"); }

Faults check_coherent(const History& history) {
  Faults faults;
  std::map<std::string, std::int64_t> floors;  // What somebody had seen when the call began.
  std::map<std::int64_t, std::string> writers;
  std::int64_t highest = 0;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "asking") floors[entry.who] = highest;
    if (entry.what != "reached") continue;
    const std::int64_t least = floors[entry.who] + (entry.b == 1 ? 1 : 0);
    if (entry.a < least)
      faults.push_back(entry.who + " was given " + std::to_string(entry.a) + " after " + std::to_string(least) +
                       " was known");
    if (entry.b == 1 && !writers.emplace(entry.a, entry.who).second)
      faults.push_back("two have written " + std::to_string(entry.a));
    highest = std::max(highest, entry.a);
  }
  return with_progress(std::move(faults), history, "reached");
}

// --- Partitions ----------------------------------------------------------------------------------

namespace {

/// Holds what it is given until that is lost, or revoked.
void own(Place& place, zkrecipes::Partition partition, const std::stop_token& stop) {
  const std::int64_t token = partition.token().value;
  const Nanos granted = place.now();
  if (partition.valid()) place.note_at(granted, "acquired", token, 0, partition.name());
  for (;;) {
    const Nanos before = place.now();
    if (!partition.valid()) break;
    place.note_at(before, "valid", token, 0, partition.name());
    if (stop.stop_requested() || partition.revoke_requested().stop_requested()) break;
    place.pause(200);
  }
  partition.async_release([](auto&&) {});
}

}  // namespace

void run_partitions(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    std::mutex mutex;
    std::vector<std::jthread> owners;
    const auto give = [&](zkrecipes::Partition partition) {
      const std::lock_guard lock(mutex);
      owners.emplace_back([&place, partition = std::move(partition)](const std::stop_token& stop) mutable {
        own(place, std::move(partition), stop);
      });
    };
    zkrecipes::Partitioner partitioner(client, "/partitions", zkrecipes::PartitionSource::numbered(4), give,
                                       {.settle = 200ms, .grace = 3s});
    partitioner.start();
    const Nanos end = place.now() + 20s;
    while (!place.stopped() && place.now() < end && !partitioner.problem())
      place.pause(500);
    partitioner.stop(within(30s));
    const std::lock_guard lock(mutex);
    owners.clear();
  });
}

void look_at_partitions(Place& place) { place.note("looked"); }

Faults check_partitions(const History& history) {
  std::map<std::string, History> by_partition;
  for (const Entry& entry : history.entries()) {
    if (entry.what == "acquired" || entry.what == "valid") by_partition[entry.text].add(entry);
  }
  Faults faults;
  for (auto& [name, one] : by_partition) {
    for (const std::string& fault : check_leases(one, 1))
      faults.push_back(fmt::format("partition {}: {}", name, fault));
  }
  return with_progress(std::move(faults), history, "acquired");
}

}  // namespace storm
