// Who may write: two replicas of a log, and what the primary asks before it acknowledges.
//   replica_group [host:port]    default: $ZKRECIPES_SERVER, else 127.0.0.1:2181
//
// Here both logs are in one process. Between processes the entries go over sockets, and are on disk before they are
// confirmed.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <future>
#include <map>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/replica_group.hpp>

using namespace std::chrono_literals;
using zkrecipes::PrimaryTerm;
using zkrecipes::SecondaryTerm;

using Log = std::vector<std::string>;

// All that are in sync have it, and the lease still is ours: only then a client is told.
bool write(zkrecipes::ReplicaGroup& primary, std::map<std::string, Log>& logs, const std::string& entry) {
  for (const zkrecipes::InSyncReplica& replica : primary.in_sync())
    logs[replica.id].push_back(entry);
  return primary.may_write();
}

int main(int argc, char** argv) try {
  const char* server = argc > 1 ? argv[1] : std::getenv("ZKRECIPES_SERVER");
  const zkclient::Client client(server != nullptr ? server : "127.0.0.1:2181");
  std::map<std::string, Log> logs;
  zkrecipes::ReplicaGroupOptions options;
  options.settle = 100ms;
  options.read_term = 500ms;  // So long a primary waits for the readers of a member that it takes out.

  std::promise<std::int64_t> first_leads;
  zkrecipes::ReplicaHandlers of_first;
  of_first.become_primary = [&](const PrimaryTerm& term) {
    std::printf("one is the primary of epoch %lld\n", static_cast<long long>(term.epoch));
    first_leads.set_value(term.epoch);
  };
  of_first.become_secondary = [](const SecondaryTerm&) {};
  zkrecipes::ReplicaGroup first(client, "/examples/log", {"one", "disk-17", "10.0.0.1:7000"}, std::move(of_first),
                                options);
  const std::int64_t epoch = first_leads.get_future().get();

  std::promise<void> second_follows;
  std::promise<void> second_leads;
  zkrecipes::ReplicaHandlers of_second;
  of_second.become_secondary = [&](const SecondaryTerm& term) {
    std::printf("two %s %s\n", term.in_sync ? "is in sync with" : "copies the log of", term.primary.c_str());
    if (!term.in_sync) logs["two"] = logs["one"];
    if (!term.in_sync) second_follows.set_value();
  };
  of_second.become_primary = [&](const PrimaryTerm& term) {
    std::printf("two is the primary of epoch %lld\n", static_cast<long long>(term.epoch));
    second_leads.set_value();
  };
  zkrecipes::ReplicaGroup second(client, "/examples/log", {"two", "disk-23", "10.0.0.2:7000"}, std::move(of_second),
                                 options);
  second_follows.get_future().wait();

  // It has all there is, so it is taken in: from now on nothing is acknowledged that it lacks.
  first.expand(epoch, "two", "disk-23", {.deadline = std::chrono::steady_clock::now() + 10s});
  const bool done = write(first, logs, "hello");
  std::printf("%s\n", done ? "acknowledged" : "not acknowledged");

  // The next primary has it.
  first.leave({.deadline = std::chrono::steady_clock::now() + 10s});
  second_leads.get_future().wait();
  std::printf("two has: %s\n", logs["two"].back().c_str());
  second.shrink({"one"}, {.deadline = std::chrono::steady_clock::now() + 10s});
  second.leave({.deadline = std::chrono::steady_clock::now() + 10s});
  return done && logs["two"] == Log{"hello"} ? 0 : 1;
} catch (const zkclient::Error& error) {
  std::fprintf(stderr, "%s\n", error.what());
  return 1;
}
