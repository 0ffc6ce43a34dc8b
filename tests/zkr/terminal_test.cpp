// `zkr` on a terminal, below an interactive shell: ctrl-C, ctrl-Z and fg, the background, a terminal left raw.

#include <gtest/gtest.h>

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <termios.h>
#include <unistd.h>

#include <functional>
#include <string>

#include "tests/zkr/harness.hpp"
#include "tools/zkr/run/process_tree.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

const Words interactive_shell{"bash", "--norc", "--noprofile", "--noediting", "-i"};

/// A session of its own on a terminal, which echoes nothing.
class Terminal {
 public:
  explicit Terminal(const Words& leader = interactive_shell)
      : master_(::posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC)),
        hand_(folder_ / "lease"),
        lines_(Descriptor(::fcntl(master_.get(), F_DUPFD_CLOEXEC, 0))) {
    ::grantpt(master_.get());
    ::unlockpt(master_.get());
    const std::string name = ::ptsname(master_.get());
    leader_ = ::fork();
    if (leader_ == 0) lead(name, leader);
  }
  Terminal(const Terminal&) = delete;
  Terminal& operator=(const Terminal&) = delete;
  ~Terminal() {
    ::kill(leader_, SIGKILL);
    ::waitpid(leader_, nullptr, 0);
  }

  void type(const std::string& text) const {
    EXPECT_EQ(::write(master_.get(), text.data(), text.size()), static_cast<ssize_t>(text.size()));
  }
  /// The shell's words for a `zkr` with a puppet.
  std::string zkr_line(const std::string& words, const std::string& options = "") const {
    return rig_program() + " " + (folder_ / "lease") + " --cgroup no " + options + " -- " + PUPPET + " " + words;
  }
  /// Starts it below the shell, and grants the lease.
  void start(const std::string& words, const std::string& behind = "") {
    type(zkr_line(words) + behind + "\n");
    grant();
  }
  void meet() {
    keeper_ = hand_.meet();
    front_ = PinnedProcess(keeper_).status().value().parent;
  }
  void grant() {
    meet();
    hand_.set(long_lease());
  }
  void finish() {
    EXPECT_TRUE(hand_.await_release());
    hand_.confirm_release();
  }

  /// The last of those who have its other end lets it go.
  void hang_up() {
    lines_ = Lines(Descriptor());
    master_.close();
  }

  /// Without the carriage return.
  std::string await(const std::string& beginning) {
    std::string line = lines_.await(beginning).value_or("(nothing)");
    if (!line.empty() && line.back() == '\r') line.pop_back();
    return line;
  }
  std::string status_at_the_shell() {
    type("echo status $?\n");
    return await("status");
  }
  pid_t foreground() const { return ::tcgetpgrp(master_.get()); }
  pid_t shell() const { return leader_; }
  pid_t front() const { return front_; }
  pid_t keeper() const { return keeper_; }
  LeaseHand& hand() { return hand_; }

 private:
  [[noreturn]] static void lead(const std::string& name, const Words& leader) {
    forget_signal_state();
    ::setsid();
    const int terminal = ::open(name.c_str(), O_RDWR);
    ::ioctl(terminal, TIOCSCTTY, 0);
    termios state{};
    ::tcgetattr(terminal, &state);
    state.c_lflag &= ~static_cast<tcflag_t>(ECHO);
    ::tcsetattr(terminal, TCSANOW, &state);
    for (int number = 0; number <= STDERR_FILENO; ++number)
      ::dup2(terminal, number);
    ::close_range(STDERR_FILENO + 1, ~0U, 0);
    ::setenv("PS1", "", 1);
    std::vector<char*> argv;
    for (const std::string& word : leader)
      argv.push_back(const_cast<char*>(word.c_str()));
    argv.push_back(nullptr);
    ::execvp(argv[0], argv.data());
    ::_exit(127);
  }

  Folder folder_;
  Descriptor master_;
  LeaseHand hand_;
  Lines lines_;
  pid_t leader_ = -1;
  pid_t front_ = -1;
  pid_t keeper_ = -1;
};

TEST(ZkrOnATerminal, Z45CommandReadsTheTerminal) {
  Terminal terminal;
  terminal.start("say up read exit 3");
  terminal.await("up");
  terminal.type("hello\n");
  EXPECT_EQ(terminal.await("line"), "line hello");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 3");
}

TEST(ZkrOnATerminal, Z46StopKeyStopsBothAndFgResumesThem) {
  Terminal terminal;
  terminal.start("pid say up read exit 0");
  const pid_t command = number_in(terminal.await("pid"));
  terminal.await("up");
  terminal.type("\x1a");
  await([&] { return state_of(command) == 'T' && state_of(terminal.front()) == 'T'; });
  terminal.type("echo prompt\n");
  EXPECT_EQ(terminal.await("prompt"), "prompt");
  EXPECT_EQ(terminal.foreground(), terminal.shell());
  EXPECT_NE(state_of(terminal.keeper()), 'T');
  const Lease renewed = long_lease();  // The lease goes on.
  terminal.hand().set(renewed);
  await([&] { return valid_until_on_page(terminal.front()) == renewed.valid_until; });

  terminal.type("fg\n");
  await([&] { return state_of(command) != 'T' && state_of(terminal.front()) != 'T'; });
  terminal.type("hello\n");
  EXPECT_EQ(terminal.await("line"), "line hello");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 0");
}

TEST(ZkrOnATerminal, StopKeyStopsAWaiter) {
  Terminal terminal;
  terminal.type(terminal.zkr_line("say up exit 2") + "\n");
  terminal.meet();
  await([&] { return terminal.foreground() != terminal.shell(); });
  terminal.type("\x1a");
  await([&] { return state_of(terminal.front()) == 'T' && terminal.foreground() == terminal.shell(); });
  terminal.type("fg\n");
  await([&] { return state_of(terminal.front()) != 'T' && terminal.foreground() != terminal.shell(); });
  terminal.hand().set(long_lease());
  EXPECT_EQ(terminal.await("up"), "up");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 2");
}

/// Returns when the front is stopped, has been let go on, and has heard of it. `readers` would take the shell's next
/// words if they were not stopped by then.
void stop_and_resume(Terminal& terminal, const std::vector<pid_t>& readers = {}) {
  terminal.type("\x1a");
  for (const pid_t reader : readers)
    await([&] { return state_of(reader) == 'T'; });
  await([&] { return state_of(terminal.front()) == 'T' && terminal.foreground() == terminal.shell(); });
  terminal.type("fg\n");
  await([&] { return state_of(terminal.front()) != 'T' && terminal.foreground() != terminal.shell(); });
  await_signals_taken(terminal.front());
}

TEST(ZkrOnATerminal, StopKeyBetweenTwoRunsEndsNothing) {
  Terminal terminal;
  terminal.type(terminal.zkr_line("say up read exit 3", "--again yes") + "\n");
  terminal.grant();
  terminal.await("up");
  terminal.type("hello\n");
  terminal.finish();
  terminal.hand().meet();
  stop_and_resume(terminal);
  terminal.hand().set(long_lease());
  EXPECT_EQ(terminal.await("up"), "up");
  terminal.type("\x03");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 130");
}

TEST(ZkrOnATerminal, StopKeyWhileDescendantsAreWaitedForEndsNothing) {
  Terminal terminal;
  terminal.type(terminal.zkr_line("pid fork [ pid say up read say done ] exit 3", "--descendants wait") + "\n");
  terminal.grant();
  const pid_t command = number_in(terminal.await("pid"));
  const pid_t reader = number_in(terminal.await("pid"));
  terminal.await("up");
  await([&] { return state_of(command) == 'X'; });
  stop_and_resume(terminal, {reader});
  terminal.type("hello\n");
  EXPECT_EQ(terminal.await("done"), "done");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 3");
}

TEST(ZkrOnATerminal, Z49InterruptArrivesOnceAndTheCommandMayCleanUp) {
  Folder folder;
  LeaseHand hand(folder / "lease");
  Terminal terminal({rig_program(), folder / "lease", "--", PUPPET, "signals", "say", "up", "read", "exit", "4"});
  hand.meet();
  hand.set(long_lease());
  terminal.await("up");
  // While the front is stopped, its signal waits: two that come at the same time would be taken for one.
  ::kill(terminal.shell(), SIGSTOP);
  await([&] { return state_of(terminal.shell()) == 'T'; });
  terminal.type("\x03");
  EXPECT_EQ(terminal.await("signal"), "signal 02");
  ::kill(terminal.shell(), SIGCONT);
  await_signals_taken(terminal.shell());  // If it passed the signal on, that would come before the line.
  terminal.type("go\n");
  EXPECT_EQ(terminal.await("").substr(0, 7), "line go");
  EXPECT_TRUE(hand.await_release());
  hand.confirm_release();
}

TEST(ZkrOnATerminal, CommandHearsOfATerminalThatIsHungUp) {
  const Folder folder;
  LeaseHand hand(folder / "lease");
  Terminal terminal({rig_program(), folder / "lease", "--", PUPPET, "say", "up", "pause"});
  hand.meet();
  hand.set(long_lease());
  terminal.await("up");
  terminal.hang_up();
  EXPECT_TRUE(hand.await_release());
  hand.confirm_release();
}

TEST(ZkrOnATerminal, Z49InterruptStopsALoopOfTheShell) {
  Terminal terminal;
  terminal.type("for i in 1 2 3; do " + terminal.zkr_line("say up pause") + "; done\n");
  terminal.grant();
  terminal.await("up");
  terminal.type("\x03");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 130");
}

TEST(ZkrOnATerminal, InterruptReachesACommandThatMayEndItsWork) {
  Terminal terminal;
  terminal.type(terminal.zkr_line("say up pause", "--drain 100000") + "\n");
  terminal.grant();
  terminal.await("up");
  terminal.type("\x03");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 130");
}

TEST(ZkrOnATerminal, Z48BackgroundTakesNoTerminal) {
  Terminal terminal;
  terminal.start("pid group say up pause", " &");
  const pid_t command = number_in(terminal.await("pid"));
  EXPECT_EQ(number_in(terminal.await("group")), command);  // A group of its own.
  terminal.await("up");
  EXPECT_EQ(terminal.foreground(), terminal.shell());
  terminal.type("kill %1; wait %1\n");  // In one line: with its next prompt the shell may forget the job.
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 143");
  EXPECT_EQ(terminal.foreground(), terminal.shell());
}

TEST(ZkrOnATerminal, PipelineWorks) {
  Terminal terminal;
  terminal.start("say up exit 0", " | sed s/up/down/");
  EXPECT_EQ(terminal.await("down"), "down");
  terminal.finish();
  EXPECT_EQ(terminal.status_at_the_shell(), "status 0");
}

/// What a shell finds after it, which does not care for the terminal itself: "icanon" or "-icanon". `end` ends the
/// command, whose number it gets.
std::string terminal_after(const std::function<void(LeaseHand&, pid_t)>& end) {
  Folder folder;
  LeaseHand hand(folder / "lease");
  const std::string zkr = rig_program() + " " + (folder / "lease") + " -- " + PUPPET + " raw pid pause";
  Terminal terminal({"sh", "-c", zkr + "; stty -a | tr ' ;' '\\n\\n' | grep icanon; read line"});
  hand.meet();
  hand.set(long_lease());
  end(hand, number_in(terminal.await("pid")));
  EXPECT_TRUE(hand.await_release());
  hand.confirm_release();
  std::string line = terminal.await("");
  while (line.find("icanon") == std::string::npos && line != "(nothing)")
    line = terminal.await("");
  return line;
}

TEST(ZkrOnATerminal, RawTerminalOfAKilledCommandIsRestored) {
  EXPECT_EQ(terminal_after([](LeaseHand&, pid_t command) { ::kill(command, SIGKILL); }), "icanon");
}

TEST(ZkrOnATerminal, RawTerminalOfALostLeaseIsRestored) {
  const auto lose = [](LeaseHand& hand, pid_t) {
    Lease lost = long_lease();
    lost.state = LeaseState::lost;
    hand.set(lost);
  };
  EXPECT_EQ(terminal_after(lose), "icanon");
}

}  // namespace
}  // namespace zkr
