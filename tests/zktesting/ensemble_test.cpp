#include "zktesting/ensemble.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <fstream>
#include <iostream>
#include <set>
#include <sstream>
#include <string>

#include "testing_support.hpp"
#include "tests/support/ensembles.hpp"
#include "zktesting/expire.hpp"

namespace zktesting {
namespace {

constexpr auto patience = 120s;  // A new leader may sit on its requests for half a minute.

/// Connections that the servers have opened to each other without a proxy. (Java's sockets are IPv6
/// ones, ours are not.)
std::size_t direct_links(Ensemble& ensemble) {
  std::size_t count = 0;
  std::ifstream table("/proc/net/tcp6");
  for (std::string line; std::getline(table, line);) {
    std::string number, local, remote, state;
    std::istringstream(line) >> number >> local >> remote >> state;
    for (std::size_t i = 0; i < ensemble.size() && state == "01"; ++i) {
      in_addr address{};
      ::inet_pton(AF_INET, ensemble.server(i).address().c_str(), &address);
      count += remote.find(fmt::format("{:08X}:", address.s_addr)) == 24 ? 1 : 0;
    }
  }
  return count;
}

/// Also when it has ended itself.
bool does_not_serve(Ensemble& ensemble, std::size_t index) {
  try {
    return ensemble.server(index).four_letter_word("srvr").find("Mode:") == std::string::npos;
  } catch (const Error&) {
    return !ensemble.server(index).running();
  }
}

/// A leader that is not `old`, once there is one.
std::optional<std::size_t> new_leader(Ensemble& ensemble, std::size_t old) {
  std::optional<std::size_t> leader;
  std::ignore = eventually([&] {
    testkit::restart_who_has_died(ensemble, old);
    leader = ensemble.leader();
    return leader && leader != old;
  });
  ensemble.wait_for_quorum(patience);
  return leader;
}

// The proxies between the servers are in this process: if it stands still for a moment, they may elect again, and drop
// whom they serve.
bool serves(const Ensemble& ensemble, std::size_t server, const std::string& path) {
  try {
    const auto code = connect_to(ensemble.connect_string(server)).create(path, "", WireClient::persistent);
    return code == 0 || code == WireClient::node_exists;
  } catch (const std::exception&) {
    return false;
  }
}

/// Waits until that server says whether the node is there.
bool eventually_has(const Ensemble& ensemble, std::size_t server, const std::string& path) {
  std::int32_t code = WireClient::no_node;
  const auto answers = [&] {
    try {
      code = connect_to(ensemble.connect_string(server)).exists(path);
      return true;
    } catch (const std::exception&) {
      return false;
    }
  };
  return eventually(answers) && code == WireClient::ok;
}

TEST(Ensemble, ServesThroughEachServer) {
  const auto begin = Clock::now();
  Ensemble ensemble;
  std::cout << "start-up: " << (Clock::now() - begin) / 1ms << " ms\n";
  ASSERT_EQ(ensemble.size(), 3u);
  EXPECT_NO_THROW(std::ignore = testkit::roles_of(ensemble)) << "one leads, and two follow";
  EXPECT_EQ(ensemble.connect_string(),
            ensemble.connect_string(0) + "," + ensemble.connect_string(1) + "," + ensemble.connect_string(2));
  std::set<std::string> addresses;
  for (std::size_t i = 0; i < ensemble.size(); ++i) {
    addresses.insert(ensemble.server(i).address());
    const std::string path = "/" + std::to_string(i);
    EXPECT_TRUE(eventually([&] { return serves(ensemble, i, path); }));
    EXPECT_GT(ensemble.peer_bytes(i), 0u) << "all that servers say goes through the proxies";
  }
  EXPECT_EQ(addresses.size(), 3u);
  EXPECT_NE(error_of([&] { ensemble.kill(3); }).find("no server 3"), std::string::npos);
}

TEST(Ensemble, ServersTalkThroughTheProxiesOnly) {
  Ensemble ensemble;
  EXPECT_EQ(direct_links(ensemble), 0u);
  for (std::size_t i = 0; i < ensemble.size(); ++i) {
    // A server with a low id cannot call one with a higher id: it asks to be called back.
    ensemble.restart(i);
    ensemble.wait_for_all(patience);
    EXPECT_EQ(direct_links(ensemble), 0u);
  }
  EnsembleOptions options;
  options.isolable = false;
  Ensemble direct(options);
  EXPECT_GT(direct_links(direct), 0u) << "or else this test sees nothing";
}

TEST(Ensemble, LivesOnWithoutItsLeader) {
  EnsembleOptions options;
  options.sync_limit = 40;  // 20 s, so that the new one stays the leader.
  Ensemble ensemble(options);
  const auto old = testkit::roles_of(ensemble).leader;
  ensemble.kill(old);
  const auto leader = new_leader(ensemble, old);
  ASSERT_TRUE(leader);
  EXPECT_NE(*leader, old);
  EXPECT_TRUE(eventually([&] { return serves(ensemble, *leader, "/a"); }));
  ensemble.restart(old);
  EXPECT_EQ(testkit::roles_of(ensemble).leader, *leader);
  EXPECT_TRUE(eventually_has(ensemble, old, "/a"));
}

TEST(Ensemble, WithoutAQuorumNothingIsServed) {
  Ensemble ensemble;
  ensemble.stop(0);
  ensemble.kill(1);
  EXPECT_NE(error_of([&] { ensemble.wait_for_quorum(300ms); }).find("server 0"), std::string::npos);
  ensemble.restart(0);
  ensemble.wait_for_quorum(patience);
}

TEST(Ensemble, APausedLeaderIsReplaced) {
  Ensemble ensemble;
  const auto old = testkit::roles_of(ensemble).leader;
  ensemble.pause(old);
  EXPECT_TRUE(new_leader(ensemble, old));
  ensemble.resume(old);
  ensemble.wait_for_all(patience);
}

/// The scenario for which isolation exists: a follower that does not know that it is cut off.
TEST(Ensemble, AnIsolatedFollowerAnswersReadsWhileTheOthersGoOn) {
  EnsembleOptions options;
  options.sync_limit = 80;  // 40 s
  Ensemble ensemble(options);
  const testkit::Roles roles = testkit::roles_of(ensemble);
  const auto leader = roles.leader;
  const auto cut_off = roles.follower;
  WireClient observer = connect_to(ensemble.connect_string(leader));
  WireClient reader = connect_to(ensemble.connect_string(cut_off), 8s);
  ASSERT_EQ(reader.create("/mine", "", WireClient::ephemeral), 0);
  ASSERT_TRUE(eventually([&] { return observer.exists("/mine") == 0; })) << "the leader may lag behind its follower";

  ensemble.isolate(cut_off);

  const auto bytes = ensemble.peer_bytes(cut_off);
  EXPECT_EQ(observer.create("/new", "", WireClient::persistent), 0) << "the majority commits";
  EXPECT_TRUE(eventually([&] {
    EXPECT_EQ(reader.exists("/mine"), 0) << "the isolated server has not heard of it";
    return observer.exists("/mine") == WireClient::no_node;
  })) << "the majority expires the session";
  EXPECT_EQ(reader.exists("/mine"), 0);
  EXPECT_EQ(reader.exists("/new"), WireClient::no_node);
  EXPECT_EQ(ensemble.peer_bytes(cut_off), bytes) << "not a byte passed";

  ensemble.heal(cut_off);

  ensemble.wait_for_all(patience);
  WireClient after = connect_to(ensemble.connect_string(cut_off));
  EXPECT_EQ(after.exists("/new"), 0) << "it has caught up";
  EXPECT_EQ(after.exists("/mine"), WireClient::no_node);
}

class IsolatedLeader : public testing::TestWithParam<Isolation> {};

TEST_P(IsolatedLeader, IsReplacedAndComesBack) {
  Ensemble ensemble;
  const auto old = testkit::roles_of(ensemble).leader;
  ensemble.isolate(old, GetParam());
  const auto leader = new_leader(ensemble, old);
  ASSERT_TRUE(leader);
  ASSERT_NE(*leader, old);
  EXPECT_TRUE(eventually([&] { return serves(ensemble, *leader, "/a"); }));
  EXPECT_TRUE(eventually([&] { return does_not_serve(ensemble, old); })) << "it cannot lead alone";
  ensemble.heal(old);
  testkit::restart_who_has_died(ensemble);
  ensemble.wait_for_all(patience);
  EXPECT_TRUE(eventually_has(ensemble, old, "/a"));
}

INSTANTIATE_TEST_SUITE_P(Ensemble, IsolatedLeader,
                         testing::Values(Isolation::freeze, Isolation::deaf, Isolation::mute, Isolation::sever));

class IsolatedFollower : public testing::TestWithParam<Isolation> {};

TEST_P(IsolatedFollower, MissesWritesUntilHealed) {
  EnsembleOptions options;
  options.sync_limit = 10;  // 5 s, so that the others do not part as well.
  Ensemble ensemble(options);
  const testkit::Roles roles = testkit::roles_of(ensemble);
  const auto leader = roles.leader;
  const auto cut_off = roles.follower;
  ensemble.isolate(cut_off, GetParam());
  EXPECT_TRUE(eventually([&] { return serves(ensemble, leader, "/a"); }));
  // Whatever it did before it noticed, it must end up without a leader.
  EXPECT_TRUE(eventually([&] { return does_not_serve(ensemble, cut_off); }));
  EXPECT_TRUE(eventually([&] { return serves(ensemble, leader, "/b"); }));
  ensemble.heal(cut_off);
  testkit::restart_who_has_died(ensemble);
  ensemble.wait_for_all(patience);
  EXPECT_TRUE(eventually_has(ensemble, cut_off, "/b"));
}

INSTANTIATE_TEST_SUITE_P(Ensemble, IsolatedFollower,
                         testing::Values(Isolation::freeze, Isolation::deaf, Isolation::mute, Isolation::sever));

TEST(Ensemble, ExpiresASessionThroughAnotherServer) {
  Ensemble ensemble;
  WireClient victim = connect_to(ensemble.connect_string(0));
  ASSERT_EQ(victim.create("/mine", "", WireClient::ephemeral), 0);
  expire(ensemble.connect_string(1), victim.session().id, victim.session().password);
  // If that server sat on the first attempt, the second one was told by the leader, which is ahead of it.
  EXPECT_TRUE(
      eventually([&] { return connect_to(ensemble.connect_string(1)).exists("/mine") == WireClient::no_node; }));
  EXPECT_TRUE(eventually([&] { return !error_of([&] { victim.exists("/"); }).empty(); })) << "its own server drops it";
}

TEST(Ensemble, WithReconfigurationItCannotBeIsolated) {
  EnsembleOptions options;
  options.isolable = false;
  Ensemble ensemble(options);
  EXPECT_EQ(ensemble.peer_bytes(), 0u);
  EXPECT_NE(error_of([&] { ensemble.isolate(0); }).find("isolable"), std::string::npos);
  const auto config = connect_to(ensemble.connect_string(0)).get_data("/zookeeper/config");
  EXPECT_NE(config.value_or("").find("server.3="), std::string::npos);
  ensemble.kill(1);
  ensemble.restart(1);
  ensemble.wait_for_all(patience);
}

TEST(Ensemble, AMemberMayLoseItsData) {
  Ensemble ensemble;
  const testkit::Roles roles = testkit::roles_of(ensemble);
  const auto leader = roles.leader;
  const auto follower = roles.follower;
  ASSERT_TRUE(eventually([&] { return serves(ensemble, leader, "/a"); }));
  ensemble.server(follower).restart_wiped();
  ensemble.wait_for_all(patience);
  EXPECT_TRUE(eventually_has(ensemble, follower, "/a"));
}

TEST(Ensemble, RefusesBadOptions) {
  EnsembleOptions bad;
  bad.size = 4;
  EXPECT_NE(error_of([&] { Ensemble{bad}; }).find("odd"), std::string::npos);
  bad = {};
  bad.sync_limit = 0;
  EXPECT_NE(error_of([&] { Ensemble{bad}; }).find("sync_limit"), std::string::npos);
  bad = {};
  bad.server.config["reconfigEnabled"] = "true";
  EXPECT_NE(error_of([&] { Ensemble{bad}; }).find("reconfigEnabled"), std::string::npos);
}

}  // namespace
}  // namespace zktesting
