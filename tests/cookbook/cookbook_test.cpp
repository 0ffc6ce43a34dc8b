// The programs of examples/cookbook, as processes: each does what it says, also when one of them is killed or paused.

#include <gtest/gtest.h>

#include <signal.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/client.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/queue.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/testkit.hpp"

namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using testkit::patient;

/// A program of the cookbook.
class Program : public testkit::Program {
 public:
  explicit Program(const std::string& name, std::vector<std::string> arguments = {})
      : testkit::Program(std::string(COOKBOOK) + "/cookbook_" + name, std::move(arguments)) {}
};

/// The number that follows `word` in a line.
long long number_after(const std::string& line, const std::string& word) {
  const auto place = line.find(word);
  long long number = -1;
  if (place != std::string::npos) std::sscanf(line.c_str() + place + word.size(), "%lld", &number);
  return number;
}

class Cookbook : public ::testing::Test {
 protected:
  // What a killed program held is free after this, whatever timeout it asks for.
  Cookbook() { ::setenv("ZKRECIPES_SERVER", server().connect_string().c_str(), 1); }
  ~Cookbook() override { client.remove_tree("/cookbook", patient()); }

  static zktesting::Server& server() {
    static zktesting::Server server([] {
      zktesting::ServerOptions options;
      options.max_session_timeout = 12s;  // Whoever holds something keeps it through a pause of seconds.
      return options;
    }());
    return server;
  }

  std::string data(const std::string& path) const {
    std::error_code error;
    return client.get(path, patient(), error).data;
  }

  void expect_one_record_for_each_step() const {
    const auto record = client.get("/cookbook/job/runs/today", patient());
    EXPECT_EQ(record.data, std::to_string(record.stat.version));
  }

  zkclient::Client client{server().connect_string()};
  testkit::TemporaryFolder folder;
};

constexpr const char* endless = "1000000";  // Steps of a job, each of which takes 50 ms.

/// How many steps are done when a job takes the lock, as it says.
long long steps_done(const std::string& holding) { return number_after(holding.substr(holding.rfind(',')), ", "); }

TEST_F(Cookbook, AJobRunsOnOneHostAndGoesOnWhereAKilledOneStopped) {
  Program first("singleton_job", {"today", endless});
  (void)first.says("holding");
  Program second("singleton_job", {"today", endless});
  ASSERT_TRUE(eventually([&] { return client.children("/cookbook/job/lock").names.size() == 2; }));
  (void)first.says("step 3");
  EXPECT_TRUE(second.has_said_nothing());
  first.signal(SIGKILL);

  const long long done = steps_done(second.says("holding"));
  EXPECT_GE(done, 3);
  EXPECT_EQ(second.next_line(), "step " + std::to_string(done + 1));
  EXPECT_EQ(second.next_line(), "step " + std::to_string(done + 2));
  second.signal(SIGKILL);
  EXPECT_EQ(second.status(), 128 + SIGKILL);

  const long long left = std::stoll(data("/cookbook/job/runs/today"));
  Program third("singleton_job", {"today", std::to_string(left + 3)});
  EXPECT_EQ(steps_done(third.says("holding")), left);
  for (long long step = left + 1; step <= left + 3; ++step)
    EXPECT_EQ(third.next_line(), "step " + std::to_string(step));
  EXPECT_EQ(third.next_line(), "done");
  EXPECT_EQ(third.status(), 0);
  expect_one_record_for_each_step();
}

TEST_F(Cookbook, AJobThatWasPausedDoesNothingOnceAnotherHostHasIt) {
  Program first("singleton_job", {"today", endless});
  const long long token = number_after(first.says("holding"), "token ");
  Program second("singleton_job", {"today", endless});
  (void)first.says("step 3");
  first.pause();
  const std::string holding = second.says("holding");
  EXPECT_GT(number_after(holding, "token "), token);
  const long long done = steps_done(holding);
  EXPECT_GE(done, 3);
  EXPECT_EQ(second.next_line(), "step " + std::to_string(done + 1));
  first.signal(SIGCONT);
  (void)first.says("stopped");
  EXPECT_EQ(second.next_line(), "step " + std::to_string(done + 2));
  second.signal(SIGKILL);
  EXPECT_GE(steps_done(first.says("holding")), done + 2);
  first.signal(SIGKILL);
  EXPECT_EQ(first.status(), 128 + SIGKILL);
  // The one that was paused has put no record back, nor added one.
  expect_one_record_for_each_step();
}

TEST_F(Cookbook, AServiceHasOneLeaderWhichResignsWhenItIsTerminated) {
  const zkrecipes::LeaderElection election(client, "/cookbook/service/election");
  Program first("elected_service", {"first"});
  (void)first.says("leading");
  Program second("elected_service", {"second"});
  Program third("elected_service", {"third"});
  ASSERT_TRUE(eventually([&] { return election.candidates(patient()).size() == 3; }));
  zkrecipes::Leader leader = election.wait_for_leader({}, patient());
  EXPECT_EQ(leader.value, "first");
  EXPECT_TRUE(eventually([&] { return data("/cookbook/service/beats").starts_with("first "); }));

  first.signal(SIGTERM);
  leader = election.wait_for_leader({.after = leader.term}, patient());
  EXPECT_NE(leader.value, "first");
  EXPECT_EQ(first.says("resigned"), "resigned");
  EXPECT_EQ(first.status(), 0);
  // The server ends a session a moment after a program that has not waited for its answer for long.
  EXPECT_TRUE(eventually([&] { return election.candidates(patient()).size() == 2; }));

  // One that only waits ends as well.
  Program& leads = leader.value == "second" ? second : third;
  Program& waits = leader.value == "second" ? third : second;
  waits.signal(SIGTERM);
  EXPECT_EQ(waits.says("resigned"), "resigned");
  EXPECT_EQ(waits.status(), 0);

  // One that is deposed is a candidate again.
  const long long term = number_after(leads.says("leading"), "term ");
  client.remove(zkclient::Path("/cookbook/service/election") / leader.node);
  (void)leads.says("not leading any more");
  EXPECT_GT(number_after(leads.says("leading"), "term "), term);
  leads.signal(SIGTERM);
  EXPECT_EQ(leads.status(), 0);
  EXPECT_TRUE(eventually([&] { return election.candidates(patient()).empty(); }));
}

// It has not lost its leadership, and must not wait behind it.
TEST_F(Cookbook, AServiceLeadsAgainAfterAWriteInDoubt) {
  zktesting::Proxy proxy(server().connect_string());
  ::setenv("ZKRECIPES_SERVER", proxy.connect_string().c_str(), 1);
  Program service("elected_service", {"alone"});
  long long term = number_after(service.says("leading"), "term ");
  for (int times = 0; times < 2; ++times) {
    // Three, because a heartbeat is a transaction, too, and there is one in seconds only.
    std::vector<zktesting::Fault> faults;
    for (int i = 0; i < 3; ++i)
      faults.push_back(proxy.drop_next_reply(zktesting::RequestType::multi));
    EXPECT_NE(service.says("not leading any more").find("may or may not have taken effect"), std::string::npos);
    const long long next = number_after(service.says("leading"), "term ");
    EXPECT_GT(next, term);
    term = next;
    for (zktesting::Fault& fault : faults)
      EXPECT_TRUE(fault.wait(testkit::patience));
  }
  service.signal(SIGTERM);
  EXPECT_EQ(service.status(), 0);
}

TEST_F(Cookbook, WorkersDoEachJobAndSetAsideWhatTheyCannotDo) {
  zkrecipes::Queue jobs(client, "/cookbook/jobs");
  jobs.push_all({"10", "20", "not a job", "30"}, patient());
  Program pool("worker_pool", {"2"});
  ASSERT_TRUE(eventually([&] { return jobs.size() == 0; }));
  EXPECT_EQ(client.children("/cookbook/results").names.size(), 3U);
  zkrecipes::Queue dead(client, "/cookbook/jobs/dead");
  EXPECT_EQ(dead.size(), 1U);  // What was done was committed, and has not come back until it was set aside.
  const zkrecipes::Claim letter = dead.claim(patient());
  EXPECT_EQ(letter.data(), "not a job");
  EXPECT_EQ(letter.reason(), "not a number");
  pool.signal(SIGTERM);
  EXPECT_EQ(pool.status(), 0);
}

TEST_F(Cookbook, AJobWhoseWorkerWasKilledIsDoneByAnotherWhichFinishesItBeforeItStops) {
  zkrecipes::Queue jobs(client, "/cookbook/jobs");
  jobs.push("10000", patient());  // Longer than it takes to kill its worker.
  Program doomed("worker_pool", {"1"});
  EXPECT_NE(doomed.says("started").find("delivery 1"), std::string::npos);
  doomed.signal(SIGKILL);
  Program other("worker_pool", {"1"});
  EXPECT_NE(other.says("started").find("delivery 2"), std::string::npos);
  other.signal(SIGTERM);
  (void)other.says("stopping");
  (void)other.says("done");
  EXPECT_EQ(other.next_line(), "stopped");
  EXPECT_EQ(other.status(), 0);
  EXPECT_EQ(jobs.size(), 0U);
  EXPECT_EQ(client.children("/cookbook/results").names.size(), 1U);
}

/// Hosts whose restart notes itself in a file, and which are healthy when the test says so.
class RollingRestart : public Cookbook {
 protected:
  std::unique_ptr<Program> host(const std::string& name) {
    const std::string restart = "echo " + name + " >> '" + (folder / "restarts").string() + "'";
    const std::string healthy = "test -e '" + (folder / name).string() + "'";
    return std::make_unique<Program>("rolling_restart", std::vector<std::string>{name, "2", restart, healthy});
  }
  void make_healthy(const std::string& name) { std::ofstream(folder / name) << "well\n"; }
  std::vector<std::string> restarted() {
    std::ifstream in(folder / "restarts");
    return {std::istream_iterator<std::string>(in), {}};
  }
  // One waits in front, and has made the node of its permit; the other ones wait for the lock that it has.
  bool wait_in_line(std::size_t count) {
    const zkclient::Path permits("/cookbook/restart/permits");
    const auto size = [&](const char* name) {
      std::error_code not_there_yet;
      return client.children(permits / name, patient(), not_there_yet).names.size();
    };
    return eventually([&] { return size("locks") == count && size("leases") == 3; });
  }
};

TEST_F(RollingRestart, NoMoreHostsAreDownThanMayBe) {
  const auto a = host("a");
  const auto b = host("b");
  (void)a->says("restarting");
  (void)b->says("restarting");
  const auto c = host("c");
  const auto d = host("d");
  ASSERT_TRUE(eventually([&] { return restarted().size() == 2; }));
  ASSERT_TRUE(wait_in_line(2));
  EXPECT_EQ(restarted().size(), 2U);
  for (const char* name : {"a", "b", "c", "d"})
    make_healthy(name);
  for (Program* program : {a.get(), b.get(), c.get(), d.get()})
    EXPECT_EQ(program->status(), 0);
  EXPECT_EQ(restarted().size(), 4U);
  EXPECT_TRUE(client.children("/cookbook/restart/down").names.empty());
}

TEST_F(RollingRestart, AHostThatDiesWhileItRestartsStillCounts) {
  const auto a = host("a");
  ASSERT_TRUE(eventually([&] { return restarted().size() == 1; }));
  a->signal(SIGKILL);
  const auto b = host("b");
  ASSERT_TRUE(eventually([&] { return restarted().size() == 2; }));
  const auto c = host("c");  // Gets a permit when the session of the first one is over.
  EXPECT_EQ(c->says("refused"), "refused: 2 hosts are down already: a b");
  EXPECT_EQ(c->status(), 1);
  // The operator brings the dead one up, and lets it try again.
  make_healthy("a");
  EXPECT_EQ(host("a")->status(), 0);
  make_healthy("b");
  EXPECT_EQ(b->status(), 0);
  make_healthy("c");
  EXPECT_EQ(host("c")->status(), 0);
  EXPECT_EQ(restarted(), (std::vector<std::string>{"a", "b", "a", "c"}));
}

TEST_F(Cookbook, MembersShareWhatTheConfigurationGives) {
  zkrecipes::Configuration operators(client, "/cookbook/member/configuration", {.id = "operators"});
  zkrecipes::ConfigurationUpdate update;
  update.values = {{"requests-per-second", "100"}};
  const std::int64_t first = operators.publish(update, 0, patient());

  Program one("service_member", {"one", (folder / "one").string()});
  (void)one.says("limit 100: 100 for 1 members");
  Program two("service_member", {"two", (folder / "two").string()});
  (void)one.says("limit 50: 100 for 2 members");
  (void)two.says("limit 50: 100 for 2 members");

  update.values = {{"requests-per-second", "60"}};
  const std::int64_t second = operators.publish(update, first, patient());
  EXPECT_TRUE(operators.wait_applied(second, {"one", "two"}, patient()).complete());
  (void)one.says("limit 30: 60 for 2 members");

  update.values = {{"requests-per-second", "-1"}};
  const std::int64_t bad = operators.publish(update, second, patient());
  EXPECT_EQ(operators.wait_applied(bad, {"one", "two"}, patient()).refused.size(), 2U);
  EXPECT_NE(one.says("refused").find("has to be positive"), std::string::npos);

  // The rate that was good stays, and the others hear at once of a member that leaves.
  two.signal(SIGTERM);
  EXPECT_EQ(two.says("left"), "left");
  EXPECT_EQ(two.status(), 0);
  (void)one.says("limit 60: 60 for 1 members");
  one.signal(SIGTERM);
  EXPECT_EQ(one.status(), 0);
}

TEST_F(Cookbook, NoMoneyIsLostOrMadeWhenAProcessDiesBetweenItsVoteAndTheCommit) {
  const std::string here = folder.path().string();
  Program transfer("bank_transfer", {here, "30"});
  EXPECT_EQ(transfer.next_line(), "transfer: committed ");
  EXPECT_EQ(transfer.next_line(), "alice has 70, bob has 130");
  EXPECT_EQ(transfer.status(), 0);

  Program crashes("bank_transfer", {here, "20", "crash"});
  EXPECT_EQ(crashes.status(), 128 + SIGKILL);
  int bob = 0;
  std::ifstream(folder / "bob") >> bob;
  EXPECT_EQ(bob, 130);  // It had no time to apply what it has voted for.

  Program again("bank_transfer", {here});
  EXPECT_EQ(again.says("alice"), "alice has 50, bob has 150");
  EXPECT_EQ(again.status(), 0);

  Program poor("bank_transfer", {here, "51"});
  EXPECT_EQ(poor.says("transfer"), "transfer: aborted vote of alice: no funds");
  EXPECT_EQ(poor.next_line(), "alice has 50, bob has 150");
  EXPECT_EQ(poor.status(), 0);
}

}  // namespace
