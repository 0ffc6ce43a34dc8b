// `zkr queue work` on a real server: what becomes of the item, row by row, and what users of such programs have complained
// about.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include <zkclient/client.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zktesting/environment.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/testkit.hpp"
#include "tests/zkr/expiry.hpp"
#include "tests/zkr/zkr_process.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using testkit::patient;
using zkrecipes::Queue;

const bool nothing_remains = (end_what_tests_leave(), true);

int queues = 0;

/// What holds the command of an item until the test lets it go on.
class Gates {
 public:
  Gates() {
    for (const char* item : {"a", "b", "c"})
      ::mkfifo((folder_ / item).c_str(), 0600);
  }
  /// For a shell: says "up ITEM", and waits.
  std::string up() const { return "item=$(cat); echo \"up $item\"; read -r word < " + (folder_ / "$item") + "; "; }
  void open(const std::string& item) const {
    const Descriptor end(::open((folder_ / item).c_str(), O_WRONLY | O_CLOEXEC));
    EXPECT_EQ(::write(end.get(), "go\n", 3), 3);
  }

 private:
  Folder folder_;
};

class ZkrQueueWork : public testing::Test {
 protected:
  ZkrQueueWork()
      : path_(std::string("/zkr/") + testing::UnitTest::GetInstance()->current_test_info()->name() + "-" +
              std::to_string(++queues)) {}

  Queue queue(zkrecipes::QueueOptions options = {}) const {
    return {client_, zkclient::Path(path_), std::move(options)};
  }
  Queue dead_letters() const { return {client_, zkclient::Path(path_) / "dead"}; }
  /// zkr queue work PATH OPTIONS... -- COMMAND..., through the proxy.
  ZkrProcess& work(
      const Words& command, const Words& options = {}, const std::function<void()>& before_exec = [] {}) {
    Words words{"queue", "work", path_, "--server", proxy_.connect_string()};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    words.insert(words.end(), command.begin(), command.end());
    processes_.push_back(std::make_unique<ZkrProcess>(words, before_exec));
    return *processes_.back();
  }
  ZkrProcess& work_by_shell(
      const std::string& line, const Words& options = {}, const std::function<void()>& before_exec = [] {}) {
    return work({"/bin/sh", "-c", line}, options, before_exec);
  }
  std::size_t size() const { return queue().size(patient()); }
  bool is_empty() {
    return eventually([this] { return size() == 0; });
  }
  /// The first item, which is no worker's, and how often it was claimed.
  std::string first_item() const {
    zkrecipes::Claim claim = queue().claim(patient());
    const std::string text = claim.data() + " " + std::to_string(claim.deliveries());
    claim.commit(patient());
    return text;
  }

  const std::string path_;
  const Gates gates_;
  zktesting::Proxy proxy_{zktesting::SharedServer::instance().connect_string()};
  zkclient::Client client_{zktesting::SharedServer::instance().connect_string()};
  std::vector<std::unique_ptr<ZkrProcess>> processes_;
};

/// A line of standard error that has this in it.
bool tells(ZkrProcess& zkr, const std::string& part) {
  while (const auto line = zkr.errors().await("")) {
    if (line->find(part) != std::string::npos) return true;
  }
  return false;
}

/// All processes that pass signals on have passed on what there is.
void await_all_signals_taken(const ZkrProcess& pool) {
  await_signals_taken(pool.front());
  for (const pid_t worker : PinnedProcess(pool.front()).children())
    await_signals_taken(worker);
}

// ---- What the command gets ---------------------------------------------------------------------------------------

TEST_F(ZkrQueueWork, ItemIsOnStandardInputAndWhatIsKnownOfItInTheEnvironment) {
  queue().push("some text", patient());
  queue().claim(patient()).give_back(patient());
  ZkrProcess& zkr = work_by_shell(
      "echo \"$(cat) $ZKR_ITEM $ZKR_DELIVERIES ${ZKR_PRIORITY-none} $ZKR_PATH $ZKR_MODE ${ZKR_TOKEN-none}\"; " ZKR
      " held > /dev/null && echo held",
      {"--max-items", "1"});
  EXPECT_EQ(zkr.lines().rest(), (Words{"some text item-0000000000 2 none " + path_ + " claim none", "held"}));
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(size(), 0u);
}

TEST_F(ZkrQueueWork, BytesOfAnItemArriveAsTheyAre) {
  const std::string large = std::string("\0\n\xff", 3) + std::string(200'000, 'x');
  queue().push(large, patient());
  EXPECT_EQ(work({"/bin/sh", "-c", "wc -c"}, {"--max-items", "1"}).lines().rest(), Words{"200003"});
  queue().push("", patient());
  EXPECT_EQ(work({"/bin/sh", "-c", "wc -c"}, {"--max-items", "1"}).lines().rest(), Words{"0"});
}

TEST_F(ZkrQueueWork, ItemsComeInTheirOrderOnOneSession) {
  queue().push_all({"a", "b", "c"}, patient());
  ZkrProcess& zkr = work_by_shell("echo \"$(cat) $ZKR_SESSION\"", {"--idle-exit", "0"});
  const Words lines = zkr.lines().rest();
  EXPECT_EQ(zkr.end(), exited(0));
  ASSERT_EQ(lines.size(), 3u);
  const std::string session = lines[0].substr(1);
  EXPECT_EQ(lines, (Words{"a" + session, "b" + session, "c" + session}));
  EXPECT_EQ(size(), 0u);
}

TEST_F(ZkrQueueWork, UrgentItemsComeFirstAlsoIfTheQueueWasEmptyAtFirst) {
  ZkrProcess& zkr = work_by_shell(gates_.up() + "echo \"$ZKR_PRIORITY\"", {"--max-items", "3", "-v"});
  EXPECT_TRUE(tells(zkr, "waiting for an item"));
  zkrecipes::PriorityQueue sorted(client_, zkclient::Path(path_), {.layout = zkrecipes::QueueLayout::standard()});
  sorted.push("a", 7, patient());
  zkr.lines().await("up a");
  sorted.push("b", 8, patient());
  sorted.push("c", -7, patient());
  for (const char* item : {"a", "c", "b"})
    gates_.open(item);
  EXPECT_EQ(zkr.lines().rest(), (Words{"7", "up c", "-7", "up b", "8"}));
  EXPECT_EQ(zkr.end(), exited(0));
}

// ---- Of which kind the queue is ----------------------------------------------------------------------------------

TEST_F(ZkrQueueWork, ItemsOfEachKindThatIsNamedAreWorkedOn) {
  const auto at = [this](const char* kind) { return path_ + "/" + kind; };
  const zkrecipes::QueueOptions standard{.layout = zkrecipes::QueueLayout::standard()};
  Queue(client_, zkclient::Path(at("plain"))).push("plain", patient());
  zkrecipes::PriorityQueue(client_, zkclient::Path(at("priority")), standard).push("priority", -3, patient());
  zkrecipes::DelayQueue delayed(client_, zkclient::Path(at("delay")), standard);
  delayed.push("delay", std::chrono::system_clock::now() - 1h, patient());
  delayed.push("later", std::chrono::system_clock::now() + 10h, patient());
  zkrecipes::IdQueue(client_, zkclient::Path(at("id")), standard).push("id", "12345678", patient());
  for (const std::string kind : {"plain", "priority", "delay", "id"}) {
    ZkrProcess zkr({"queue", "work", at(kind.c_str()), "--kind", kind, "--idle-exit", "0", "--server",
                    proxy_.connect_string(), "-c", "echo \"$(cat) ${ZKR_PRIORITY-none}\""});
    EXPECT_EQ(zkr.lines().rest(), Words{kind + (kind == "priority" ? " -3" : " none")});
    EXPECT_EQ(zkr.end(), exited(0)) << kind;
  }
  EXPECT_EQ(delayed.size(patient()), 1u) << "it is not due";
}

TEST_F(ZkrQueueWork, KindThatItsItemsContradictIsRefused) {
  queue().push("item", patient());
  for (const char* kind : {"priority", "delay", "id"}) {
    ZkrProcess& zkr = work({"true"}, {"--kind", kind});
    EXPECT_TRUE(tells(zkr, path_ + " has items without ")) << kind;
    EXPECT_EQ(zkr.end(), exited(64)) << kind;
  }
  EXPECT_EQ(first_item(), "item 1") << "it was never claimed";
  zkrecipes::PriorityQueue sorted(client_, zkclient::Path(path_), {.layout = zkrecipes::QueueLayout::standard()});
  sorted.push("urgent", -7, patient());
  for (const char* kind : {"plain", "delay", "id"}) {
    ZkrProcess& zkr = work({"true"}, {"--kind", kind});
    EXPECT_TRUE(tells(zkr, path_ + " is of another kind: priority queue")) << kind;
    EXPECT_EQ(zkr.end(), exited(64)) << kind;
  }
  EXPECT_EQ(sorted.size(patient()), 1u);
}

TEST_F(ZkrQueueWork, KindOfAQueueWithoutItemsIsTheOneThatIsNamed) {
  EXPECT_EQ(work({"true"}, {"--kind", "id", "--idle-exit", "0"}).end(), exited(0));
  ZkrProcess& zkr = work_by_shell("echo \"$(cat)\"", {"--kind", "id", "--max-items", "1", "-v"});
  ASSERT_TRUE(tells(zkr, "waiting for an item"));
  zkrecipes::IdQueue(client_, zkclient::Path(path_), {.layout = zkrecipes::QueueLayout::standard()})
      .push("item", "9999999999999", patient());
  EXPECT_EQ(zkr.lines().rest(), Words{"item"}) << "taken for a time, it is far away";
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrQueueWork, KindThatItsFirstItemDoesNotTellEndsAWorkerThatWaits) {
  ZkrProcess& zkr = work({"true"}, {"-v"});
  ASSERT_TRUE(tells(zkr, "waiting for an item"));
  zkrecipes::IdQueue identified(client_, zkclient::Path(path_), {.layout = zkrecipes::QueueLayout::standard()});
  identified.push("item", "12345678", patient());
  EXPECT_TRUE(tells(zkr, "--kind delay or --kind id says which"));
  EXPECT_EQ(zkr.end(), exited(64));
  EXPECT_EQ(identified.size(patient()), 1u);
}

// ---- What becomes of the item ------------------------------------------------------------------------------------

TEST_F(ZkrQueueWork, Z71OnlyZeroCommits) {
  queue().push_all({"a", "b"}, patient());
  EXPECT_EQ(work_by_shell("exit 1", {"--max-items", "1"}).end(), exited(0));
  ZkrProcess& zkr = work_by_shell("kill -9 $$", {"--max-items", "1"});
  EXPECT_TRUE(tells(zkr, "signal 9, delivery 2 of 5: given back"));
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(work_by_shell("exit 0", {"--max-items", "1"}).end(), exited(0));
  EXPECT_EQ(first_item(), "b 1") << "the first one was given back to its place, and committed then";
}

TEST_F(ZkrQueueWork, Z70PoisonedItemIsRejected) {
  queue().push_all({"poison", "good"}, patient());
  ZkrProcess& zkr = work_by_shell("test $(cat) = good || exit 65", {"--idle-exit", "0"});
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(size(), 0u);
  const zkrecipes::Claim letter = dead_letters().claim(patient());
  EXPECT_EQ(letter.data(), "poison");
  EXPECT_EQ(letter.reason(), "exit code 65");
}

TEST_F(ZkrQueueWork, Z70ItemThatComesBackTooOftenBecomesADeadLetter) {
  queue().push("poison", patient());
  queue().claim(patient()).give_back(patient());
  ZkrProcess& zkr = work({"false"}, {"--max-items", "1", "--max-deliveries", "2", "--reject-code", "3"});
  EXPECT_TRUE(tells(zkr, "exit code 1, delivery 2 of 2: it is a dead letter now"));
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(size(), 0u);
  EXPECT_EQ(dead_letters().pop(patient()), "poison");
}

TEST_F(ZkrQueueWork, Z69CommandThatIsMissingEndsTheWorker) {
  queue().push("item", patient());
  EXPECT_EQ(work_by_shell("exit 127").end(), exited(127));
  EXPECT_EQ(first_item(), "item 2") << "it was given back";
}

TEST_F(ZkrQueueWork, Z69ItemIsNoDeadLetterBecauseTheCommandIsMissing) {
  queue().push("item", patient());
  const Words at_once{"--max-deliveries", "1"};
  EXPECT_EQ(work({"/nowhere/at-all"}, at_once).end(), exited(127));
  EXPECT_EQ(work({"nowhere-at-all"}, at_once).end(), exited(127));
  EXPECT_EQ(work({"/etc/passwd"}, at_once).end(), exited(126));
  EXPECT_EQ(first_item(), "item 1") << "it was never claimed";
}

TEST_F(ZkrQueueWork, Z75ItemIsCommittedWhenAllOfItsCommandIsGone) {
  queue().push("item", patient());
  ZkrProcess& zkr = work_by_shell("trap '' TERM; sleep 1000 & echo \"pid $!\"");
  const pid_t left = number_in(zkr.lines().await("pid").value());
  ASSERT_TRUE(is_empty());
  EXPECT_EQ(state_of(left), 'X');
  zkr.signal(SIGTERM);
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
}

TEST_F(ZkrQueueWork, CommandThatRunsTooLongIsEndedAndItsItemGivenBack) {
  queue().push("item", patient());
  ZkrProcess& zkr = work(puppet("daemon [ ignore 15 pause ] ignore 15 pause"),
                         {"--timeout", "10ms", "--grace", "100ms", "--max-items", "1"});
  EXPECT_TRUE(tells(zkr, "held for --timeout"));
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(first_item(), "item 2");
}

TEST_F(ZkrQueueWork, LostClaimKillsTheCommandAndCommitsNothing) {
  queue().push("item", patient());
  ZkrProcess& zkr = work(puppet("ignore 15 daemon [ ignore 15 say up pause ] say up pause"));
  zkr.lines().await("up");
  zkr.lines().await("up");
  const auto begun = BootClock::now();
  client_.remove(zkclient::Path(path_) / "claims" / "item-0000000000");
  EXPECT_TRUE(tells(zkr, "the lease is lost: the command is killed"));
  EXPECT_TRUE(tells(zkr, "delivery 1 of 5: the claim is lost"));
  EXPECT_TRUE(zkr.lines().await("up")) << "it is delivered again, after a pause";
  EXPECT_GE(BootClock::now() - begun, 1s);
  EXPECT_EQ(size(), 1u);
}

TEST_F(ZkrQueueWork, Z6CommandIsGoneBeforeAnotherWorkerHasItsItem) {
  queue().push("item", patient());
  ZkrProcess& zkr = work(puppet("ignore 15 fork [ setsid ignore 15 say up pause ] say up tick"),
                         {"--session-timeout", "10s", "--kill-margin", "2s"});
  zkr.lines().await("up");
  zkr.lines().await("up");
  proxy_.stall(zktesting::Direction::both);
  const zkrecipes::Claim claim = queue().claim({.deadline = 10min});
  const Instant seen = BootClock::now();
  EXPECT_TRUE(tells(zkr, "no server has confirmed the lease for"));
  zkr.signal(SIGTERM);
  zkr.lines().rest();
  EXPECT_GT(zkr.lines().last_tick(), Instant{});
  EXPECT_LT(zkr.lines().last_tick(), seen);
  EXPECT_TRUE(claim.valid());
}

// ---- Servers, signals, dead processes ----------------------------------------------------------------------------

TEST_F(ZkrQueueWork, Z61NoServerAtFirstIsSaid) {
  ZkrProcess zkr({"queue", "work", path_, "--server", "127.0.0.1:1", "--connect-timeout", "200ms", "--", "true"});
  EXPECT_TRUE(tells(zkr, "127.0.0.1:1"));
  EXPECT_EQ(zkr.end(), exited(69));
}

TEST_F(ZkrQueueWork, Z65RefusalNamesTheRightAndWhoAsks) {
  client_.create(path_, "", {.acl = zkclient::read_only_acl(), .parents = true});
  ZkrProcess& zkr = work({"true"});
  EXPECT_TRUE(tells(zkr, "it takes the rights to read, create and delete, at the path; this call has no identity"));
  EXPECT_EQ(zkr.end(), exited(77));
}

TEST_F(ZkrQueueWork, Z72ServersThatGoAwayAreWaitedFor) {
  queue().push_all({"a", "b"}, patient());
  ZkrProcess& zkr = work_by_shell(gates_.up() + "echo done", {"--idle-exit", "0"});
  zkr.lines().await("up a");
  proxy_.refuse(true);
  proxy_.cut();
  gates_.open("a");
  zkr.lines().await("done");
  proxy_.refuse(false);
  EXPECT_TRUE(zkr.lines().await("up b")) << "the first one was committed, once";
  gates_.open("b");
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(size(), 0u);
}

TEST_F(ZkrQueueWork, Z72WorkerIsIdleOnlyIfAServerSaysSo) {
  queue().push("a", patient());
  ZkrProcess& zkr = work_by_shell(gates_.up(), {"--idle-exit", "300ms"});
  ASSERT_TRUE(zkr.lines().await("up a"));
  auto list = proxy_.hold_next_reply(zktesting::RequestType::get_children2);
  queue().push("b", patient());
  gates_.open("a");
  ASSERT_TRUE(list.wait(testkit::patience));
  ZkrProcess idle({"queue", "work", path_ + "-empty", "--server", zktesting::SharedServer::instance().connect_string(),
                   "--idle-exit", "300ms", "--", "true"});
  EXPECT_EQ(idle.end(), exited(0));  // For so long the first worker has heard nothing, too.
  list.release();
  EXPECT_TRUE(zkr.lines().await("up b"));
  gates_.open("b");
  EXPECT_EQ(zkr.end(), exited(0));
}

TEST_F(ZkrQueueWork, SignalThatIsNotMeantToEndUsEndsNoWorkerThatWaits) {
  ZkrProcess& zkr = work_by_shell("echo up", {"-v"});
  ASSERT_TRUE(tells(zkr, "waiting for an item"));
  zkr.signal(SIGUSR1);
  await_signals_taken(zkr.front());
  queue().push("item", patient());
  EXPECT_TRUE(zkr.lines().await("up"));
  ASSERT_TRUE(is_empty());
  zkr.signal(SIGTERM);
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
}

TEST_F(ZkrQueueWork, RejectionInDoubtIsNoSuccess) {
  queue().push("a", patient());
  ZkrProcess& zkr = work_by_shell(gates_.up() + "exit 65", {"--max-items", "1", "--session-timeout", "10s"});
  ASSERT_TRUE(zkr.lines().await("up"));
  auto answer = proxy_.hold_next_reply(zktesting::RequestType::multi);
  gates_.open("a");
  // What is held may be the answer to a heartbeat, which is let go on.
  ASSERT_TRUE(eventually([&] {
    const bool held = answer.happened();
    if (dead_letters().size(patient()) == 1) return true;
    if (held) answer = proxy_.hold_next_reply(zktesting::RequestType::multi);
    return false;
  }));
  ASSERT_TRUE(answer.wait(testkit::patience));
  proxy_.refuse(true);
  proxy_.cut();
  EXPECT_TRUE(tells(zkr, "exit code 65: it may be delivered again, and not be a dead letter"));
  proxy_.refuse(false);
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(dead_letters().pop(patient()), "a");
}

TEST_F(ZkrQueueWork, Z73RunningItemIsFinishedAndNoOtherBegun) {
  queue().push_all({"a", "b"}, patient());
  ZkrProcess& zkr = work_by_shell(gates_.up() + "echo done");
  zkr.lines().await("up a");
  zkr.signal(SIGTERM);
  await_signals_taken(zkr.front());
  gates_.open("a");
  EXPECT_EQ(zkr.lines().rest(), Words{"done"});
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
  EXPECT_EQ(first_item(), "b 1");
}

TEST_F(ZkrQueueWork, Z73ItemThatTakesTooLongGoesBackAtOnce) {
  queue().push("item", patient());
  ZkrProcess& zkr = work(puppet("signals say up pause"), {"--drain", "10ms", "--grace", "2s"});
  zkr.lines().await("up");
  zkr.signal(SIGTERM);
  EXPECT_TRUE(zkr.lines().await("signal 15"));
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
  EXPECT_EQ(first_item(), "item 2");
}

TEST_F(ZkrQueueWork, DeadKeeperOfAWorkerThatWaitsEndsItAsLost) {
  ZkrProcess& zkr = work({"true"}, {"-v"});
  ASSERT_TRUE(tells(zkr, "waiting for an item"));
  ::kill(zkr.keeper(), SIGKILL);
  EXPECT_EQ(zkr.end(), exited(79));
}

TEST_F(ZkrQueueWork, Z12SignalEndsAWorkerThatWaits) {
  ZkrProcess& zkr = work({"true"}, {"-v"});
  EXPECT_TRUE(tells(zkr, "waiting for an item"));
  zkr.signal(SIGINT);
  EXPECT_EQ(zkr.end(), killed_by(SIGINT));
}

TEST_F(ZkrQueueWork, Z74ItemOfAKilledProcessIsBackAtOnce) {
  queue().push("item", patient());
  for (const bool front_too : {true, false}) {
    ZkrProcess& zkr =
        work(puppet("env ZKR_SESSION daemon [ ignore 15 pause ] say up pause"), {"--session-timeout", "60s"});
    const std::string session = session_of(zkr);
    zkr.lines().await("up");
    const pid_t keeper = zkr.keeper();
    if (front_too) zkr.signal(SIGKILL);
    ::kill(keeper, SIGKILL);
    queue().claim(patient()).give_back(patient());
    EXPECT_FALSE(has_expired(session));
    EXPECT_TRUE(zkr.lines().ended_now());
    EXPECT_EQ(zkr.end(), front_too ? killed_by(SIGKILL) : exited(79));
  }
}

// ---- Several at a time -------------------------------------------------------------------------------------------

TEST_F(ZkrQueueWork, SeveralItemsAreWorkedOnAtATime) {
  queue().push_all({"a", "b", "c"}, patient());
  ZkrProcess& zkr = work_by_shell(gates_.up(), {"-j", "2", "--max-items", "3"});
  zkr.lines().await("up");
  zkr.lines().await("up");
  for (const char* item : {"a", "b", "c"})
    gates_.open(item);
  EXPECT_EQ(zkr.lines().rest().size(), 1u);
  EXPECT_EQ(zkr.end(), exited(0));
  EXPECT_EQ(size(), 0u);
}

TEST_F(ZkrQueueWork, SeveralWorkersEndTogether) {
  queue().push_all({"a", "b"}, patient());
  ZkrProcess& idle = work({"true"}, {"-j", "2", "--idle-exit", "0"});
  EXPECT_EQ(idle.end(), exited(0));
  EXPECT_EQ(size(), 0u);
  queue().push_all({"a", "b"}, patient());
  EXPECT_EQ(work({"/nowhere/at-all"}, {"-j", "2"}).end(), exited(127));
  ZkrProcess& told = work_by_shell(gates_.up() + "echo done", {"-j", "2"});
  told.lines().await("up");
  told.lines().await("up");
  told.signal(SIGTERM);
  await_all_signals_taken(told);
  gates_.open("a");
  gates_.open("b");
  EXPECT_EQ(told.lines().rest(), (Words{"done", "done"}));
  EXPECT_EQ(told.end(), killed_by(SIGTERM));
  EXPECT_EQ(size(), 0u);
}

// The pool itself has told them first, so this one goes to the command.
TEST_F(ZkrQueueWork, SignalAfterAFailedWorkerIsNotDropped) {
  queue().push_all({"a", "b"}, patient());
  ZkrProcess& zkr = work_by_shell("trap 'echo told; exit 0' TERM; echo up; for i in $(seq 20000); do sleep 0.01; done",
                                  {"-j", "2", "--drain", "1h"});
  zkr.lines().await("up");
  zkr.lines().await("up");
  const auto workers = [&zkr] { return PinnedProcess(zkr.front()).children(); };
  ASSERT_EQ(workers().size(), 2u);
  for (const pid_t child : PinnedProcess(workers()[0]).children()) {
    if (short_name_of(child) == "zkr-keeper") ::kill(child, SIGKILL);
  }
  await([&] { return workers().size() == 1; });
  await_all_signals_taken(zkr);
  zkr.signal(SIGTERM);
  EXPECT_EQ(zkr.lines().rest(), Words{"told"});
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
}

TEST_F(ZkrQueueWork, SignalToAllOfTheGroupLetsSeveralWorkersEndTheirWork) {
  queue().push_all({"a", "b"}, patient());
  ZkrProcess& zkr = work_by_shell(gates_.up() + "echo done", {"-j", "2"});
  zkr.lines().await("up");
  zkr.lines().await("up");
  // As timeout(1) does it. Each of the pool's workers hears of it from the group and from the pool.
  zkr.signal(SIGSTOP);  // Else, on a machine that is late, the pool's two signals are two.
  await([&] { return state_of(zkr.front()) == 'T'; });
  zkr.signal(SIGTERM);
  ::kill(-zkr.front(), SIGTERM);
  zkr.signal(SIGCONT);
  await_all_signals_taken(zkr);
  gates_.open("a");
  gates_.open("b");
  EXPECT_EQ(zkr.lines().rest(), (Words{"done", "done"}));
  EXPECT_EQ(zkr.end(), killed_by(SIGTERM));
  EXPECT_EQ(size(), 0u);
}

TEST_F(ZkrQueueWork, Z3EachSignalReachesTheCommandsOfSeveralWorkers) {
  queue().push("a", patient());
  queue().push("b", patient());
  ZkrProcess& zkr = work(puppet("signals say up pause"), {"-j", "2"});
  for (int i = 0; i < 2; ++i)
    ASSERT_TRUE(zkr.lines().await("up"));
  for (const int signal : {SIGALRM, SIGUSR1, SIGIO, SIGRTMIN}) {
    zkr.signal(signal);
    for (int i = 0; i < 2; ++i)
      ASSERT_TRUE(zkr.lines().await("signal " + std::to_string(signal))) << signal;
  }
  EXPECT_FALSE(zkr.ended_now());
}

TEST_F(ZkrQueueWork, SeveralWorkersHearOfATerminalThatIsHungUp) {
  queue().push_all({"a", "b"}, patient());
  Descriptor terminal(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC));
  ASSERT_EQ(::grantpt(terminal.get()), 0);
  ASSERT_EQ(::unlockpt(terminal.get()), 0);
  const std::string name = ::ptsname(terminal.get());
  const auto take_terminal = [&name] { ::ioctl(::open(name.c_str(), O_RDWR | O_CLOEXEC), TIOCSCTTY, 0); };
  ZkrProcess& zkr = work_by_shell(gates_.up() + "echo done", {"-j", "2"}, take_terminal);
  zkr.lines().await("up");
  zkr.lines().await("up");
  terminal.close();
  await_all_signals_taken(zkr);
  gates_.open("a");
  gates_.open("b");
  EXPECT_EQ(zkr.lines().rest(), (Words{"done", "done"}));
  EXPECT_EQ(zkr.end(), killed_by(SIGHUP));
}

TEST_F(ZkrQueueWork, SeveralWorkersOfACallerThatIgnoresItsChildren) {
  queue().push_all({"a", "b"}, patient());
  ZkrProcess& zkr = work({"grep", "SigIgn", "/proc/self/status"}, {"-j", "2", "--idle-exit", "0"},
                         [] { ::signal(SIGCHLD, SIG_IGN); });
  const Words lines = zkr.lines().rest();
  EXPECT_EQ(zkr.end(), exited(0));
  ASSERT_EQ(lines.size(), 2u);
  const auto ignored = std::stoull(lines[0].substr(lines[0].find(':') + 1), nullptr, 16);
  EXPECT_NE(ignored & (1ULL << (SIGCHLD - 1)), 0u) << "the command finds it as zkr has found it";
}

TEST_F(ZkrQueueWork, SeveralWorkersOfAKilledParentLeaveNothing) {
  queue().push_all({"a", "b"}, patient());
  ZkrProcess& zkr = work(puppet("env ZKR_SESSION pause"), {"-j", "2", "--session-timeout", "60s"});
  const Words sessions{session_of(zkr), session_of(zkr)};
  zkr.signal(SIGKILL);
  zkr.lines().rest();
  queue().claim(patient()).commit(patient());
  queue().claim(patient()).commit(patient());
  for (const std::string& session : sessions)
    EXPECT_FALSE(has_expired(session)) << session;
}

// ---- What is refused ---------------------------------------------------------------------------------------------

TEST_F(ZkrQueueWork, Z22WordsThatMakeNoSense) {
  EXPECT_EQ(ZkrProcess({"queue", "work", path_}).end(), exited(64));
  EXPECT_EQ(ZkrProcess({"queue", "work", "no-slash", "--server", "x", "--", "true"}).end(), exited(64));
  EXPECT_EQ(work({"true"}, {"-j", "0"}).end(), exited(64));
  EXPECT_EQ(work({"true"}, {"--kill-margin", "0"}).end(), exited(64));
  ZkrProcess no_port({"queue", "work", path_, "--server", "host:bad", "--", "true"});
  EXPECT_TRUE(tells(no_port, "host:bad"));
  EXPECT_EQ(no_port.end(), exited(64));
  EXPECT_EQ(work({"true"}, {"--session-timeout", "10ms", "-j", "2"}).end(), exited(64));
}

TEST_F(ZkrQueueWork, ConsumersThatHeedNoClaimsAreNotWorkedBeside) {
  Queue theirs(client_, zkclient::Path(path_), {.layout = zkrecipes::QueueLayout::zookeeper()});
  theirs.push("item", patient());
  ZkrProcess& zkr = work({"true"});
  EXPECT_TRUE(tells(zkr, "consumers of the layout zookeeper take what others have claimed"));
  EXPECT_EQ(zkr.end(), exited(64));
  EXPECT_EQ(theirs.size(), 1u);
}

}  // namespace
}  // namespace zkr
