// What `zkr who`, `top` and `doctor` tell of recipes that have more than contenders, or none.

#include <gtest/gtest.h>

#include <future>
#include <string>
#include <vector>

#include <zkrecipes/persistent_node.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/zkr_call.hpp"
#include "tools/zkr/commands/top_looker.hpp"

namespace zkr {
namespace {

using namespace testkit::words;

class ZkrInspection : public testkit::RecipeTest {
 protected:
  ZkrInspection() : RecipeTest("/place") {}

  void put(const Path& node, const std::string& data, CreateMode mode = CreateMode::persistent) {
    client().create(node, data, {.mode = mode, .parents = true});
  }
  Called zkr(std::vector<std::string> words) const {
    words.insert(words.begin(), {"--server", hosts(), "--prefix", prefix().str()});
    return call_zkr(std::move(words));
  }
  std::string who(const std::string& at = "/place") const { return zkr({"who", at}).output; }
  std::string top() const { return zkr({"top", "/place", "--batch", "--looks", "1"}).output; }
  Called doctor() const { return zkr({"doctor", "/place", "--timer-time", "1ms", "--takeover-time", "1ms"}); }
  /// The doctor says `words` as something that is as grave as this.
  void expect_finding(const std::string& gravity, const std::string& words) const {
    const Called called = doctor();
    const std::string line = gravity + "  " + prefix().str() + "/place: " + words;
    EXPECT_NE(called.output.find(line), std::string::npos) << line << "\n" << called.output;
    EXPECT_EQ(called.code, gravity == "failure" ? 2 : called.code) << called.output;
  }
  static void expect_in(const std::string& output, const std::string& words) {
    EXPECT_NE(output.find(words), std::string::npos) << words << "\n" << output;
  }

  /// A run of the job, whose state and history are written by hand.
  static std::string run(const std::string& outcome, const std::string& more = "", const std::string& day = "31") {
    const std::string begun = "2026-01-" + day + "T02:30:00.00";
    return R"({"firing":")" + begun + R"(0Z","attempt":1,"outcome":")" + outcome +
           R"(","runner":"web-1:7","token":7,"started":")" + begun + R"(4Z")" + more + "}";
  }
};

TEST_F(ZkrInspection, LatchTellsWhatIsLeft) {
  put(path(), "generation=2 count=3 left=2");
  EXPECT_EQ(who(), "/place  latch, generation 2, 2 of 3 left\n");
  expect_in(top(), "generation 2, 2 of 3 left");
  expect_finding("ok     ", "latch, generation 2, 2 of 3 left");
  client().set(path(), "generation=2 count=3 left=0");
  EXPECT_EQ(who(), "/place  latch, generation 2 is open\n");
}

TEST_F(ZkrInspection, JobTellsItsRuns) {
  put("/place/state", R"({"settled":"2026-01-31T02:30:00.000Z"})");
  put("/place/history/2026-01-31T02:30:00.000Z-1", run("failed", R"(,"duration_ms":1500,"error":"disk\nfull")"));
  put("/place/history/2026-01-30T02:30:00.000Z-1", run("succeeded", R"(,"duration_ms":61000)", "30"));
  EXPECT_EQ(who(),
            "/place  periodic job, no run goes on, the last one failed, settled up to 2026-01-31T02:30:00.000Z\n"
            "FIRING                    ATTEMPT  OUTCOME    RUNNER   STARTED                   TOOK   WHY\n"
            "2026-01-31T02:30:00.000Z  1        failed     web-1:7  2026-01-31T02:30:00.004Z  1s     disk\\x0Afull\n"
            "2026-01-30T02:30:00.000Z  1        succeeded  web-1:7  2026-01-30T02:30:00.004Z  1m01s  -\n");
  expect_in(top(), "no run goes on, the last one failed");
  expect_finding("warning", "the last run on record, of 2026-01-31T02:30:00.000Z, failed: disk\\x0Afull");
}

TEST_F(ZkrInspection, JobWhoseRunnerIsGone) {
  put("/place/state", R"({"settled":"2026-01-30T02:30:00.000Z","running":)" + run("running") + "}");
  put("/place/runner", "id=web-1 host=web-1 pid=7 since=x", CreateMode::ephemeral);
  expect_in(who(), "/place  periodic job, a run goes on, settled up to ");
  expect_in(who(), "\n1  holds  web-1  web-1  7    ");
  expect_in(who(), "1        running  web-1:7");
  EXPECT_EQ(doctor().output.find("lost its runner"), std::string::npos);
  client().remove("/place/runner");
  expect_in(who(), "its runner is gone");
  expect_in(who(), "abandoned");
  expect_finding("failure", "the run of 2026-01-31T02:30:00.000Z has lost its runner web-1:7");
  client().set("/place/state", "{}");
  put("/place/history/2026-01-31T02:30:00.000Z-1", run("succeeded"));
  expect_finding("failure", "its node \"state\" holds no state of a job");
}

// A process that stands by shows only when it has taken the job over, which it does after the runner's node has gone.
TEST_F(ZkrInspection, JobThatIsBeingTakenOverIsNoFailure) {
  put("/place/state", R"({"settled":"2026-01-30T02:30:00.000Z","running":)" + run("running") + "}");
  const zktesting::Proxy proxy(hosts());
  std::future<Called> doctor = std::async(std::launch::async, [&] {
    return call_zkr({"--server", proxy.connect_string(), "--prefix", prefix().str(), "doctor", "/place", "--timer-time",
                     "1ms", "--takeover-time", "10m"});
  });
  // Of one look: the state, the runner, and the state again.
  const auto ended = [&] { return doctor.wait_for(0s) == std::future_status::ready; };
  EXPECT_TRUE(eventually([&] { return ended() || proxy.request_count(zktesting::RequestType::get_data) > 3; }));
  EXPECT_FALSE(ended()) << "it has looked once";
  put("/place/runner", "id=web-2 host=web-2 pid=7 since=x", CreateMode::ephemeral);
  const Called called = doctor.get();
  EXPECT_EQ(called.output.find("lost its runner"), std::string::npos) << called.output;
  EXPECT_NE(called.output.find("periodic job, a run goes on"), std::string::npos) << called.output;
}

TEST_F(ZkrInspection, MigrationsTellTheirSteps) {
  put("/place/users/meta-0000000000", std::string(32, 'x'));
  put("/place/users/meta-0000000001", std::string(32, 'y'));
  put("/place/orders/meta-0000000000", std::string(32, 'z'));
  expect_in(who(), "/place  migrations, Curator layout, 2 sets, 3 steps applied\nSET     RECORD           APPLIED ");
  expect_in(who(), "\nusers   meta-0000000001  ");
  expect_in(who(), "Z  797979797979\n");
  expect_finding("ok     ", "migrations, 2 sets, 3 steps applied");
  client().set("/place/users/meta-0000000001", "words");
  expect_in(who("/place/users"), "1 sets, 1 steps applied, 1 foreign records");
  expect_in(who(), "foreign: no record of a step\n");
  expect_finding("failure", "set users has nodes that are no records, so that no program migrates it: meta-0000000001");
  put("/place/orders/notes", "words");
  expect_finding("warning",
                 "set orders has nodes that are no records, so that no program of Curator's migrates it: notes");
}

TEST_F(ZkrInspection, PlacementTellsHostsAndPartitions) {
  put("/place/hosts/a", "host 1 2 rack-1", CreateMode::ephemeral);
  put("/place/hosts/b", "host 1 0 -", CreateMode::ephemeral);
  put("/place/placement/p0", "placement 1\na wanted\nb leaving\n");
  put("/place/groups/p0/state", "replicas 1 epoch=7 primary=a minimum=1 forced=0 leaving=0\na disk-a 1000\n");
  put("/place/groups/p0/members/a", "replica 1 disk-a 1000 0 at-a", CreateMode::ephemeral);
  put("/place/groups/p0/primary/owner", "a", CreateMode::ephemeral);
  const std::string shown = who();
  expect_in(shown,
            "/place  placement, 2 hosts, 1 partitions, 1 moving\nHOST  STATE     WEIGHT  RACK    REPLICAS  LEAVING");
  expect_in(shown, "\na     up        2       rack-1  1         0        0x");
  expect_in(shown, "\nb     draining  0       -       0         1        0x");
  expect_in(shown,
            "PARTITION  IN SYNC  MINIMUM  PRIMARY  WANTED  LEAVING  STATE\n"
            "p0         a        1        a        a       b        moving\n");
  expect_in(top(), "2 hosts, 1 partitions, 1 moving");
  expect_finding("note   ", "partitions whose replicas are on their way: p0");
  expect_finding("warning", "no placer leads");
  EXPECT_EQ(doctor().code, 1);
}

TEST_F(ZkrInspection, PlacementWithWhatIsDangerous) {
  put("/place/hosts/b", "words");
  for (const char* partition : {"p0", "p1", "p2", "p3", "p4"})
    put(path() / "placement" / partition, "placement 1\na wanted\n");
  put("/place/placement/p5", "words");
  put("/place/groups/p0/state", "replicas 1 epoch=7 primary=a minimum=2 forced=0 leaving=0\na disk-a 1000\n");
  put("/place/groups/p0/members/a", "replica 1 disk-a 1000 0 at-a", CreateMode::ephemeral);
  expect_finding("failure", "partitions below their minimum, where nothing can be written: p0, p1, p2 and 3 more");
  expect_finding("failure", "partitions whose nodes are none of this library's, or missing: p5");
  expect_finding("warning", "partitions with replicas on hosts that are not there: p0, p1, p2 and 2 more");
  expect_finding("warning", "nodes among the hosts that are none: b");
  expect_in(who(), "6 below minimum");
}

TEST_F(ZkrInspection, NodesThatAreKept) {
  const zkrecipes::PersistentNode node(client(), "/folder/kept", "words");
  node.wait_created(patient());
  expect_in(who("/folder/kept"), "/folder/kept  persistent node, 1 holds, 0 waits\n");
  expect_in(who("/folder/kept"), "\n1  holds  words  ");
  put("/place/touch", "");
  expect_in(who(), "/place  persistent TTL node, Curator layout, last touched ");
  EXPECT_EQ(doctor().output.find("nodes of no session"), std::string::npos);
}

TEST_F(ZkrInspection, TopLooksOnceIntoNodesThatStayAsTheyAre) {
  const zkrecipes::PersistentNode one(client(), "/folder/one", "words");
  const zkrecipes::PersistentNode two(client(), "/folder/two", "words");
  one.wait_created(patient());
  two.wait_created(patient());
  const zktesting::Proxy proxy(hosts());
  TopLooker top(Client(proxy.connect_string(), {.prefix = prefix()}), {"/folder"}, 1s);
  const auto look = [&] {
    for (const TopRow& row : top.look(patient()))
      EXPECT_EQ(row.found.kind, zkrecipes::RecipeKind::persistent_node) << row.path << row.trouble;
  };
  const auto reads = [&] {
    return proxy.request_count(RequestType::exists) + proxy.request_count(RequestType::get_data);
  };
  look();
  const std::size_t first = reads();
  look();
  const std::size_t second = reads();
  EXPECT_EQ(second - first, 4U) << "two of the folder, and one of each node: whether it has changed";
  client().set("/folder/one", "other words");
  look();
  EXPECT_GT(reads() - second, 4U);
}

}  // namespace
}  // namespace zkr
