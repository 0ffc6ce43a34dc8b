// When a client without a connection tries its servers.

#include "zkclient/detail/connection/connect_pace.hpp"

#include <algorithm>
#include <chrono>
#include <random>

#include <gtest/gtest.h>

namespace {

using namespace std::chrono_literals;
using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using zkclient::detail::ConnectPace;
using zkclient::detail::longest_pause;
using zkclient::detail::PaceFacts;

constexpr auto nothing = nanoseconds::zero();

nanoseconds bound(int failed_rounds, milliseconds timeout, nanoseconds left) {
  return longest_pause(
      {.failed_rounds = failed_rounds, .idle_rounds = failed_rounds, .timeout = timeout, .left = left});
}
nanoseconds bound_after_the_end(int idle_rounds, milliseconds timeout) {
  return longest_pause(
      {.failed_rounds = 50 + idle_rounds, .idle_rounds = idle_rounds, .timeout = timeout, .left = nothing});
}

TEST(LongestPause, DoublesUpToAnEighthOfTheTimeoutWhileThereIsSomethingToKeep) {
  EXPECT_EQ(bound(1, 30s, 30s), 50ms);
  EXPECT_EQ(bound(2, 30s, 30s), 100ms);
  EXPECT_EQ(bound(7, 30s, 30s), 3200ms);
  EXPECT_EQ(bound(8, 30s, 30s), 3750ms);
  EXPECT_EQ(bound(1'000'000, 30s, 30s), 3750ms);
}

TEST(LongestPause, IsAQuarterOfWhatIsLeftAtMost) {
  EXPECT_EQ(bound(50, 30s, 8s), 2s);
  EXPECT_EQ(bound(50, 30s, 400ms), 100ms);
  EXPECT_EQ(bound(50, 30s, 1ms), 50ms) << "never shorter than the first one";
}

TEST(LongestPause, IsSecondsWhenNothingIsToBeKept) {
  EXPECT_EQ(bound(1, 4s, nothing), 50ms);
  EXPECT_EQ(bound(50, 4s, nothing), 5s);
  EXPECT_EQ(bound(50, 60s, nothing), 7500ms);
}

// A server that comes back soon after a session's end is found soon.
TEST(LongestPause, GoesOnFromAnEighthOfTheTimeoutWhenThatIsOver) {
  EXPECT_EQ(bound_after_the_end(1, 4s), 500ms);
  EXPECT_EQ(bound_after_the_end(2, 4s), 1s);
  EXPECT_EQ(bound_after_the_end(4, 4s), 4s);
  EXPECT_EQ(bound_after_the_end(5, 4s), 5s);
  EXPECT_EQ(bound_after_the_end(1'000'000, 4s), 5s);
  EXPECT_EQ(bound_after_the_end(1, 30s), 3750ms);
  EXPECT_EQ(bound_after_the_end(2, 30s), 5s);
  EXPECT_EQ(bound_after_the_end(1, 60s), 7500ms);
  EXPECT_EQ(bound_after_the_end(2, 60s), 7500ms);
}

TEST(LongestPause, NeverShrinksWithTheRoundsNorGrowsAsTimeRunsOut) {
  for (const milliseconds timeout : {400ms, 2000ms, 4000ms, 10'000ms, 30'000ms, 60'000ms}) {
    for (int rounds = 1; rounds < 40; ++rounds) {
      for (milliseconds left = 1ms; left <= timeout; left += timeout / 40) {
        EXPECT_LE(bound(rounds, timeout, left), bound(rounds + 1, timeout, left));
        EXPECT_LE(bound(rounds, timeout, left), bound(rounds, timeout, left + timeout / 40));
        EXPECT_LE(bound(rounds, timeout, left), std::max<nanoseconds>(timeout / 8, 50ms));
      }
    }
  }
}

// The loop as a handle drives it: what wait() says is waited for, then one attempt is made.
class Loop {
 public:
  Loop(std::size_t servers, milliseconds timeout) : timeout_(timeout) { pace_.set_servers(servers); }

  /// Attempts that fail at once: for `time`, but no more than `most`.
  int attempts(nanoseconds time, nanoseconds kept, int most = 1'000'000) {
    const auto end = now_ + time;
    const auto lost = now_ + kept;
    int made = 0;
    while (made < most) {
      const PaceFacts facts{
          .failed_rounds = 0, .timeout = timeout_, .left = std::max<nanoseconds>(lost - now_, nothing)};
      const nanoseconds pause = pace_.wait(now_, facts);
      if (now_ + pause >= end) break;
      now_ += pause;
      pace_.attempt();
      ++made;
    }
    return made;
  }
  ConnectPace& pace() { return pace_; }
  ConnectPace::Clock::time_point now() const { return now_; }

 private:
  ConnectPace pace_;
  milliseconds timeout_;
  ConnectPace::Clock::time_point now_{1000h};
};

TEST(ConnectPace, ARoundOverAllServersHasNoPause) {
  for (const std::size_t servers : {1U, 2U, 3U, 5U, 9U}) {
    Loop loop(servers, 30s);
    const auto before = loop.now();
    EXPECT_EQ(loop.attempts(1h, 30s, static_cast<int>(servers)), static_cast<int>(servers));
    EXPECT_EQ(loop.now(), before);
  }
}

TEST(ConnectPace, AConnectionOrOtherServersBeginANewRoundAtOnce) {
  Loop loop(3, 30s);
  loop.attempts(20s, 30s);
  loop.pace().restart();
  const auto before = loop.now();
  EXPECT_EQ(loop.attempts(1h, 30s, 3), 3);
  EXPECT_EQ(loop.now(), before);
}

// A server that accepts and hangs up is asked with short pauses: 200 ms at most, however long the outage was before.
TEST(ConnectPace, AConnectionThatBreaksAtOnceIsNoReasonToHurry) {
  Loop loop(3, 30s);
  loop.attempts(20s, 30s);
  const PaceFacts facts{.failed_rounds = 0, .timeout = 30s, .left = 30s};
  auto now = loop.now() + 1h;
  nanoseconds longest = nothing;
  nanoseconds all = nothing;
  for (int broken = 0; broken < 1000; ++broken) {
    loop.pace().broke_at_once();
    const nanoseconds pause = loop.pace().wait(now, facts);
    longest = std::max(longest, pause);
    all += pause;
    now += pause;
    loop.pace().attempt();
  }
  EXPECT_LE(longest, 200ms);
  EXPECT_GT(all, 50s) << "100 ms each, as a rule";
}

// The pause is kept, however often the loop asks in between.
TEST(ConnectPace, AskingAgainDoesNotDrawAgain) {
  ConnectPace pace;
  const ConnectPace::Clock::time_point now{1000h};
  const PaceFacts facts{.failed_rounds = 0, .timeout = 30s, .left = 30s};
  for (int round = 0; round < 20; ++round) {
    pace.attempt();
    const nanoseconds pause = pace.wait(now, facts);
    EXPECT_EQ(pace.wait(now, facts), pause);
    EXPECT_EQ(pace.wait(now + pause, facts), nothing);
  }
}

TEST(ConnectPace, ASessionsEndIsNoReasonToPauseForLong) {
  for (int i = 0; i < 200; ++i) {
    Loop loop(1, 4s);
    loop.attempts(4s, 4s);
    for (const auto most : {500ms, 1000ms, 2000ms, 4000ms, 5000ms}) {
      const auto before = loop.now();
      ASSERT_EQ(loop.attempts(1h, nothing, 1), 1);
      EXPECT_LE(loop.now() - before, most);
    }
  }
}

TEST(ConnectPace, AFleetCanBeLivedWith) {
  for (int i = 0; i < 200; ++i) {
    Loop loop(1, 4s);
    EXPECT_LE(loop.attempts(30s, 4s), 120);
    EXPECT_LE(loop.attempts(60s, nothing), 60) << "two and a half seconds from one to the next, on average";
  }
}

// A server that comes back at any time before the end is asked while the session is there: the last attempt is made
// within the last bound.
TEST(ConnectPace, NothingThatCouldBeKeptIsLostByAPause) {
  std::mt19937 random(7);
  for (const milliseconds timeout : {2000ms, 4000ms, 10'000ms, 30'000ms}) {
    for (int i = 0; i < 300; ++i) {
      Loop loop(3, timeout);
      const double share = std::uniform_real_distribution<double>(0.3, 1)(random);
      const auto lost = loop.now() + std::chrono::duration_cast<nanoseconds>(timeout * share);
      while (loop.attempts(lost - loop.now(), lost - loop.now(), 1) == 1)
        continue;
      EXPECT_LT(lost - loop.now(), 100ms);
    }
  }
}

}  // namespace
