// A primary that is chosen by its status, with a planned hand-over.
//   primary [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/primary.hpp>

using namespace std::chrono_literals;

namespace {

constexpr const char* path = "/examples/primary";

/// A database, say, whose status is how much it has applied.
class Database {
 public:
  Database(const zkclient::Client& client, const std::string& id, const std::string& applied)
      : node_(
            client, path, [this](zkrecipes::Primary primary) { serve(std::move(primary)); }, options(id, applied)) {
    node_.start();
  }

 private:
  static zkrecipes::PrimaryNodeOptions options(const std::string& id, const std::string& applied) {
    zkrecipes::PrimaryNodeOptions options;
    options.id = id;
    options.status = applied;
    return options;
  }
  // Writes would carry primary_.token(), or the guard.
  void serve(zkrecipes::Primary primary) {
    std::printf("%s is the primary\n", node_.id().c_str());
    const std::lock_guard lock(mutex_);
    asked_.reset();
    primary_ = std::move(primary);
    asked_.emplace(primary_.revoke_requested(), [this] {
      std::printf("%s gives back\n", node_.id().c_str());
      primary_.async_release([](const zkclient::Result<void>&) {});
    });
  }

  std::mutex mutex_;
  zkrecipes::Primary primary_;
  std::optional<std::stop_callback<std::function<void()>>> asked_;
  zkrecipes::PrimaryNode node_;  // The first to go: then nobody calls serve() any more.
};

// Who has applied most, unless the one who is named is there.
std::string choose(const zkrecipes::RoleState& state, const std::vector<zkrecipes::Member>& members) {
  const zkrecipes::Member* best = nullptr;
  for (const zkrecipes::Member& member : members) {
    if (member.id == state.named) return member.id;
    if (best == nullptr || std::stoi(member.payload) > std::stoi(best->payload)) best = &member;
  }
  return best != nullptr ? best->id : "";
}

}  // namespace

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const char* hosts = server != nullptr ? server : "127.0.0.1:2181";
  const zkclient::Client client(hosts);
  const zkclient::Client other(hosts);  // As another process would have it.
  Database old(client, "old", "17");
  Database young(other, "young", "42");

  zkrecipes::PrimaryMonitorOptions options;
  options.choose = choose;
  zkrecipes::PrimaryMonitor monitor(client, path, {"writer"}, std::move(options));
  monitor.start();

  const zkrecipes::PartitionMap map(client, path);
  const zkrecipes::PartitionOwner first = map.wait_owner("writer", {}, {.deadline = 30s});
  const std::string next = first.id == "old" ? "young" : "old";
  monitor.move("writer", next, {.deadline = 30s});
  const zkrecipes::PartitionOwner second = map.wait_owner("writer", first.token, {.deadline = 30s});
  std::printf("%s, then %s\n", first.id.c_str(), second.id.c_str());
  return second.id == next ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
