// Partitions shared out among the processes that are there, and a router that knows the owners.
//   partitions [host:port] [id]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181; two members in this process
//
// With an id it is one member, until Enter is pressed: start it in several terminals.

#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>

using namespace std::chrono_literals;

namespace {

constexpr const char* path = "/examples/partitions";
constexpr std::size_t partitions = 12;

/// The work on one partition: begins when it is there, and ends when the partition is asked back or lost.
class Work {
 public:
  explicit Work(zkrecipes::Partition partition)
      : partition_(std::move(partition)), asked_(partition_.revoke_requested(), [this] { finish(); }) {}

 private:
  void finish() {
    // Here the last piece of work would be done.
    partition_.async_release([](const zkclient::Result<void>&) {});
  }

  zkrecipes::Partition partition_;
  std::stop_callback<std::function<void()>> asked_;
};

class Member {
 public:
  Member(const zkclient::Client& client, const std::string& id)
      : partitioner_(
            client, path, zkrecipes::PartitionSource::numbered(partitions),
            [this](zkrecipes::Partition partition) { begin(std::move(partition)); }, options(id)) {
    partitioner_.start();
  }

  zkrecipes::Partitioner& partitioner() { return partitioner_; }

 private:
  static zkrecipes::PartitionerOptions options(const std::string& id) {
    zkrecipes::PartitionerOptions options;
    options.id = id;
    options.data = "address-of-" + id;
    options.settle = 200ms;
    return options;
  }
  void begin(zkrecipes::Partition partition) {
    std::printf("%s has %s\n", partitioner_.id().c_str(), partition.name().c_str());
    const std::string name = partition.name();
    const std::lock_guard lock(mutex_);
    work_[name] = std::make_unique<Work>(std::move(partition));
  }

  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Work>> work_;
  zkrecipes::Partitioner partitioner_;  // The first to go: then nobody calls begin() any more.
};

using Shares = std::map<std::string, std::size_t>;

/// Waits until the owners have so many partitions each.
void wait_for(const zkrecipes::PartitionMap& map, const Shares& wanted) {
  std::mutex mutex;
  std::condition_variable changed;
  const auto subscription = map.on_change([&](const std::vector<zkrecipes::OwnerChange>&) {
    const std::lock_guard lock(mutex);
    changed.notify_all();
  });
  std::unique_lock lock(mutex);
  const bool reached = changed.wait_for(lock, 30s, [&] {
    Shares shares;
    for (const auto& [partition, owner] : map.owners())
      ++shares[owner.id];
    return shares == wanted;
  });
  if (!reached) throw zkclient::Error(zkclient::Errc::deadline_exceeded, "example", path);
}

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const char* hosts = server != nullptr ? server : "127.0.0.1:2181";
  const zkclient::Client client(hosts);
  if (argc > 2) {
    Member member(client, argv[2]);
    (void)std::getchar();
    member.partitioner().leave({.deadline = 30s});
    return EXIT_SUCCESS;
  }

  const zkrecipes::PartitionMap map(client, path);
  Member first(client, "first");
  wait_for(map, {{"first", partitions}});

  // A second member, of its own client as another process would be, gets a half of them.
  const zkclient::Client other(hosts);
  Member second(other, "second");
  wait_for(map, {{"first", partitions / 2}, {"second", partitions / 2}});

  // A router.
  const std::string key = "customer 4711";
  const std::string partition = std::to_string(zkrecipes::partition_of(key, partitions));
  const zkrecipes::PartitionOwner owner = map.wait_owner(partition, {}, {.deadline = 30s});
  std::printf("%s is in partition %s, at %s\n", key.c_str(), partition.c_str(), owner.data.c_str());

  first.partitioner().leave({.deadline = 30s});
  wait_for(map, {{"second", partitions}});
  second.partitioner().leave({.deadline = 30s});
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
