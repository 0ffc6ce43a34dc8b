// `zkr` and recipes: who holds, who leads, and what changes. ZKRECIPES_ROUNDS=number: of handlers whose watch is ended.

#include <gtest/gtest.h>

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <sstream>

#include <fmt/format.h>
#include <boost/json/parse.hpp>

#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/unfair_leader_election.hpp>

#include "tests/monitoring/queries.hpp"
#include "tests/support/commit_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/rounds.hpp"
#include "tests/zkr/zkr_call.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace testkit::words;
using Words = std::vector<std::string>;

class ZkrLooking : public testkit::RecipeTest {
 protected:
  ZkrLooking() : RecipeTest("/place") {}

  Words words(Words own) const {
    const Words place = {"--server", hosts(), "--prefix", prefix().str()};
    own.insert(own.begin(), place.begin(), place.end());
    return own;
  }
  Called zkr(Words own) const { return call_zkr(words(std::move(own))); }
  boost::json::object json(Words own) const {
    own.emplace_back("--json");
    const Called called = zkr(std::move(own));
    EXPECT_EQ(called.code, 0) << called.errors;
    return boost::json::parse(called.output).as_object();
  }
};

Words members_of(const boost::json::value& object) {
  Words names;
  for (const auto& member : object.as_object())
    names.emplace_back(member.key());
  return names;
}

// --- who ----------------------------------------------------------------------------------------------------------

TEST_F(ZkrLooking, Z23Z67WhoHoldsAndWaits) {
  zkrecipes::Mutex first(client(), path(), {.id = "ci"});
  zkrecipes::Mutex second(client(), path());
  zkrecipes::Lease lease = first.acquire();
  auto waiting = in_thread([&] { return second.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2));
  const auto who = json({"who", "/place"});
  EXPECT_EQ(members_of(who), (Words{"path", "kind", "naming", "holders", "waiters", "contenders"}));
  EXPECT_EQ(who.at("kind"), "mutex");
  EXPECT_EQ(who.at("naming"), "curator");
  EXPECT_EQ(who.at("holders"), 1);
  EXPECT_EQ(who.at("waiters"), 1);
  const auto& holder = who.at("contenders").at(0);
  EXPECT_EQ(members_of(holder),
            (Words{"state", "node", "who", "host", "pid", "since", "session", "token", "shared", "data"}));
  EXPECT_EQ(holder.at("state"), "holds");
  EXPECT_EQ(holder.at("who"), "ci");
  EXPECT_EQ(holder.at("pid"), ::getpid());
  EXPECT_EQ(holder.at("token"), lease.token().value);
  EXPECT_TRUE(who.at("contenders").at(1).at("who").is_null());
  const Called shown = zkr({"who", "/place"});
  EXPECT_EQ(shown.output.substr(0, shown.output.find('\n')), "/place  mutex, Curator layout, 1 holds, 1 waits");
  EXPECT_NE(shown.output.find("   STATE  WHO  HOST"), std::string::npos) << shown.output;
  EXPECT_NE(shown.output.find("\n1  holds  ci"), std::string::npos) << shown.output;
  EXPECT_NE(shown.output.find("\n2  waits  -"), std::string::npos) << shown.output;
  lease.release();
  (void)result_of(waiting);
}

TEST_F(ZkrLooking, AddressesOfContendersAreThoseOfTheirConnections) {
  NEEDS_CONTROL();
  const auto lease = zkrecipes::Mutex(client(), path()).acquire();
  const auto who = json({"who", "/place", "--address"});
  const std::string address(who.at("contenders").at(0).at("address").as_string());
  const std::string connections = server().four_letter_word("cons");
  const std::size_t at = connections.find("/" + address + "[");
  ASSERT_NE(at, std::string::npos) << address << "\n" << connections;
  const std::string line = connections.substr(at, connections.find('\n', at) - at);
  EXPECT_NE(line.find(fmt::format("sid={:#x}", client().session().id())), std::string::npos) << line;
  const Called shown = zkr({"who", "/place", "--address"});
  EXPECT_NE(shown.output.find("  ADDRESS  "), std::string::npos) << shown.output;
  EXPECT_NE(shown.output.find("  " + address + "  "), std::string::npos) << shown.output;
}

TEST_F(ZkrLooking, NobodyHolds) {
  EXPECT_EQ(zkr({"who", "/place"}).code, 66);
  client().create(path(), "");
  const Called shown = zkr({"who", "/place"});
  EXPECT_EQ(shown.code, 0);
  EXPECT_EQ(shown.output, "/place  free, or no recipe that is known, 0 holds, 0 waits\n");
  EXPECT_EQ(json({"who", "/place"}).at("kind"), "unknown");
}

TEST_F(ZkrLooking, ForeignContendersAreNotGuessed) {
  client().create("/place/x-1234-", "java", {.mode = CreateMode::ephemeral_sequential, .parents = true});
  const auto who = json({"who", "/place"});
  EXPECT_EQ(who.at("holders"), 0);
  EXPECT_EQ(who.at("contenders").at(0).at("state"), "foreign");
  EXPECT_NE(zkr({"who", "/place"}).output.find("0 holds, 0 waits, 1 foreign"), std::string::npos);
}

TEST_F(ZkrLooking, ItemsOfAQueue) {
  zkrecipes::Queue queue(client(), path());
  queue.push_all({"a", "b"});
  const auto claim = queue.claim({.deadline = soon()});
  const auto who = json({"who", "/place"});
  EXPECT_EQ(members_of(who), (Words{"path", "kind", "naming", "holders", "waiters", "items", "contenders"}));
  EXPECT_EQ(who.at("items"), 2);
  EXPECT_EQ(zkr({"who", "/place"}).output.substr(0, 32), "/place  queue, 2 items, 1 claime");
}

// --- leader -------------------------------------------------------------------------------------------------------

TEST_F(ZkrLooking, Z23WhoLeads) {
  const Called nobody = zkr({"leader", "/place"});
  EXPECT_EQ(nobody.code, 66);
  EXPECT_EQ(nobody.output, "");
  EXPECT_EQ(nobody.errors, "zkr: /place: nobody leads\n");
  zkrecipes::LeaderElection election(client(), path(), {.id = "me"});
  auto leadership = election.campaign({.deadline = soon()});
  EXPECT_EQ(zkr({"leader", "/place"}).output, "me\n");
  leadership.proclaim("at 10.0.0.8");
  leadership.ready();
  EXPECT_EQ(zkr({"leader", "/place", "--wait=ready"}).output, "me\n");
  const auto seen = json({"leader", "/place"});
  EXPECT_EQ(members_of(seen), (Words{"path", "leader"}));
  EXPECT_EQ(members_of(seen.at("leader")), (Words{"id", "node", "term", "session", "ready", "value"}));
  EXPECT_EQ(seen.at("leader").at("value"), "at 10.0.0.8");
  EXPECT_EQ(seen.at("leader").at("ready"), true);
  EXPECT_EQ(seen.at("leader").at("term"), leadership.token().value);
}

TEST_F(ZkrLooking, LeaderOfAnUnfairElection) {
  zkrecipes::UnfairLeaderElection election(client(), path(), {.id = "me"});
  const auto leadership = election.campaign({.deadline = soon()});
  EXPECT_EQ(zkr({"leader", "/place"}).output, "me\n");
}

TEST_F(ZkrLooking, WaitForALeaderEnds) {
  const Called over = zkr({"leader", "/place", "--wait", "--timeout", "50ms"});
  EXPECT_EQ(over.code, 75);
  EXPECT_NE(over.errors.find("waited for a leader"), std::string::npos) << over.errors;
}

// --- Queues, barriers, revocation ---------------------------------------------------------------------------------

TEST_F(ZkrLooking, ItemsGoInAndComeOut) {
  const auto push = [&](Words more) {
    more.insert(more.begin(), {"queue", "push", "/place"});
    EXPECT_EQ(zkr(std::move(more)).code, 0);
  };
  push({"first"});
  push({"--", "-second"});
  EXPECT_EQ(zkr({"queue", "size", "/place"}).output, "2\n");
  EXPECT_EQ(zkr({"queue", "peek", "/place"}).output, "first");
  EXPECT_EQ(zkr({"queue", "pop", "/place"}).output, "first");
  const auto listed = json({"queue", "ls", "/place"});
  EXPECT_EQ(members_of(listed), (Words{"node", "priority", "deliveries", "claimed", "claimed_by", "since", "data"}));
  EXPECT_EQ(json({"queue", "pop", "/place"}).at("data"), "-second");
  const Called none = zkr({"queue", "pop", "/place", "--try"});
  EXPECT_EQ(none.code, 75);
  EXPECT_EQ(none.output, "");
  push({"third"});
  EXPECT_EQ(json({"queue", "purge", "/place"}).at("purged"), 1);
  EXPECT_EQ(zkr({"queue", "size", "/place"}).output, "0\n");
}

TEST_F(ZkrLooking, ItemThatCannotBeWrittenStaysInTheQueue) {
  EXPECT_EQ(zkr({"queue", "push", "/place", "first"}).code, 0);
  EXPECT_EQ(zkr({"queue", "push", "/place", "second"}).code, 0);
  for (const char* output : {"/dev/full", "/proc/self/fd/7"}) {
    // The second: a pipe that nobody reads.
    const std::string script = "exec 7> >(:); wait $!; \"$@\" >" + std::string(output);
    Words pop = {"-c", script, "bash", zkr_program()};
    for (const std::string& word : words({"queue", "pop", "/place"}))
      pop.push_back(word);
    testkit::Program full("/bin/bash", std::move(pop));
    EXPECT_EQ(full.status(), 71) << output;
  }
  EXPECT_EQ(zkr({"queue", "pop", "/place", "--timeout", "20s"}).output, "first");
  EXPECT_EQ(zkr({"queue", "pop", "/place", "--timeout", "20s"}).output, "second");
}

TEST_F(ZkrLooking, ItemsWithPrioritiesAreNotPushedAmongThoseWithout) {
  EXPECT_EQ(zkr({"queue", "push", "/place", "plain"}).code, 0);
  const Called refused = zkr({"queue", "push", "/place", "urgent", "--priority", "1"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_EQ(refused.errors, "zkr: /place has items without priorities\n");
  EXPECT_EQ(zkr({"queue", "size", "/place"}).output, "1\n");
}

TEST_F(ZkrLooking, DelayedItemsAreForLater) {
  EXPECT_EQ(zkr({"queue", "push", "/place", "due", "--not-before", "2026-01-31T12:03:04.5Z"}).code, 0);
  EXPECT_EQ(json({"queue", "ls", "/place"}).at("not_before"), "2026-01-31T12:03:04.500Z");
  EXPECT_EQ(zkr({"queue", "push", "/place", "later", "--delay", "1h"}).code, 0);
  EXPECT_EQ(zkr({"queue", "push", "/place", "now"}).code, 0);
  EXPECT_EQ(zkr({"queue", "pop", "/place"}).output, "due");
  EXPECT_EQ(zkr({"queue", "pop", "/place"}).output, "now");
  EXPECT_EQ(zkr({"queue", "pop", "/place", "--try"}).code, 75);
  EXPECT_EQ(zkr({"queue", "size", "/place"}).output, "1\n");
  EXPECT_EQ(zkr({"queue", "push", "/place", "x", "--id", "x"}).code, 64);
  EXPECT_EQ(zkr({"queue", "push", "/place", "x", "--delay", "1s", "--id", "x"}).code, 64);
  EXPECT_EQ(json({"queue", "purge", "/place"}).at("purged"), 0) << "nothing is due";
}

TEST_F(ZkrLooking, ItemDueLongAgoHastensNoOtherOne) {
  EXPECT_EQ(zkr({"queue", "push", "/place", "at once", "--not-before", "1970-01-01T00:00:00Z"}).code, 0);
  EXPECT_EQ(zkr({"queue", "push", "/place", "later", "--delay", "1h"}).code, 0);
  EXPECT_EQ(zkr({"queue", "pop", "/place"}).output, "at once");
  EXPECT_EQ(zkr({"queue", "pop", "/place", "--try"}).code, 75);
  EXPECT_EQ(zkr({"queue", "size", "/place"}).output, "1\n");
}

// Taken for times, they would wait for decades.
TEST_F(ZkrLooking, IdsThatLookLikeTimes) {
  for (const char* id : {"1234567890123", "12345678", "00000000"})
    EXPECT_EQ(zkr({"queue", "push", "/place", id, "--id", id}).code, 0);
  EXPECT_EQ(json({"queue", "remove", "/place", "1234567890123"}).at("removed"), 1);
  const std::string refusal =
      "zkr: /place has items with times, or with ids that look like times: --kind delay or --kind id says which\n";
  for (const Words& call : {Words{"pop", "/place", "--try"}, Words{"purge", "/place"}, Words{"push", "/place", "x"},
                            Words{"work", "/place", "--idle-exit", "0", "--", "true"}}) {
    Words all{"queue"};
    all.insert(all.end(), call.begin(), call.end());
    const Called refused = zkr(std::move(all));
    EXPECT_EQ(refused.code, 64) << call[0];
    EXPECT_EQ(refused.errors, refusal) << call[0];
  }
  EXPECT_EQ(zkr({"queue", "size", "/place"}).output, "2\n") << "to look is no change";
  EXPECT_EQ(zkr({"queue", "pop", "/place", "--try", "--kind", "id"}).output, "12345678");
  EXPECT_EQ(json({"queue", "purge", "/place", "--kind", "id"}).at("purged"), 1);
  EXPECT_EQ(zkr({"queue", "push", "/place", "x", "--kind", "delay", "--id", "x"}).code, 64);
}

TEST_F(ZkrLooking, DeadLettersWithIdsThatLookLikeTimes) {
  zkrecipes::IdQueue queue(client(), path(), {.layout = zkrecipes::QueueLayout::standard()});
  queue.push("letter", "12345678", {.deadline = soon()});
  queue.claim({.deadline = soon()}).reject("", {.deadline = soon()});
  const Called refused = zkr({"queue", "retry-dead", "/place"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_NE(refused.errors.find("/place/dead has items with times, or with ids"), std::string::npos) << refused.errors;
  EXPECT_EQ(json({"queue", "retry-dead", "/place", "--kind", "id"}).at("retried"), 1);
  EXPECT_EQ(queue.try_pop({.deadline = soon()}), "letter");
}

TEST_F(ZkrLooking, ItemsAreRemovedByTheirIds) {
  EXPECT_EQ(zkr({"queue", "remove", "/place", "order-17", "-v"}).errors, "zkr: 0 items\n");
  for (const char* id : {"order-17", "order-18", "order-17"})
    EXPECT_EQ(zkr({"queue", "push", "/place", id, "--id", id}).code, 0);
  const Called refused = zkr({"queue", "push", "/place", "without"});
  EXPECT_EQ(refused.code, 64);
  EXPECT_EQ(refused.errors, "zkr: /place has items with ids: --id\n");
  EXPECT_EQ(json({"queue", "remove", "/place", "order-17"}).at("removed"), 2);
  EXPECT_EQ(json({"queue", "ls", "/place"}).at("id"), "order-18");
  EXPECT_EQ(zkr({"queue", "pop", "/place"}).output, "order-18");
  EXPECT_EQ(zkr({"queue", "remove", "/place", "a/b"}).code, 64);
}

TEST_F(ZkrLooking, DeadLettersAreRetriedAtTheEndOfTheQueue) {
  EXPECT_EQ(json({"queue", "retry-dead", "/place"}).at("retried"), 0);
  zkrecipes::PriorityQueue queue(client(), path(), {.layout = zkrecipes::QueueLayout::standard()});
  for (const char* item : {"a", "b"}) {
    queue.push(item, 3, {.deadline = soon()});
    queue.claim({.deadline = soon()}).reject("nobody can read it", {.deadline = soon()});
  }
  queue.push("c", 3, {.deadline = soon()});
  EXPECT_EQ(zkr({"queue", "retry-dead", "/place", "-v"}).errors, "zkr: 2 items\n");
  for (const char* item : {"c", "a", "b"}) {
    auto claim = queue.claim({.deadline = soon()});
    EXPECT_EQ(claim.data(), item);
    EXPECT_EQ(claim.reason(), "");
    EXPECT_EQ(claim.priority(), 3);
    EXPECT_EQ(claim.deliveries(), 1);
    claim.commit({.deadline = soon()});
  }
  EXPECT_EQ(json({"queue", "retry-dead", "/place"}).at("retried"), 0);
}

TEST_F(ZkrLooking, LayoutOfAQueueIsThatOfItsItems) {
  zkrecipes::PriorityQueue theirs(client(), path(), {.layout = zkrecipes::QueueLayout::kazoo()});
  theirs.push("later", 200);
  EXPECT_EQ(zkr({"queue", "push", "/place", "sooner", "--priority", "7"}).code, 0);
  EXPECT_EQ(theirs.pop({.deadline = soon()}), "sooner");
  EXPECT_EQ(zkr({"queue", "pop", "/place"}).output, "later");
}

TEST_F(ZkrLooking, BarrierIsUpAndDown) {
  EXPECT_EQ(json({"barrier", "raise", "/place", "--id", "me"}).at("raised"), true);
  EXPECT_EQ(json({"barrier", "raise", "/place"}).at("raised"), false);
  EXPECT_EQ(json({"who", "/place"}).at("contenders").at(0).at("who"), "me");
  const Called waiting = zkr({"barrier", "wait", "/place", "--timeout", "10ms"});
  EXPECT_EQ(waiting.code, 75);
  EXPECT_EQ(zkr({"barrier", "lower", "/place"}).code, 0);
  EXPECT_EQ(zkr({"barrier", "wait", "/place"}).code, 0);
}

TEST_F(ZkrLooking, Z67HolderIsAskedAndThenBroken) {
  EXPECT_EQ(zkr({"revoke", "/place"}).output, "released\n");
  zkrecipes::Lease lease = zkrecipes::Mutex(client(), path()).acquire();
  EXPECT_EQ(zkr({"revoke", "/place"}).output, "requested\n");
  EXPECT_TRUE(stopped(lease.revoke_requested()));
  EXPECT_EQ(json({"revoke", lease.node(), "--break-after", "10ms"}).at("outcome"), "broken");
  EXPECT_TRUE(stopped(lease.lost()));
}

TEST_F(ZkrLooking, HoldersOfASemaphoreAreAsked) {
  zkrecipes::Lease lease = zkrecipes::Semaphore(client(), path(), 1).acquire();
  EXPECT_EQ(zkr({"revoke", "/place"}).output, "requested\n");
  EXPECT_TRUE(stopped(lease.revoke_requested()));
}

// --- metrics ------------------------------------------------------------------------------------------------------

/// The sample's value; "": there is no such sample.
std::string sample_of(const Called& called, const std::string& name) {
  const std::size_t at = called.output.find("\nzkrecipes_path_" + name + " ");
  if (at == std::string::npos) return "";
  const std::size_t begin = called.output.find(' ', at) + 1;
  return called.output.substr(begin, called.output.find('\n', begin) - begin);
}

TEST_F(ZkrLooking, MetricsCountHoldersWaitersAndItems) {
  client().create("/locks", "");
  zkrecipes::Mutex first(client(), "/locks/a");
  zkrecipes::Mutex second(client(), "/locks/a");
  zkrecipes::Lease lease = first.acquire();
  auto waiting = in_thread([&] { return second.acquire({.deadline = soon()}); });
  ASSERT_TRUE(remain(2, "/locks/a"));
  zkrecipes::Queue queue(client(), path());
  queue.push_all({"a", "b"});
  const auto claim = queue.claim({.deadline = soon()});
  const Called called = zkr({"metrics", "/locks/a", "/place", "/none"});
  EXPECT_EQ(called.code, 0) << called.errors;
  EXPECT_EQ(sample_of(called, R"(kind{path="/locks/a",kind="mutex",naming="curator"})"), "1") << called.output;
  EXPECT_EQ(sample_of(called, R"(holders{path="/locks/a"})"), "1") << called.output;
  EXPECT_EQ(sample_of(called, R"(waiters{path="/locks/a"})"), "1");
  EXPECT_NE(sample_of(called, R"(oldest_wait_seconds{path="/locks/a"})"), "");
  EXPECT_EQ(sample_of(called, R"(items{path="/place"})"), "2");
  EXPECT_EQ(sample_of(called, R"(items_claimed{path="/place"})"), "1");
  EXPECT_EQ(sample_of(called, R"(holders{path="/none"})"), "0");
  EXPECT_EQ(sample_of(called, R"(holders{path="/place"})"), "");
  EXPECT_TRUE(called.output.ends_with("\n# EOF\n"));
  lease.release();
  (void)result_of(waiting);
}

TEST_F(ZkrLooking, MetricsAreAsTheGuideShowsThem) {
  const auto lease = zkrecipes::Mutex(client(), "/deploy").acquire();
  const std::string written = "$ zkr metrics /deploy\n" + zkr({"metrics", "/deploy"}).output;
  std::ifstream file(DOCS "/zkr_look.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  const std::size_t begin = guide.find("$ zkr metrics /deploy");
  const std::string shown = guide.substr(begin, guide.find("```", begin) - begin);
  EXPECT_EQ(written.substr(0, shown.size()), shown);
}

TEST_F(ZkrLooking, Z79TwoReadersSeeTheSameMetrics) {
  zkrecipes::Queue(client(), path()).push("a");
  const std::string once = zkr({"metrics", "/place"}).output;
  EXPECT_EQ(once, zkr({"metrics", "/place", "/place"}).output);
  EXPECT_EQ(once, zkr({"metrics", "/place"}).output);
  EXPECT_NE(once, "");
}

TEST_F(ZkrLooking, PrometheusReadsTheMetrics) {
  const std::string promtool = monitoring::program_file("promtool");
  if (promtool.empty()) GTEST_SKIP() << monitoring::no_prometheus;
  const auto lease = zkrecipes::Mutex(client(), path()).acquire();
  zkrecipes::Queue(client(), "/queue").push("a");
  const testkit::TemporaryFolder folder;
  std::ofstream(folder / "metrics") << zkr({"metrics", "/place", "/queue", "/a\"b\\c"}).output;
  testkit::Program check("/bin/sh",
                         {"-c", "\"$0\" check metrics <\"$1\" 2>&1", promtool, (folder / "metrics").string()});
  EXPECT_EQ(check.status(), 0) << check.next_line();
  EXPECT_TRUE(check.has_said_nothing());
}

// --- Two-phase commit ---------------------------------------------------------------------------------------------

TEST_F(ZkrLooking, TransactionsAreListedAndRecovered) {
  testkit::Gate gate;
  testkit::TestParticipant participant(client(), path(), "bank");
  testkit::hold(participant, gate);
  participant.start(client());
  EXPECT_EQ(zkr({"commit", "ls", "/place"}).output, "");
  Client other = make_client();
  zkrecipes::CommitCoordinator coordinator(other, path());
  auto running = in_thread([&] { return coordinator.run({"bank"}, "payload", {.timeout = 60s}); });
  const std::string id = gate.reached.take();
  const auto open = json({"commit", "ls", "/place"});
  EXPECT_EQ(std::string(open.at("id").as_string()), id);
  EXPECT_EQ(open.at("state"), "open");
  EXPECT_EQ(open.at("participants"), (boost::json::array{"bank"}));
  EXPECT_EQ(open.at("voted"), boost::json::array());
  EXPECT_EQ(open.at("coordinated"), true);
  EXPECT_NE(zkr({"commit", "ls", "/place"}).output.find(id + "  open"), std::string::npos);
  // The coordinator is gone before there is a decision; its participant votes later.
  other.close();
  EXPECT_EQ(testkit::error_of([&] { (void)result_of(running); }), Errc::in_doubt);
  EXPECT_EQ(zkr({"commit", "recover", "/place", "--timeout", "100ms"}).code, 75) << "a vote is missing";
  gate.open.put(1);
  const auto decided = json({"commit", "recover", "/place"});
  EXPECT_EQ(std::string(decided.at("id").as_string()), id);
  EXPECT_EQ(decided.at("state"), "committed");
  EXPECT_EQ(participant.calls(id).back(), "commit");
  EXPECT_EQ(zkr({"commit", "ls", "/place"}).output, "");
  EXPECT_EQ(zkr({"commit", "recover", "/place"}).output, "");
}

// --- doctor -------------------------------------------------------------------------------------------------------

/// The gravest result of each check.
std::map<std::string, std::string> results_of(const Called& called) {
  std::map<std::string, std::string> results;
  std::istringstream lines(called.output);
  for (std::string line; std::getline(lines, line);) {
    const auto finding = boost::json::parse(line).as_object();
    EXPECT_EQ(members_of(finding), (Words{"result", "check", "text"}));
    std::string& result = results[std::string(finding.at("check").as_string())];
    const std::string now(finding.at("result").as_string());
    if (result.empty() || result == "ok" || now == "failure") result = now;
  }
  return results;
}

TEST_F(ZkrLooking, Z81DoctorLooksAtServersSessionAndHost) {
  NEEDS_CONTROL();
  client().create(path(), "");
  const auto results = results_of(zkr({"doctor", "/place", "--timer-time", "10ms", "--json"}));
  EXPECT_EQ(results.at("server " + hosts()), "ok");
  EXPECT_EQ(results.at("ensemble"), "ok");
  EXPECT_EQ(results.at("leases"), "ok");
  EXPECT_EQ(results.at(prefix().str() + "/place"), "ok");
  EXPECT_EQ(results.at("clock"), "ok");
  for (const char* check : {"session", "round trip", "timers", "processes"})
    EXPECT_TRUE(results.contains(check)) << check;
}

TEST_F(ZkrLooking, DoctorFindsWhatBlocksAQueue) {
  client().create("/place/_c_x-lock-0000000001", "by hand", {.parents = true});
  const Called blocked = zkr({"doctor", "/place", "--timer-time", "1ms", "--json"});
  EXPECT_EQ(blocked.code, 2);
  EXPECT_EQ(results_of(blocked).at(prefix().str() + "/place"), "failure");
  EXPECT_NE(blocked.output.find("nodes of no session"), std::string::npos) << blocked.output;
}

TEST_F(ZkrLooking, DoctorFindsMissingRightsAndWritesNothing) {
  using zkclient::Acl;
  client().create("/place", "", {.acl = {{Acl::read | Acl::create | Acl::admin}}});
  const Called undeletable = zkr({"doctor", "/place", "--timer-time", "1ms"});
  EXPECT_NE(undeletable.code, 0);  // 2 on a machine that is late just then.
  EXPECT_NE(undeletable.output.find("the right to delete nodes is missing"), std::string::npos) << undeletable.output;
  client().set_acl("/place", {{Acl::read | Acl::admin}});
  const Called closed = zkr({"doctor", "/place", "--timer-time", "1ms"});
  EXPECT_NE(closed.output.find("the right to create nodes is missing"), std::string::npos) << closed.output;
  client().set_acl("/place", zkclient::open_acl());
  EXPECT_EQ(results_of(zkr({"doctor", "/place", "--timer-time", "1ms", "--json"})).at(prefix().str() + "/place"), "ok");
  EXPECT_EQ(client().exists("/place")->children_version, 0);
}

TEST_F(ZkrLooking, DoctorFindsCuratorAndKazooOnOnePath) {
  const auto lease = zkrecipes::Mutex(client(), path()).acquire();
  client().create("/place/0123456789abcdef0123456789abcdef__lock__", "", {.mode = CreateMode::ephemeral_sequential});
  const Called mixed = zkr({"doctor", "/place", "--timer-time", "1ms"});
  EXPECT_EQ(mixed.code, 2);
  EXPECT_NE(mixed.output.find("Curator and of stock kazoo"), std::string::npos) << mixed.output;
}

TEST(ZkrDoctorWithoutServers, NamesEachThatCannotBeReached) {
  const Called called =
      call_zkr({"doctor", "--server", "127.0.0.1:1", "--connect-timeout", "10ms", "--timer-time", "1ms"});
  EXPECT_EQ(called.code, 2);
  EXPECT_NE(called.output.find("warning  server 127.0.0.1:1: no connection: "), std::string::npos) << called.output;
  EXPECT_NE(called.output.find("failure  ensemble: no server can be reached"), std::string::npos) << called.output;
}

TEST(ZkrProgram, SaysItsVersion) {
  const Called called = call_zkr({"--version"});
  EXPECT_EQ(called.code, 0) << called.errors;
  EXPECT_TRUE(called.output.starts_with("zkr ") && called.output.ends_with("\n")) << called.output;
}

// --- completion ---------------------------------------------------------------------------------------------------

TEST_F(ZkrLooking, BashCompletesWordsAndNodes) {
  client().create("/place/deploy", "", {.parents = true});
  const std::string folder = std::filesystem::path(zkr_program()).parent_path().string();
  const std::string script = "PATH=" + folder + ":$PATH\neval \"$(zkr completion bash)\"\n" + R"sh(
complete_words() {
  COMP_LINE="$*" COMP_WORDS=("$@") COMP_CWORD=$(($# - 1)) COMPREPLY=()
  _zkr
  echo "${COMPREPLY[*]}"
}
complete_words zkr lea
complete_words zkr queue pu
complete_words zkr get --js
complete_words zkr nonsense nonsense
for ((i = 0; i < 100; ++i)); do  # A slow machine may need more than the time that it gets.
  nodes=$(complete_words zkr --server "$1" --prefix "$2" get /place/de)
  [[ $nodes ]] && break
done
echo "$nodes"
)sh";
  testkit::Program bash("/bin/bash", {"-c", script, "bash", hosts(), prefix().str()});
  EXPECT_EQ(bash.next_line(), "lead leader");
  EXPECT_EQ(bash.next_line(), "purge push");
  EXPECT_EQ(bash.next_line(), "--json");
  EXPECT_EQ(bash.next_line(), "");
  EXPECT_EQ(bash.next_line(), "/place/deploy");
}

// Each line that is written is taken for a word by another bash: what comes out of it is the node's path again.
TEST_F(ZkrLooking, BashNeverExecutesNamesOfNodes) {
  const std::vector<std::string> names = {"$(echo${IFS}owned)", "`echo owned`", "a b", "it's", "x;echo owned"};
  for (const std::string& name : names)
    client().create("/place/" + name, "", {.parents = true});
  const std::string folder = std::filesystem::path(zkr_program()).parent_path().string();
  const std::string script = "PATH=" + folder + ":$PATH\neval \"$(zkr completion bash)\"\n" + R"sh(
COMP_LINE="zkr --server $1 --prefix $2 get /place/" COMPREPLY=()
COMP_WORDS=(zkr --server "${1%:*}" : "${1##*:}" --prefix "$2" get /place/) COMP_CWORD=8  # As bash divides them.
for ((i = 0; i < 100; ++i)); do
  _zkr
  [[ $COMPREPLY ]] && break
done
for word in "${COMPREPLY[@]}"; do
  bash -c "printf '%s\n' $word"
done
)sh";
  testkit::Program bash("/bin/bash", {"-c", script, "bash", hosts(), prefix().str()});
  for (const std::string& name : names)
    EXPECT_EQ(bash.next_line(), "/place/" + name);
}

// Of a word with a colon bash replaces what stands behind it.
TEST_F(ZkrLooking, BashCompletesNodesWithColons) {
  client().create("/place/job:1/deploy now", "", {.parents = true});
  const std::string folder = std::filesystem::path(zkr_program()).parent_path().string();
  const std::string script = "PATH=" + folder + ":$PATH\neval \"$(zkr completion bash)\"\n" + R"sh(
export ZKRECIPES_SERVER=$1
complete_behind_colon() {
  COMP_LINE="zkr --prefix=$1 get $2:$3" COMP_WORDS=(zkr --prefix = "$1" get "$2" : "$3") COMP_CWORD=7
  for ((i = 0; i < 100; ++i)); do
    _zkr
    [[ $COMPREPLY ]] && break
  done
  echo "${COMPREPLY[*]}"
}
complete_behind_colon "$2" /place/job 1/de
complete_behind_colon "$2" /place/job 1/deploy\\\ n
)sh";
  testkit::Program bash("/bin/bash", {"-c", script, "bash", hosts(), prefix().str()});
  EXPECT_EQ(bash.next_line(), "1/deploy\\ now");
  EXPECT_EQ(bash.next_line(), "1/deploy\\ now");
}

TEST_F(ZkrLooking, FishCompletesWordsAndNodesOfTheServersThatAreNamed) {
  if (!std::filesystem::exists("/usr/bin/fish")) GTEST_SKIP() << "fish is not installed (Debian package fish)";
  client().create("/place/$(echo owned)/deploy now", "", {.parents = true});
  const std::string folder = std::filesystem::path(zkr_program()).parent_path().string();
  const std::string script = "set PATH " + folder + " $PATH\nzkr completion fish | source\n" + R"sh(
complete -C "zkr lea" | string replace -r '\t.*' ''
for line in "zkr --server $argv[1] --prefix=$argv[2] get /place/" \
            "zkr --server=$argv[1] --prefix $argv[2] get /place/\\\$\\(echo\\ owned\\)/de"
  for i in (seq 100)  # A slow machine may need more than the time that it gets.
    set nodes (complete -C $line)
    test -n "$nodes"; and break
  end
  printf '%s\n' $nodes
end
)sh";
  testkit::Program fish("/usr/bin/fish", {"--no-config", "-c", script, hosts(), prefix().str()});
  EXPECT_EQ(fish.next_line(), "lead");
  EXPECT_EQ(fish.next_line(), "leader");
  EXPECT_EQ(fish.next_line(), "/place/$(echo owned)");
  EXPECT_EQ(fish.next_line(), "/place/$(echo owned)/deploy now");
}

// The shell's own parts of a completion are played: what is written is what it would have to choose from.
TEST_F(ZkrLooking, ZshCompletesWordsAndNodes) {
  if (!std::filesystem::exists("/bin/zsh")) GTEST_SKIP() << "zsh is not installed (Debian package zsh)";
  client().create("/place/a b/$(echo owned)", "", {.parents = true});
  client().create("/place/deploy", "");
  const std::string folder = std::filesystem::path(zkr_program()).parent_path().string();
  const std::string script = "PATH=" + folder + ":$PATH\n" + R"sh(
compdef() { print "$@" }
compadd() {  # -a names, or -S '' -p PARENT -a names
  local -a all=($4${^names})
  print -r -- ${(M)all:#${(Q)PREFIX}*}
}
_normal() { print -r -- "of another command: $words, $CURRENT" }
complete_words() {
  words=("$@") CURRENT=$# PREFIX=$words[-1]
  _zkr
}
eval "$(zkr completion zsh)"
complete_words zkr lea
complete_words zkr queue pu
complete_words zkr get --js
complete_words zkr nonsense nonsense
complete_words zkr lock /place -- ls --al
for word in /place/de '/place/a\ b/'; do
  for ((i = 0; i < 100; ++i)); do  # A slow machine may need more than the time that it gets.
    nodes=$(complete_words zkr --server "$1" --prefix="$2" get $word)
    [[ -n $nodes ]] && break
  done
  print -r -- "$nodes"
done
)sh";
  testkit::Program zsh("/bin/zsh", {"-f", "-c", script, "zsh", hosts(), prefix().str()});
  EXPECT_EQ(zsh.next_line(), "_zkr zkr");
  EXPECT_EQ(zsh.next_line(), "lead leader");
  EXPECT_EQ(zsh.next_line(), "purge push");
  EXPECT_EQ(zsh.next_line(), "--json");
  EXPECT_EQ(zsh.next_line(), "");
  EXPECT_EQ(zsh.next_line(), "of another command: ls --al, 2");
  EXPECT_EQ(zsh.next_line(), "/place/deploy");
  EXPECT_EQ(zsh.next_line(), "/place/a b/$(echo owned)");
}

// --- observe ------------------------------------------------------------------------------------------------------

TEST_F(ZkrLooking, Z24ObserverSeesEachChange) {
  testkit::Program observer(zkr_program(), words({"observe", "/place"}));
  EXPECT_EQ(observer.next_line(), "nobody");
  zkrecipes::LeaderElection election(client(), path(), {.id = "me"});
  auto leadership = election.campaign({.deadline = soon()});
  const std::string term = std::to_string(leadership.token().value);
  EXPECT_EQ(observer.next_line(), "me term=" + term + " not-ready");
  leadership.proclaim("value");
  EXPECT_EQ(observer.next_line(), "me term=" + term + " not-ready value");
  leadership.release();
  EXPECT_EQ(observer.next_line(), "nobody");
  observer.signal(SIGTERM);
  EXPECT_EQ(observer.status(), 128 + SIGTERM);
}

TEST_F(ZkrLooking, ObserversCommandGetsTheState) {
  zkrecipes::LeaderElection election(client(), path(), {.id = "me"});
  const auto leadership = election.campaign({.deadline = soon()});
  const Called called =
      zkr({"observe", "/place", "--once", "--", "sh", "-c", "echo $ZKR_PATH $ZKR_LEADER $ZKR_READY; cat; exit 3"});
  EXPECT_EQ(called.code, 3);
  EXPECT_TRUE(called.output.starts_with("/place me 0\n{\"path\":\"/place\",\"leader\":{\"id\":\"me\""))
      << called.output;
}

// No program is executed with a variable of such a size.
TEST_F(ZkrLooking, ValueThatIsTooLongForAVariableIsInTheJsonAlone) {
  zkrecipes::LeaderElection election(client(), path(), {.id = "me"});
  auto leadership = election.campaign({.deadline = soon()});
  leadership.proclaim(std::string(150'000, 'v'));
  const Called called =
      zkr({"observe", "/place", "--once", "--", "sh", "-c", "echo $ZKR_LEADER ${ZKR_VALUE-none}; wc -c"});
  EXPECT_EQ(called.code, 0) << called.errors;
  EXPECT_TRUE(called.output.starts_with("me none\n15")) << called.output;
}

// --- watch --------------------------------------------------------------------------------------------------------

TEST_F(ZkrLooking, Z27WatchTellsTheLastStateAlways) {
  testkit::Program watch(zkr_program(), words({"watch", "/place"}));
  EXPECT_EQ(watch.next_line(), "absent");
  client().create(path(), "x");
  EXPECT_EQ(watch.next_line(), "created version=0 size=1");
  client().set(path(), "xy");
  EXPECT_EQ(watch.next_line(), "changed version=1 size=2");
  client().remove(path());
  EXPECT_EQ(watch.next_line(), "deleted");
  for (int i = 0; i < 50; ++i) {
    client().create(path(), std::to_string(i));
    client().remove(path());
  }
  client().create(path(), "");
  client().set(path(), "the last one");
  watch.says_one_that([](const std::string& line) { return line.ends_with("version=1 size=12"); });
  watch.signal(SIGINT);
  EXPECT_EQ(watch.status(), 128 + SIGINT);
}

TEST_F(ZkrLooking, ChildrenThatComeAndGo) {
  client().create(path(), "");
  client().create("/place/a", "");
  testkit::Program watch(zkr_program(), words({"watch", "--children", "/place"}));
  EXPECT_EQ(watch.next_line(), "present +a");
  client().create("/place/b", "");
  EXPECT_EQ(watch.next_line(), "changed +b");
  client().remove("/place/a");
  EXPECT_EQ(watch.next_line(), "changed -a");
}

TEST_F(ZkrLooking, Z17WatchPassesOnTheExitStatus) {
  client().create(path(), "words");
  const auto once = [&](const char* script) { return zkr({"watch", "/place", "--once", "--", "sh", "-c", script}); };
  EXPECT_EQ(once("exit 7").code, 7);
  EXPECT_EQ(once("kill -9 $$").code, 128 + SIGKILL);
  EXPECT_EQ(once("echo $ZKR_EVENT $ZKR_VERSION").output, "present 0\n");
  EXPECT_EQ(zkr({"watch", "/place", "--once", "--", "/nowhere/at-all"}).code, 127);
  EXPECT_EQ(zkr({"watch", "/place", "--once"}).output, "present version=0 size=5\n");
}

TEST_F(ZkrLooking, CallerThatIgnoresItsChildrenHidesNoExitStatus) {
  client().create(path(), "words");
  Words call = words({"watch", "/place", "--once", "--", "sh", "-c", "exit 7"});
  call.insert(call.begin(), {"-c", "trap '' CHLD; exec \"$@\"", "sh", zkr_program()});
  testkit::Program watch("/bin/sh", std::move(call));
  EXPECT_EQ(watch.status(), 7);
}

// Each handler says when it begins and when it ends.
TEST_F(ZkrLooking, Z27NeverTwoHandlersAtATime) {
  client().create(path(), "0");
  testkit::Program watch(zkr_program(),
                         words({"watch", "/place", "--", "sh", "-c", "echo begin; echo end $ZKR_VERSION"}));
  EXPECT_EQ(watch.next_line(), "begin");
  for (int i = 0; i < 30; ++i)
    client().set(path(), std::to_string(i));
  for (bool inside = true;; inside = !inside) {
    const std::string line = watch.next_line();
    EXPECT_EQ(line.starts_with("begin"), !inside) << line;
    if (line == "end 30") break;
  }
}

TEST_F(ZkrLooking, Z16HandlerIsGoneBeforeTheWatch) {
  client().create(path(), "");
  for (std::size_t run = rounds(20); run > 0; --run) {
    testkit::Program watch(zkr_program(),
                           words({"watch", "/place", "--", "sh", "-c",
                                  "trap 'echo gone; exit' TERM; echo up; for i in $(seq 20000); do sleep 0.01; done"}));
    EXPECT_EQ(watch.next_line(), "up");
    watch.signal(SIGTERM);
    EXPECT_EQ(watch.status(), 128 + SIGTERM);
    EXPECT_EQ(watch.next_line(), "gone");
  }
}

pid_t number_behind(const std::string& word, const std::string& line) {
  EXPECT_TRUE(line.starts_with(word)) << line;
  return std::stoi(line.substr(word.size()));
}

bool lives(pid_t process) { return PinnedProcess(process).lives(); }

TEST_F(ZkrLooking, Z16HandlerOfAKilledWatchIsKilled) {
  client().create(path(), "");
  testkit::Program watch(zkr_program(), words({"watch", "/place", "--", "sh", "-c", "echo pid $$; exec sleep 1000"}));
  const pid_t handler = number_behind("pid ", watch.next_line());
  watch.signal(SIGKILL);
  EXPECT_TRUE(testkit::eventually([handler] { return !lives(handler); }));
}

TEST_F(ZkrLooking, Z3EachSignalReachesTheHandler) {
  client().create(path(), "");
  testkit::Program watch(zkr_program(),
                         words({"watch", "/place", "--", "sh", "-c",
                                "trap 'echo usr1' USR1; trap 'echo alarm' ALRM; trap 'echo term; exit' TERM; "
                                "echo up; for i in $(seq 20000); do sleep 0.01; done"}));
  EXPECT_EQ(watch.next_line(), "up");
  watch.signal(SIGUSR1);
  EXPECT_EQ(watch.next_line(), "usr1");
  watch.signal(SIGALRM);
  EXPECT_EQ(watch.next_line(), "alarm");
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.next_line(), "term");
  EXPECT_EQ(watch.status(), 128 + SIGTERM);
}

TEST_F(ZkrLooking, Z43WhatAHandlerHasStartedEndsWithIt) {
  client().create(path(), "");
  testkit::Program watch(zkr_program(), words({"watch", "/place", "--", "sh", "-c",
                                               "if [ $ZKR_VERSION = 0 ]; then sleep 1000 & echo left $!; "
                                               "else setsid sleep 1000 & echo started $!; wait; fi"}));
  const pid_t left = number_behind("left ", watch.next_line());
  client().set(path(), "x");
  const pid_t started = number_behind("started ", watch.next_line());
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.status(), 128 + SIGTERM);
  EXPECT_FALSE(lives(started));
  EXPECT_TRUE(lives(left)) << "of a handler that has ended by itself";
  ::kill(left, SIGKILL);
}

TEST_F(ZkrLooking, WatchWhoseReaderIsGoneEndsOfThat) {
  client().create(path(), "");
  Words call = words({"watch", "/place"});
  call.insert(call.begin(), {"-c", "{ { \"$@\"; echo \"status $?\" >&3; } | exec <&-; } 3>&1", "sh", zkr_program()});
  testkit::Program watch("/bin/sh", std::move(call));
  EXPECT_TRUE(testkit::eventually([&] {
    client().set(path(), "x");  // The reading end may be open for a moment.
    return !watch.has_said_nothing();
  }));
  EXPECT_EQ(watch.next_line(), "status 141");
}

TEST_F(ZkrLooking, HandlerThatIgnoresOneSignalGetsTheNext) {
  client().create(path(), "");
  testkit::Program watch(zkr_program(), words({"watch", "/place", "--", "sh", "-c",
                                               "trap 'echo int' INT; trap 'echo term; exit' TERM; echo up; "
                                               "for i in $(seq 20000); do sleep 0.01; done"}));
  EXPECT_EQ(watch.next_line(), "up");
  watch.signal(SIGINT);
  EXPECT_EQ(watch.next_line(), "int");
  watch.signal(SIGTERM);
  EXPECT_EQ(watch.next_line(), "term");
  EXPECT_EQ(watch.status(), 128 + SIGTERM);
}

}  // namespace
}  // namespace zkr
