#include "recovery_recipes.hpp"

#include <algorithm>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/primary.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/replica_group.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_value.hpp>

namespace bench {
namespace {

using namespace zkrecipes;
using zkclient::Client;

constexpr std::size_t partition_count = 128;

/// What is held works if a transaction succeeds that is conditional on it; what is lost is acquired again.
Works holds(const Client& client, std::function<Lease()> acquire) {
  const auto held = std::make_shared<Lease>(acquire());
  return [client, acquire = std::move(acquire), held] {
    if (!held->valid()) *held = acquire();
    client.commit(held->transaction());
    return true;
  };
}

Works write(const Stage& stage) {
  stage.client.ensure(stage.path);
  return [&stage] {
    stage.client.set(stage.path, "x");
    return true;
  };
}

/// When the holder has lost it, the waiter has to get it.
Works mutex_with_a_waiter(const Stage& stage) {
  struct Pair {
    explicit Pair(const Stage& stage)
        : mutex(stage.client, stage.path),
          other(stage.hosts, stage.path),
          others(other.client, other.path),
          holder(&stage.client) {}
    Mutex mutex;
    Stage other;
    Mutex others;
    Lease held = mutex.acquire();
    std::future<zkclient::Result<Lease>> waiting;
    const Client* holder;
  };
  const auto pair = std::make_shared<Pair>(stage);
  std::promise<zkclient::Result<Lease>> promise;
  pair->waiting = promise.get_future();
  pair->others.async_acquire(
      [promise = std::move(promise)](zkclient::Result<Lease> lease) mutable { promise.set_value(std::move(lease)); });
  return [pair, &stage] {
    const bool lost = !pair->held.valid();
    if (lost && pair->waiting.valid()) {
      zkclient::Result<Lease> next = pair->waiting.get();
      pair->held = std::move(next).value();
      pair->holder = &pair->other.client;
    } else if (lost) {
      pair->held = pair->mutex.acquire();
      pair->holder = &stage.client;
    }
    pair->holder->commit(pair->held.transaction());
    return true;
  };
}

Works election(const Stage& stage) {
  const auto candidate = std::make_shared<LeaderElection>(stage.client, stage.path);
  return holds(stage.client, [candidate] { return Lease(candidate->campaign()); });
}

Works semaphore(const Stage& stage) {
  const auto permits = std::make_shared<Semaphore>(stage.client, stage.path, 1);
  return holds(stage.client, [permits] { return permits->acquire(); });
}

Works naming(const Stage& stage) {
  const auto names = std::make_shared<Naming>(stage.client, stage.path);
  return holds(stage.client, [names] { return names->bind("name", "data"); });
}

Works group_member(const Stage& stage) {
  const auto group = std::make_shared<Group>(stage.client, stage.path);
  const auto self = std::make_shared<Membership>(group->join("a"));
  return [&stage, group, self, updates = 0]() mutable {
    self->update(std::to_string(++updates));  // In force at the server.
    const GroupSnapshot all = group->members();
    const Member* listed = all.find("a");
    return listed != nullptr && listed->session_id == stage.client.session().id();
  };
}

Works service(const Stage& stage) {
  const auto directory = std::make_shared<ServiceDirectory>(stage.client, stage.path);
  const auto self = std::make_shared<Registration>(directory->register_instance({.name = "service", .id = "a"}));
  return [&stage, directory, self] {
    const auto there = stage.client.exists(self->node());
    return there && there->ephemeral_owner == stage.client.session().id();
  };
}

Works counter(const Stage& stage) {
  const auto number = std::make_shared<Counter>(stage.client, stage.path);
  return [number] { return number->add(1).after > 0; };
}

Works shared_value(const Stage& stage) {
  const auto value = std::make_shared<SharedValue>(stage.client, stage.path);
  return [value] {
    value->set("x");
    return value->get().data == "x";
  };
}

Works queue_pop(const Stage& stage) {
  const auto queue = std::make_shared<Queue>(stage.client, stage.path);
  return [queue] {
    queue->push("item");
    return queue->pop() == "item";
  };
}

/// The item that was claimed is claimed again when the claim is lost, also by the next process.
Works queue_claim(const Stage& stage) {
  const auto queue = std::make_shared<Queue>(stage.client, stage.path);
  if (!stage.client.exists(stage.path)) queue->push("item");
  const auto claim = std::make_shared<Claim>(queue->claim());
  return [queue, claim] {
    if (!claim->valid()) *claim = queue->claim();
    claim->commit();
    queue->push("item");
    *claim = queue->claim();
    return true;
  };
}

Works barrier(const Stage& stage) {
  const auto gate = std::make_shared<Barrier>(stage.client, stage.path);
  return [gate] {
    gate->raise();
    gate->lower();
    gate->wait();
    return true;
  };
}

Works configuration(const Stage& stage) {
  const auto configuration = std::make_shared<Configuration>(stage.client, stage.path);
  return [configuration] {
    configuration->wait_for_revision(configuration->publish({.values = {{"key", "value"}}}, any_revision));
    return true;
  };
}

Works cache(const Stage& stage) {
  stage.client.ensure(stage.path);
  const auto view = std::make_shared<NodeCache>(stage.client, stage.path);
  return [&stage, view] {
    const zkclient::Stat written = stage.client.set(stage.path, "x");
    view->wait_until([&](const Snapshot& now) { return now.root() && now.root()->stat.version >= written.version; });
    return view->state() == CacheState::current;
  };
}

/// It reads from its memory again.
Works coherent_cache(const Stage& stage) {
  const auto items = std::make_shared<CoherentCache>(stage.client, stage.path);
  return [items] {
    items->put("item", "x");
    return items->get("item")->data == "x" && items->peek("item") != nullptr;
  };
}

/// Those that were given to this member, by name.
template <typename Taken>
class Hands {
 public:
  void take(std::string name, Taken taken) {
    const std::lock_guard lock(mutex_);
    all_.insert_or_assign(std::move(name), std::move(taken));
  }
  /// All of them are held, as a transaction proves for one.
  bool work(const Client& client, std::size_t count) {
    const auto proof = [this, count]() -> std::optional<zkclient::Transaction> {
      const std::lock_guard lock(mutex_);
      const auto valid = [](const auto& taken) { return taken.second.valid(); };
      if (all_.size() < count || !std::all_of(all_.begin(), all_.end(), valid)) return std::nullopt;
      return all_.begin()->second.transaction();
    };
    const auto transaction = proof();
    if (!transaction) return false;
    client.commit(*transaction);
    return proof().has_value();
  }

 private:
  std::mutex mutex_;
  std::map<std::string, Taken> all_;
};

Works partitions(const Stage& stage) {
  const auto hands = std::make_shared<Hands<Partition>>();
  const auto member = std::make_shared<Partitioner>(
      stage.client, stage.path, PartitionSource::numbered(partition_count),
      [hands](Partition taken) {
        std::string name = taken.name();
        hands->take(std::move(name), std::move(taken));
      },
      PartitionerOptions{.id = "a"});
  member->start();
  return [&stage, hands, member] { return hands->work(stage.client, partition_count); };
}

Works primary(const Stage& stage) {
  const auto hands = std::make_shared<Hands<Primary>>();
  const auto monitor = std::make_shared<PrimaryMonitor>(stage.client, stage.path, std::vector<std::string>{"role"});
  const auto member = std::make_shared<PrimaryNode>(
      stage.client, stage.path, [hands](Primary taken) { hands->take("role", std::move(taken)); },
      PrimaryNodeOptions{.id = "a"});
  monitor->start();
  member->start();
  return [&stage, hands, monitor, member] { return hands->work(stage.client, 1); };
}

Works replica_group(const Stage& stage) {
  const auto self = std::make_shared<ReplicaGroup>(
      stage.client, stage.path, Replica{.id = "a", .storage = "disk"},
      ReplicaHandlers{.become_primary = [](const PrimaryTerm&) {}, .become_secondary = [](const SecondaryTerm&) {}});
  return [self, version = std::uint64_t{0}]() mutable {
    if (!self->may_write()) return false;
    self->report_version(++version);
    return self->may_write();
  };
}

constexpr Recipe all[] = {
    {"Client, one write", write},
    {"Counter", counter},
    {"SharedValue", shared_value},
    {"Queue, push and pop", queue_pop},
    {"Barrier", barrier},
    {"Configuration", configuration},
    {"NodeCache", cache},
    {"CoherentCache", coherent_cache},
    {"Mutex with a waiter", mutex_with_a_waiter},
    {"LeaderElection", election},
    {"Semaphore", semaphore},
    {"Naming, a bound name", naming},
    {"Queue, a claim", queue_claim},
    {"Group, a member", group_member},
    {"ServiceDirectory, dynamic", service},
    {"Partitioner, 128 alone", partitions},
    {"Primary with its monitor", primary},
    {"ReplicaGroup, alone", replica_group},
};

}  // namespace

std::span<const Recipe> recovery_recipes() { return all; }

}  // namespace bench
