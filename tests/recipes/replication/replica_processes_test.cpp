// A primary whose process is killed. It is this same program, started with "--worker".

#include <gtest/gtest.h>

#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/replica_group.hpp>

#include "tests/recipes/replication/replica_support.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/self_process.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;

/// So long that no pause of the worker ends its leases before it is killed.
constexpr std::chrono::milliseconds killed_session = 10s;

void report(const std::string& line) {
  [[maybe_unused]] const ssize_t written = ::write(STDOUT_FILENO, line.data(), line.size());
}

/// Takes in whoever is not in sync, and says when it was allowed to write, until it is killed.
int run_primary(const std::string& hosts) {
  const zkclient::Client client(hosts, {.session_timeout = killed_session, .server_tick = testkit::server_tick});
  ReplicaGroup group(client, "/replicas", {"killed", "disk"}, {[](const PrimaryTerm&) {}, [](const SecondaryTerm&) {}});
  for (;;) {
    const auto now = testkit::boot_ns();
    if (group.may_write()) report("may " + std::to_string(now) + "\n");
    const auto state = group.state();
    for (const ReplicaMember& member : group.members()) {
      if (!state || state->epoch == 0 || state->find(member.id) != nullptr) continue;
      try {
        group.expand(state->epoch, member.id, member.storage, {.deadline = testkit::soon()});
      } catch (const zkclient::Error&) {
        // Not now: the next look tries again.
      }
    }
    std::this_thread::sleep_for(1ms);  // The pace of the looks: a part of the experiment.
  }
}

class ReplicaProcesses : public testkit::RecipeFaultTest {
 protected:
  ReplicaProcesses() : RecipeFaultTest("/replicas") {}
};

TEST_F(ReplicaProcesses, PrimarysProcessDies) {
  std::atomic<std::int64_t> last_allowed{0};
  std::vector<std::string> arguments{"--worker", server.connect_string()};
  auto process = std::make_unique<testkit::SelfProcess>(std::move(arguments), [&](const auto& words) {
    if (words.size() == 2 && words[0] == "may") last_allowed = std::stoll(words[1]);
  });
  ASSERT_TRUE(testkit::eventually([&] { return last_allowed != 0; }));
  const zkclient::Client client = calm_direct();
  testkit::TestReplica other(client, "other");
  ASSERT_TRUE(testkit::eventually([&] { return other.seen_in_sync() == std::vector<std::string>{"killed", "other"}; }));
  const auto node = the_operator().get("/replicas/primary/owner");
  const testkit::Stalls stalls;
  process.reset();  // Whatever it was at; all that it has said is heard.
  const std::int64_t killed = testkit::boot_ns();
  ASSERT_TRUE(other.may_write());
  ASSERT_TRUE(testkit::eventually([&] { return !other.primary_terms().empty(); }));
  const auto [told, term] = other.primary_terms().at(0);
  EXPECT_GT(told.time_since_epoch().count(), last_allowed);
  EXPECT_GT(term.token.value, node.stat.czxid);
  EXPECT_EQ(term.epoch, 2);
  // The server rounds the end of a session up to a tick. Nine seconds are for the rest, less than a second session takes:
  // the server may be paused, too.
  const auto limit = std::chrono::nanoseconds(killed_session + testkit::server_tick + 9s).count();
  EXPECT_LT(told.time_since_epoch().count() - killed, limit + stalls.during(killed, killed + limit));
}

}  // namespace
}  // namespace zkrecipes

int main(int argc, char** argv) {
  if (argc > 2 && std::string_view(argv[1]) == "--worker") return zkrecipes::run_primary(argv[2]);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
