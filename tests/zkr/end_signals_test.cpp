// Which signals to end are counted, and what is said over the line between front and keeper.

#include "tools/zkr/run/end_signals.hpp"

#include <gtest/gtest.h>

#include <signal.h>
#include <unistd.h>

#include <thread>

#include "tools/zkr/run/link.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr Instant signals_begin{1000h};

signalfd_siginfo signal_sent(int number, int code = SI_USER) {
  signalfd_siginfo signal{};
  signal.ssi_signo = static_cast<std::uint32_t>(number);
  signal.ssi_code = code;
  return signal;
}

/// What a child finds that its parent has passed it on: here a process is its own child.
signalfd_siginfo signal_passed_on(const EndSignals& parent, int number) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, number);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
  parent.pass_on(::getpid(), number);
  siginfo_t got{};
  EXPECT_EQ(::sigwaitinfo(&set, &got), number);
  ::pthread_sigmask(SIG_UNBLOCK, &set, nullptr);
  signalfd_siginfo signal = signal_sent(number, got.si_code);
  signal.ssi_int = got.si_int;
  signal.ssi_pid = static_cast<std::uint32_t>(::getppid());
  return signal;
}

TEST(ZkrEndSignals, SameOneCloseBehindIsNotCounted) {
  EndSignals ours;
  EXPECT_TRUE(ours.count(signal_sent(SIGTERM), signals_begin));
  EXPECT_FALSE(ours.count(signal_sent(SIGTERM), signals_begin + 10ms));
  EXPECT_TRUE(ours.count(signal_sent(SIGINT), signals_begin + 10ms));
  EXPECT_TRUE(ours.count(signal_sent(SIGTERM), signals_begin + 20ms));
  EXPECT_TRUE(ours.count(signal_sent(SIGTERM), signals_begin + 1s));
}

TEST(ZkrEndSignals, KeyThatIsPressedTwiceIsCountedTwice) {
  EndSignals ours;
  EXPECT_TRUE(ours.count(signal_sent(SIGINT, SI_KERNEL), signals_begin));
  EXPECT_TRUE(ours.count(signal_sent(SIGINT, SI_KERNEL), signals_begin + 10ms));
  EXPECT_FALSE(ours.count(signal_sent(SIGINT), signals_begin + 20ms))
      << "what a program between us and the terminal passes on";
}

TEST(ZkrEndSignals, ChildThatGetsThemTwiceCountsThemOnce) {
  for (const bool parent_first : {false, true}) {
    EndSignals parent;
    EndSignals child;
    for (const Duration after : {0s, 5s}) {
      parent.count(signal_sent(SIGTERM), signals_begin + after);
      const signalfd_siginfo again = signal_passed_on(parent, SIGTERM);
      EXPECT_TRUE(child.count(parent_first ? again : signal_sent(SIGTERM), signals_begin + after));
      EXPECT_FALSE(child.count(parent_first ? signal_sent(SIGTERM) : again, signals_begin + after + 10ms));
    }
    parent.count(signal_sent(SIGTERM), signals_begin + 10s);
    EXPECT_TRUE(child.count(signal_passed_on(parent, SIGTERM), signals_begin + 10s)) << "the parent alone got it";
  }
}

TEST(ZkrEndSignals, ParentsOwnIsNoneOfThoseThatCome) {
  EndSignals parent;
  EndSignals child;
  parent.count_own();
  EXPECT_TRUE(child.count(signal_passed_on(parent, SIGTERM), signals_begin));
  EXPECT_TRUE(parent.count(signal_sent(SIGTERM), signals_begin + 10ms));
  EXPECT_TRUE(child.count(signal_passed_on(parent, SIGTERM), signals_begin + 20ms));
}

TEST(ZkrLink, EndIsSaidWhenThereIsRoomAgain) {
  auto [front, keeper] = Link::pair();
  constexpr int more_than_fit = 10'000;
  for (int i = 0; i < more_than_fit; ++i)
    keeper.say("something");
  std::thread sender([&end = keeper] { end.send_surely({.word = Word::ended, .ending = {.code = 3}}); });
  Message last;
  int received = 0;
  Descriptor none;
  while (last.word != Word::ended) {
    wait_for_any({front.get()});
    while (const auto message = front.receive(none)) {
      last = *message;
      ++received;
    }
  }
  sender.join();
  EXPECT_EQ(last.ending, Ending{.code = 3});
  EXPECT_LT(received, more_than_fit) << "there was no room for all";
}

TEST(ZkrLink, PeerThatIsGoneIsToldNothing) {
  auto [front, keeper] = Link::pair();
  for (int i = 0; i < 10'000; ++i)
    keeper.say("something");
  front.close();
  keeper.send_surely({.word = Word::ended});
  EXPECT_TRUE(keeper.peer_gone());
}

}  // namespace
}  // namespace zkr
