// Replicas of partitions on hosts in racks: who has which, and what happens when one is drained.
//   placement [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181
//
// Here all hosts are in one process, and their replicas have no data, so whoever is there has all of it. What a primary
// with data does before it takes a member in: replicated_log.cpp.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/placement.hpp>
#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/replica_group.hpp>

using namespace std::chrono_literals;

namespace {

constexpr const char* path = "/examples/placement";

class Host {
 public:
  Host(const zkclient::Client& client, const std::string& id, const std::string& rack)
      : client_(client),
        replicas_(client, path, {id, rack},
                  {[this](const zkrecipes::HostedReplica& replica) { open(replica); },
                   [this](const zkrecipes::HostedReplica& replica) { close(replica); }}) {
    replicas_.start();
    tending_ = std::jthread([this](const std::stop_token& stop) {
      for (; !stop.stop_requested(); std::this_thread::sleep_for(50ms))
        tend_all();
    });
  }

  zkrecipes::HostedReplicas& replicas() { return replicas_; }

 private:
  struct Replica {
    std::int64_t epoch = 0;  // That it leads in, or led.
    std::optional<zkrecipes::ReplicaGroup> group;
  };

  void open(const zkrecipes::HostedReplica& replica) {
    std::printf("%s opens %s\n", replicas_.id().c_str(), replica.partition.c_str());
    const std::lock_guard lock(mutex_);
    Replica& opened = open_[replica.partition];
    zkrecipes::ReplicaHandlers handlers;
    handlers.become_primary = [this, &opened](const zkrecipes::PrimaryTerm& term) {
      const std::lock_guard held(mutex_);
      opened.epoch = term.epoch;
    };
    handlers.become_secondary = [](const zkrecipes::SecondaryTerm&) {};
    zkrecipes::ReplicaGroupOptions options;
    options.settle = 100ms;
    options.read_term = 200ms;
    opened.group.emplace(client_, replica.group, zkrecipes::Replica{replicas_.id(), "disk", replicas_.id() + ":7000"},
                         std::move(handlers), options);
  }
  // A group that is destroyed waits for its handler, which must find the mutex free.
  void close(const zkrecipes::HostedReplica& replica) {
    std::printf("%s closes %s\n", replicas_.id().c_str(), replica.partition.c_str());
    std::unique_lock lock(mutex_);
    auto closed = open_.extract(replica.partition);
    lock.unlock();
  }
  // The primary takes in who has come, and takes out who is gone.
  void tend_all() {
    const std::lock_guard lock(mutex_);
    for (auto& [partition, replica] : open_) {
      zkrecipes::ReplicaGroup& group = *replica.group;
      const auto state = group.state();
      if (group.role() != zkrecipes::ReplicaRole::primary || !group.may_serve_reads() || !state) continue;
      std::vector<std::string> gone;
      for (const zkrecipes::InSyncReplica& one : state->in_sync)
        gone.push_back(one.id);
      for (const zkrecipes::ReplicaMember& member : group.members()) {
        std::erase(gone, member.id);
        if (state->find(member.id) == nullptr)
          group.async_expand(replica.epoch, member.id, member.storage, [](const zkclient::Result<void>&) {});
      }
      if (!gone.empty()) group.async_shrink(gone, [](const zkclient::Result<void>&) {});
    }
  }

  const zkclient::Client client_;
  std::mutex mutex_;
  std::map<std::string, Replica> open_;
  zkrecipes::HostedReplicas replicas_;
  std::jthread tending_;  // The first to go.
};

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  Host a(client, "a", "rack-1");
  Host b(client, "b", "rack-1");
  Host c(client, "c", "rack-2");

  zkrecipes::PlacerOptions options;
  options.replicas = 2;
  options.minimum = 2;
  options.settle = 500ms;
  zkrecipes::Placer placer(client, path, {"orders", "users"}, std::move(options));
  placer.start();

  const zkrecipes::PlacementMap map(client, path);
  const zkrecipes::PartitionReplicas orders = map.wait_primary("orders", {}, {.deadline = 30s});
  std::printf("the primary of orders is %s\n", orders.primary->address.c_str());
  a.replicas().drain({.deadline = 50s});
  std::printf("a is drained\n");
  return EXIT_SUCCESS;
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
