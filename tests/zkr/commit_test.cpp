// `zkr commit`: transactions that are run, taken part in, recovered and resolved.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include <fmt/format.h>
#include <boost/json/parse.hpp>

#include <zkrecipes/two_phase_commit.hpp>
#include <zktesting/environment.hpp>

#include "tests/support/commit_test.hpp"
#include "tests/support/program.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/zkr_call.hpp"

namespace zkr {
namespace {

using namespace testkit::words;
using CommitWords = std::vector<std::string>;

/// Says its step, and what it has read.
constexpr const char* tells_step = "echo \"$ZKR_PHASE $(cat)\"";

class ZkrCommit : public testkit::RecipeTest {
 protected:
  ZkrCommit() : RecipeTest("/place") {}

  CommitWords words(CommitWords own) const {
    own.insert(own.begin(), {"--server", hosts(), "--prefix", prefix().str()});
    return own;
  }
  Called zkr(CommitWords own, const std::string& input = "") const { return call_zkr(words(std::move(own)), input); }
  std::string log_of(const std::string& name) const { return (folder_ / (name + ".log")).string(); }
  CommitWords participation(const std::string& name, const std::string& script) const {
    return words({"commit", "participate", "/place", name, "--log", log_of(name), "-c", script});
  }
  void await_participant(const std::string& name) {
    EXPECT_TRUE(eventually([&] { return client().exists(path() / ("participants/" + name)).has_value(); })) << name;
  }
  /// As the server's log has it.
  std::string session_of(const std::string& name) {
    return fmt::format("0x{:x}", client().exists(path() / ("participants/" + name)).value().ephemeral_owner);
  }
  /// Not timed out. Another party's server does not tell.
  static void expect_closed(const std::string& session) {
    auto& shared = zktesting::SharedServer::instance();
    if (!shared.has_control()) return;
    EXPECT_EQ(shared.server().log().find("Expiring session " + session), std::string::npos);
  }
  const testkit::TemporaryFolder folder_;
};

/// "aborted: why", without the transaction.
std::string outcome_in(const std::string& line) { return line.substr(line.find(' ') + 1); }

TEST_F(ZkrCommit, AllParticipantsApplyATransaction) {
  testkit::Program first(zkr_program(), participation("a", tells_step));
  testkit::Program second(zkr_program(), participation("b", tells_step));
  await_participant("a");
  await_participant("b");
  const Called called = zkr({"commit", "run", "/place", "a", "b", "--payload", "-", "--applied"}, "two\nlines");
  EXPECT_EQ(called.code, 0) << called.errors;
  EXPECT_EQ(outcome_in(called.output), "committed\n");
  for (testkit::Program* participant : {&first, &second}) {
    for (const char* line : {"prepare two", "lines", "commit two", "lines"})
      EXPECT_EQ(participant->next_line(), line);
    participant->signal(SIGTERM);
    EXPECT_EQ(participant->status(), 128 + SIGTERM);
  }
  EXPECT_EQ(zkr({"commit", "ls", "/place"}).output, "");
}

TEST_F(ZkrCommit, OneThatRefusesAbortsItForAll) {
  testkit::Program willing(zkr_program(), participation("willing", tells_step));
  testkit::Program refusing(zkr_program(), participation("refusing", "test $ZKR_PHASE != prepare || exit 3"));
  await_participant("willing");
  await_participant("refusing");
  const Called called =
      zkr({"commit", "run", "/place", "willing", "refusing", "--applied", "--all-to-all", "--", "-x"});
  EXPECT_EQ(called.code, 75) << called.errors;
  EXPECT_EQ(outcome_in(called.output), "aborted: vote of refusing: /bin/sh ended with 3\n");
}

TEST_F(ZkrCommit, ParticipantThatNeverServedIsNamed) {
  const Called called = zkr({"commit", "run", "/place", "nobody"});
  EXPECT_EQ(called.code, 66);
  EXPECT_NE(called.errors.find("nobody"), std::string::npos) << called.errors;
}

TEST_F(ZkrCommit, RunThatIsToldToEndAbortsWhatIsOpen) {
  testkit::Gate gate;
  testkit::TestParticipant participant(client(), path(), "bank");
  testkit::hold(participant, gate);
  participant.start(client());
  testkit::Program run(zkr_program(), words({"commit", "run", "/place", "bank", "--abort-after", "1h"}));
  const std::string id = gate.reached.take();
  run.signal(SIGTERM);
  // Why depends on whether it knew already that the transaction had begun.
  const std::string line = run.next_line();
  EXPECT_TRUE(line.starts_with(id + " aborted: run() ")) << line;
  EXPECT_EQ(run.status(), 128 + SIGTERM);
  gate.open.put(1);
}

TEST_F(ZkrCommit, RunWhoseTimeIsOverAbortsWhatIsOpen) {
  testkit::Gate gate;
  testkit::TestParticipant participant(client(), path(), "bank");
  testkit::hold(participant, gate);
  participant.start(client());
  // Begun or not when the time is over: it is not committed. 74: on a busy machine what it wrote was not answered in time.
  Called called;
  for (const char* time : {"300ms", "20s"}) {
    called = zkr({"commit", "run", "/place", "bank", "--abort-after", "1h", "--timeout", time});
    EXPECT_EQ(called.output.find("committed"), std::string::npos) << called.output;
    if (called.code != 74) break;
  }
  EXPECT_EQ(called.code, 75) << called.errors;
  for (int i = 0; i < 10; ++i)
    gate.open.put(1);
}

TEST_F(ZkrCommit, ParticipantPassesItsSignalToTheCommandThatRuns) {
  testkit::Program participant(
      zkr_program(), participation("bank",
                                   "test $ZKR_PHASE = prepare || exit 0; trap 'echo told; exit 1' TERM; echo up; "
                                   "for i in $(seq 20000); do sleep 0.01; done"));
  await_participant("bank");
  testkit::Program run(zkr_program(), words({"commit", "run", "/place", "bank", "--abort-after", "1h"}));
  EXPECT_EQ(participant.next_line(), "up");
  participant.signal(SIGTERM);
  EXPECT_EQ(participant.next_line(), "told");
  EXPECT_EQ(participant.status(), 128 + SIGTERM);
}

// Else the participant's log could take the number of standard error.
TEST_F(ZkrCommit, ParticipantWithoutStandardDescriptorsOpensNothingInTheirPlace) {
  const std::string file = (folder_ / "descriptors").string();
  CommitWords call = participation("bank", "for i in 0 1 2; do readlink /proc/$PPID/fd/$i; done > " + file);
  call.insert(call.begin(), {"-c", "exec \"$@\" <&- >&- 2>&-", "sh", zkr_program()});
  testkit::Program participant("/bin/sh", std::move(call));
  await_participant("bank");
  EXPECT_EQ(zkr({"commit", "run", "/place", "bank", "--applied"}).code, 0);
  std::ifstream stream(file);
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(stream), {}), "/dev/null\n/dev/null\n/dev/null\n");
  participant.signal(SIGTERM);
  EXPECT_EQ(participant.status(), 128 + SIGTERM);
}

TEST_F(ZkrCommit, ScriptThatDoesNotSayWhatRunsItIsRun) {
  const std::string script = (folder_ / "script").string();
  std::ofstream(script) << "echo $ZKR_PHASE $1\n";
  ASSERT_EQ(::chmod(script.c_str(), 0755), 0);
  testkit::Program participant(
      zkr_program(), words({"commit", "participate", "/place", "bank", "--log", log_of("bank"), "--", script, "word"}));
  await_participant("bank");
  EXPECT_EQ(zkr({"commit", "run", "/place", "bank"}).code, 0);
  EXPECT_EQ(participant.next_line(), "prepare word");
  EXPECT_EQ(participant.next_line(), "commit word");
  participant.signal(SIGTERM);
  EXPECT_EQ(participant.status(), 128 + SIGTERM);
}

TEST_F(ZkrCommit, CommandThatIsNotThereEndsTheParticipant) {
  testkit::Program participant(zkr_program(), words({"commit", "participate", "/place", "bank", "--log", log_of("bank"),
                                                     "--", "/nowhere/at-all"}));
  await_participant("bank");
  EXPECT_EQ(zkr({"commit", "run", "/place", "bank"}).code, 75);
  EXPECT_EQ(participant.status(), 127);
}

/// Says its own number and those of two more, of which one has left its session, its parents and its environment. In the
/// phase, that is; else it says the phase.
std::string spreads_in(const std::string& phase) {
  return "test $ZKR_PHASE = " + phase +
         " || { echo $ZKR_PHASE; exit 0; }; sleep 1000 & echo $!; "
         "setsid sh -c 'env -i sleep 1000 & echo $!'; echo $$; sleep 1000";
}

std::vector<pid_t> three_numbers(testkit::Program& program) {
  std::vector<pid_t> numbers;
  for (int i = 0; i < 3; ++i)
    numbers.push_back(std::stoi(program.next_line()));
  return numbers;
}

bool runs(pid_t process) {
  std::ifstream stream("/proc/" + std::to_string(process) + "/stat");
  const std::string stat((std::istreambuf_iterator<char>(stream)), {});
  const std::size_t state = stat.rfind(") ");
  return state != std::string::npos && stat[state + 2] != 'Z' && stat[state + 2] != 'X';
}

bool all_are_gone(const std::vector<pid_t>& processes) {
  return eventually([&] { return std::none_of(processes.begin(), processes.end(), runs); });
}

// It has not voted, so the transaction is aborted soon, whoever comes back.
TEST_F(ZkrCommit, ParticipantKilledInPrepareLeavesNothingThatRuns) {
  CommitWords call = participation("bank", spreads_in("prepare"));
  call.insert(call.begin(), {"--session-timeout", "60s"});
  testkit::Program killed(zkr_program(), std::move(call));
  await_participant("bank");
  const std::string session = session_of("bank");
  testkit::Program run(zkr_program(), words({"commit", "run", "/place", "bank", "--abort-after", "1h", "--applied"}));
  const std::vector<pid_t> started = three_numbers(killed);
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.status(), 128 + SIGKILL);
  EXPECT_TRUE(all_are_gone(started));
  const auto ended_by_absence = [&] {
    const auto all = zkrecipes::CommitCoordinator(client(), path()).transactions();
    return all.size() == 1 && all[0].outcome && !all[0].outcome->committed;
  };
  EXPECT_TRUE(eventually(ended_by_absence));
  expect_closed(session);
  testkit::Program next(zkr_program(), participation("bank", spreads_in("prepare")));
  EXPECT_EQ(next.next_line(), "abort");
  EXPECT_TRUE(outcome_in(run.next_line()).starts_with("aborted"));
}

TEST_F(ZkrCommit, ParticipantKilledInCommitLeavesNothingThatRunsAndCommitsAgain) {
  testkit::Program killed(zkr_program(), participation("bank", spreads_in("commit")));
  await_participant("bank");
  testkit::Program run(zkr_program(), words({"commit", "run", "/place", "bank", "--applied"}));
  EXPECT_EQ(killed.next_line(), "prepare");
  const std::vector<pid_t> started = three_numbers(killed);
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.status(), 128 + SIGKILL);
  EXPECT_TRUE(all_are_gone(started));
  testkit::Program next(zkr_program(), participation("bank", "echo $ZKR_PHASE"));
  EXPECT_EQ(next.next_line(), "commit");
  EXPECT_EQ(outcome_in(run.next_line()), "committed");
}

TEST_F(ZkrCommit, StepIsDoneWhenNothingOfItsCommandIsLeft) {
  testkit::Program participant(zkr_program(), participation("bank", "setsid sleep 1000 & echo $!"));
  await_participant("bank");
  EXPECT_EQ(zkr({"commit", "run", "/place", "bank", "--applied"}).code, 0);
  for (int step = 0; step < 2; ++step)
    EXPECT_FALSE(runs(std::stoi(participant.next_line())));
  participant.signal(SIGTERM);
  EXPECT_EQ(participant.status(), 128 + SIGTERM);
}

/// A line of the participant's command, which writes the number of the participant's guardian.
std::string says_guardian() {
  return "for i in $(cat /proc/$PPID/task/$PPID/children); do "
         "case $(cat /proc/$i/comm) in lease-guardian) echo $i; esac; done; ";
}

/// It goes on at the end of the test, whatever happens.
class StoppedProcess {
 public:
  explicit StoppedProcess(pid_t process) : process_(process) { ::kill(process, SIGSTOP); }
  StoppedProcess(const StoppedProcess&) = delete;
  StoppedProcess& operator=(const StoppedProcess&) = delete;
  ~StoppedProcess() { go_on(); }
  void go_on() const { ::kill(process_, SIGCONT); }

 private:
  const pid_t process_;
};

// A daemon has closed the claim that it had inherited, so the guardian has to hold it until the daemon is gone.
TEST_F(ZkrCommit, ParticipantWaitsForTheGuardianOfTheOneThatWasKilled) {
  const std::string daemon = "setsid sh -c 'exec 3>&- 4>&- 5>&- 6>&- 7>&- 8>&- 9>&-; echo $$; exec sleep 1000' & ";
  testkit::Program killed(zkr_program(), participation("bank", says_guardian() + daemon + "exec sleep 1000"));
  await_participant("bank");
  testkit::Program run(zkr_program(), words({"commit", "run", "/place", "bank", "--abort-after", "1h"}));
  const StoppedProcess guardian(std::stoi(killed.next_line()));
  const pid_t left = std::stoi(killed.next_line());
  killed.signal(SIGKILL);
  EXPECT_EQ(killed.status(), 128 + SIGKILL);
  CommitWords call = participation("bank", "echo $ZKR_PHASE");
  call.insert(call.begin(), {"-c", "exec \"$@\" 2>&1", "sh", zkr_program()});
  testkit::Program next("/bin/sh", std::move(call));
  EXPECT_NE(next.next_line().find("may run still"), std::string::npos);
  EXPECT_TRUE(runs(left));
  guardian.go_on();
  (void)next.next_line();  // Prepare or abort, as it is back in time or not.
  EXPECT_FALSE(runs(left));
}

// Such as one that this user may not kill.
TEST_F(ZkrCommit, ParticipantWaitsForWhatIsLeftOfTheOneBefore) {
  const int left = ::open((log_of("bank") + ".commands").c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  ASSERT_EQ(::flock(left, LOCK_EX), 0);
  CommitWords call = participation("bank", tells_step);
  call.insert(call.begin(), {"-c", "exec \"$@\" 2>&1", "sh", zkr_program()});
  testkit::Program participant("/bin/sh", std::move(call));
  EXPECT_NE(participant.next_line().find("may run still"), std::string::npos);
  EXPECT_FALSE(client().exists(path() / "participants/bank"));
  ::close(left);
  await_participant("bank");
}

// It was prepared in a tree that somebody has removed: nobody can know whether it was committed.
TEST_F(ZkrCommit, OperatorResolvesWhatIsInDoubt) {
  EXPECT_EQ(zkr({"commit", "in-doubt", "--log", log_of("bank")}).code, 69);
  testkit::Program participant(zkr_program(), participation("bank", "echo $ZKR_PHASE $ZKR_TRANSACTION"));
  await_participant("bank");
  testkit::Gate gate;
  testkit::TestParticipant slow(client(), path(), "slow");
  testkit::hold(slow, gate);
  slow.start(client());
  testkit::Program run(zkr_program(), words({"commit", "run", "/place", "bank", "slow", "--abort-after", "1h"}));
  const std::string id = gate.reached.take();
  EXPECT_EQ(participant.next_line(), "prepare " + id);
  ASSERT_TRUE(eventually([&] { return client().exists(path() / ("transactions/" + id + "/vote-bank")).has_value(); }));
  const auto listed = [&] { return zkr({"commit", "in-doubt", "--log", log_of("bank")}).output; };
  EXPECT_NE(listed().find(id + "  ready"), std::string::npos) << listed();
  EXPECT_EQ(zkr({"commit", "resolve", id, "commit", "--log", log_of("bank")}).code, 66) << "its outcome will come";
  client().remove_tree(path(), {.deadline = soon()});
  EXPECT_TRUE(eventually([&] { return listed().find("a tree that is not there any more") != std::string::npos; }));
  EXPECT_EQ(zkr({"commit", "resolve", id, "abort", "--log", log_of("bank")}).code, 0);
  EXPECT_EQ(participant.next_line(), "abort " + id);
  EXPECT_TRUE(eventually([&] { return listed().empty(); }));
  gate.open.put(1);
  run.signal(SIGTERM);
  EXPECT_EQ(run.status(), 128 + SIGTERM);
  EXPECT_TRUE(run.has_said_nothing()) << "nobody knows";
}

// Others' transactions, and those that are kept for audit, are none of its doing.
TEST_F(ZkrCommit, RecoveryThatIsOverWritesWhatItHasDecidedAndNothingElse) {
  testkit::TestParticipant bank(client(), path(), "bank");
  bank.start(client());
  ASSERT_EQ(zkr({"commit", "run", "/place", "bank", "--keep", "1h", "--applied"}).code, 0);
  testkit::Gate gate;
  const auto wait_in_commit = [&gate](const zkrecipes::CommitTransaction& transaction) {
    gate.reached.put(transaction.id);
    gate.open.take();
  };
  Client left = make_client();
  Client other = make_client();
  testkit::TestParticipant first(client(), path(), "first");
  testkit::TestParticipant second(make_client(), path(), "second");  // Its commands wait beside those of the first.
  zkrecipes::CommitCoordinator gone(left, path());
  zkrecipes::CommitCoordinator there(other, path());
  for (testkit::TestParticipant* participant : {&first, &second}) {
    participant->on_commit = wait_in_commit;
    participant->start(client());
  }
  const zkrecipes::CommitOutcome decided = gone.run({"first"}, "", {.timeout = 60s}, patient());
  const zkrecipes::CommitOutcome of_others = there.run({"second"}, "", {.timeout = 60s}, patient());
  ASSERT_TRUE(decided.committed && of_others.committed);
  for (int i = 0; i < 2; ++i)
    (void)gate.reached.take();
  left.close();
  const Called called = zkr({"commit", "recover", "/place", "--timeout", "8s"});
  EXPECT_EQ(called.code, 75) << called.errors;
  EXPECT_EQ(called.output, decided.id + " committed\n");
  for (int i = 0; i < 2; ++i)
    gate.open.put(1);
}

}  // namespace
}  // namespace zkr
