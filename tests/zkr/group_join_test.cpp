// `zkr group join` on a real server.

#include <gtest/gtest.h>

#include <signal.h>

#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/group.hpp>
#include <zktesting/environment.hpp>

#include "tests/support/testkit.hpp"
#include "tests/zkr/expiry.hpp"
#include "tests/zkr/zkr_process.hpp"

namespace zkr {
namespace {

using testkit::eventually;
using testkit::patient;

const bool no_member_stays = (end_what_tests_leave(), true);

int groups = 0;

class ZkrGroupJoin : public testing::Test {
 protected:
  ZkrGroupJoin()
      : path_(std::string("/zkr/") + testing::UnitTest::GetInstance()->current_test_info()->name() + "-" +
              std::to_string(++groups)) {}

  /// zkr group join PATH --id web OPTIONS... -- COMMAND...
  Words words(const Words& command, const Words& options = {}) const {
    Words all{"group", "join", path_, "--id", "web", "--server", zktesting::SharedServer::instance().connect_string()};
    all.insert(all.end(), options.begin(), options.end());
    if (!command.empty()) all.emplace_back("--");
    all.insert(all.end(), command.begin(), command.end());
    return all;
  }
  Words shell(const std::string& line) const { return {"/bin/sh", "-c", line}; }
  std::optional<zkrecipes::Member> member() const {
    const zkrecipes::GroupSnapshot now = zkrecipes::Group(client_, path_).members(patient());
    const zkrecipes::Member* found = now.find("web");
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  bool is_gone() const {
    return eventually([this] { return !member(); });
  }

  const std::string path_;
  zkclient::Client client_{zktesting::SharedServer::instance().connect_string()};
};

TEST_F(ZkrGroupJoin, MemberForAsLongAsTheCommandRuns) {
  ZkrProcess zkr(words(shell("echo $ZKR_MODE $ZKR_PATH ${ZKR_TOKEN-none}; " ZKR " held && read -r word; exit 3"),
                       {"--payload", "at 10.0.0.8"}));
  EXPECT_EQ(zkr.lines().await(""), "joined " + path_ + " none");
  const auto joined = member();
  ASSERT_TRUE(joined);
  EXPECT_EQ(joined->payload, "at 10.0.0.8");
  zkr.type("end\n");
  EXPECT_EQ(zkr.end(), exited(3));
  EXPECT_TRUE(is_gone());
}

TEST_F(ZkrGroupJoin, SignalGoesToTheCommand) {
  ZkrProcess zkr(words(shell("trap 'echo told; exit 5' TERM; echo up; for i in $(seq 20000); do sleep 0.01; done")));
  EXPECT_TRUE(zkr.lines().await("up"));
  zkr.signal(SIGTERM);
  EXPECT_EQ(zkr.lines().await(""), "told");
  EXPECT_EQ(zkr.end(), exited(5));
  EXPECT_TRUE(is_gone());
}

TEST_F(ZkrGroupJoin, MemberWhoseProcessIsKilledIsGoneAtOnce) {
  ZkrProcess zkr(words(puppet("env ZKR_SESSION pause"), {"--session-timeout", "60s"}));
  const std::string session = session_of(zkr);
  ASSERT_TRUE(member());
  zkr.signal(SIGKILL);
  EXPECT_TRUE(is_gone());
  EXPECT_FALSE(has_expired(session));
}

// The command goes on: what it does is nobody else's meanwhile.
TEST_F(ZkrGroupJoin, MemberWhoseNodeIsDeletedJoinsAgain) {
  ZkrProcess zkr(words(shell("echo up; read -r word; echo $word")));
  EXPECT_TRUE(zkr.lines().await("up"));
  const auto before = member();
  ASSERT_TRUE(before);
  client_.remove(path_ + "/web");
  EXPECT_TRUE(eventually([&] {
    const auto now = member();
    return now && now->incarnation != before->incarnation;
  }));
  zkr.type("on\n");
  EXPECT_EQ(zkr.lines().await(""), "on");
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrGroupJoin, NameThatAnotherMemberHasIsWaitedFor) {
  auto other = zkrecipes::Group(client_, path_).join("web", "", patient());
  EXPECT_EQ(ZkrProcess(words({"true"}, {"--try"})).end(), exited(75));
  ZkrProcess late(words({"true"}, {"--try", "-E", "9"}));
  EXPECT_EQ(late.errors().await(""), "zkr: " + path_ + ": another member has the name");
  EXPECT_EQ(late.end(), exited(9));
  ZkrProcess told(words({"true"}));
  ZkrProcess patient_one(words({"true"}));
  told.keeper();
  told.signal(SIGTERM);
  EXPECT_EQ(told.end(), killed_by(SIGTERM));
  other.leave(patient());
  EXPECT_EQ(patient_one.end(), exited(0));
}

TEST_F(ZkrGroupJoin, NamesOfKazoosMembersNeedNotDiffer) {
  const zkrecipes::GroupOptions kazoo{.layout = zkrecipes::GroupLayout::kazoo_party()};
  const auto other = zkrecipes::Group(client_, zkclient::Path(path_), kazoo).join("web", "", patient());
  EXPECT_EQ(ZkrProcess(words({"true"}, {"--layout", "kazoo", "--try"})).end(), exited(0));
}

// A group is held by nobody, so its members may lock, or join, what lies at the same path.
TEST_F(ZkrGroupJoin, MembersCommandMayJoinAsAnother) {
  Words inner = words({"true"});
  inner[4] = "another";
  inner.insert(inner.begin(), ZKR);
  EXPECT_EQ(ZkrProcess(words(inner)).end(), exited(0));
}

TEST_F(ZkrGroupJoin, MetricsAreInAFileThatIsReplaced) {
  const Folder folder;
  const std::string file = folder / "zkr.prom";
  const auto content = [&file] {
    std::ifstream stream(file);
    return std::string{std::istreambuf_iterator<char>(stream), {}};
  };
  ZkrProcess zkr(words(shell("echo up; read -r word"), {"--metrics", file}));
  EXPECT_TRUE(zkr.lines().await("up"));
  EXPECT_TRUE(content().ends_with("# EOF\n"));
  zkr.close_input();
  EXPECT_EQ(zkr.end(), exited(1));
  // By the keeper, after the front has ended.
  EXPECT_TRUE(eventually([&] { return content().find("\nzkrecipes_sessions_closed_total 1\n") != std::string::npos; }));
  EXPECT_TRUE(content().ends_with("# EOF\n"));
  EXPECT_EQ(ZkrProcess(words({"true"}, {"--metrics", folder / "none/zkr.prom"})).end(), exited(71));
}

TEST_F(ZkrGroupJoin, HoldsUntilTheEndOfItsInput) {
  ZkrProcess zkr(words({}, {"--hold", "--layout", "kazoo"}));
  EXPECT_EQ(zkr.lines().await(""), "held");
  zkr.close_input();
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(ZkrProcess(words({"true"}, {"--layout", "kazoo", "--payload", "x"})).end(), exited(64));
}

}  // namespace
}  // namespace zkr
