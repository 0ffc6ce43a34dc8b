#include "zkclient/detail/lease/lease_clock.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdlib>
#include <deque>
#include <functional>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace {

using zkclient::BootClock;
using zkclient::detail::LeaseClock;
using namespace std::chrono_literals;
using Millis = std::chrono::milliseconds;
using TimePoint = BootClock::time_point;

constexpr TimePoint start = TimePoint(std::chrono::hours(1000));
TimePoint at(Millis since) { return start + since; }

// Of a session that was opened long ago, and heard of its server at the usual distances since.
LeaseClock idle(Millis timeout, Millis tick) {
  LeaseClock clock(timeout, tick);
  clock.connected(start - 10 * timeout, start - 10 * timeout);
  for (int i = 30; i >= 0; --i)
    clock.heard(start - i * timeout / 3, start - i * timeout / 3);
  return clock;
}

// Heartbeats at the usual distance for a while, each answered after `round_trip`; the last one was sent at `start`.
LeaseClock steady(Millis timeout, Millis tick, Millis round_trip = 0ms) {
  LeaseClock clock(timeout, tick);
  clock.connected(start - 10 * timeout, start - 10 * timeout);
  const auto spacing = std::max<std::chrono::nanoseconds>(clock.interval(), round_trip);
  for (int i = 20; i >= 0; --i) {
    clock.heard(start - i * spacing, start - i * spacing + round_trip);
    clock.acknowledged(start - i * spacing, start - i * spacing + round_trip);
  }
  return clock;
}

TEST(LeaseClockTest, ProvesNothingAtFirst) {
  const LeaseClock clock(12s, 6s);
  EXPECT_EQ(clock.valid_until(), TimePoint{});
  EXPECT_LT(clock.valid_until(), BootClock::now());
  EXPECT_FALSE(clock.will_last(BootClock::now()));
}

TEST(LeaseClockTest, HeartbeatsAreASixthApart) {
  EXPECT_EQ(LeaseClock(12s, 6s).interval(), 2s);
  EXPECT_EQ(LeaseClock(2s, 1s).interval(), std::chrono::nanoseconds(2s) / 6);
}

TEST(LeaseClockTest, MarginIsAFortiethButAtLeastFiftyMilliseconds) {
  EXPECT_EQ(LeaseClock(1s, 500ms).margin(), 50ms);
  EXPECT_EQ(LeaseClock(2s, 1s).margin(), 50ms);
  EXPECT_EQ(LeaseClock(40s, 20s).margin(), 1s);
}

TEST(LeaseClockTest, TheTickThatIsAssumedIsHalfTheTimeoutButAtLeastTwoSeconds) {
  EXPECT_EQ(LeaseClock::assumed_tick(30s), 15s);
  EXPECT_EQ(LeaseClock::assumed_tick(4s), 2s);
  EXPECT_EQ(LeaseClock::assumed_tick(3s), 2s);  // Of a server with `minSessionTimeout`.
  EXPECT_EQ(LeaseClock::assumed_tick(500ms), 2s);
}

TEST(LeaseClockTest, SteadyStateIsTheTimeoutLessHalfATickLessASixthLessTheMargin) {
  for (const Millis timeout : {Millis(1200), Millis(12'000), Millis(60'000)}) {
    for (const int ratio : {1, 2, 4, 20}) {
      const LeaseClock clock = steady(timeout, timeout / ratio);
      // With a short tick the leader hears of each heartbeat by itself, and of nothing between two of them.
      const auto unheard = std::max<std::chrono::nanoseconds>(timeout / ratio / 2, clock.interval());
      EXPECT_EQ(clock.valid_until(), start + timeout - unheard - clock.interval() - clock.margin())
          << timeout.count() << " / " << ratio;
    }
  }
}

TEST(LeaseClockTest, AWiderGapCountsFromTheWriteBeforeIt) {
  LeaseClock clock = steady(12s, 6s);
  clock.heard(at(3500ms), at(3500ms));
  EXPECT_TRUE(clock.acknowledged(at(3500ms), at(3500ms)));  // Half a tick is three seconds.
  EXPECT_EQ(clock.valid_until(), start + 12s - clock.interval() - clock.margin());
}

TEST(LeaseClockTest, FirstWriteAfterAPauseCountsWithTheSpacingOfPings) {
  LeaseClock clock = idle(12s, 6s);
  EXPECT_TRUE(clock.acknowledged(at(0s), at(10ms)));
  EXPECT_EQ(clock.valid_until(), at(0s) + 12s - 3s - 5s - clock.margin());
  EXPECT_TRUE(clock.will_last(at(10ms)));
  for (Millis since = 4s; since <= 100s; since += 4s)
    clock.heard(at(since), at(since));
  EXPECT_TRUE(clock.acknowledged(at(100s), at(100s)));
  EXPECT_EQ(clock.valid_until(), at(100s) + 12s - 3s - 5s - clock.margin());
}

TEST(LeaseClockTest, ANewConnectionIsAProofByItself) {
  LeaseClock clock(12s, 6s);
  clock.connected(at(0s), at(10ms));
  EXPECT_TRUE(clock.acknowledged(at(20ms), at(30ms)));
  EXPECT_EQ(clock.valid_until(), at(0s) + 12s - clock.margin());
  EXPECT_TRUE(clock.will_last(at(30ms)));
}

// The follower may have been unreachable: then the leader has not heard of the session for as long.
TEST(LeaseClockTest, FirstWriteAfterASilenceProvesNothing) {
  LeaseClock clock = idle(12s, 6s);
  clock.heard(at(5100ms), at(5100ms));  // Nothing for more than 5/12 of the timeout.
  EXPECT_FALSE(clock.acknowledged(at(5200ms), at(5210ms)));
  EXPECT_FALSE(clock.will_last(at(5210ms)));
  // The next one is sent as soon as the leader has had the time for another ping, and makes it a chain.
  EXPECT_EQ(clock.next(), at(5200ms) + 2s);
  EXPECT_FALSE(clock.acknowledged(at(7200ms), at(7210ms)));
  EXPECT_EQ(clock.next(), at(8201ms));
  EXPECT_TRUE(clock.acknowledged(at(8201ms), at(8211ms)));
  EXPECT_EQ(clock.valid_until(), at(8201ms) + 12s - 3s - 2s - clock.margin());
}

TEST(LeaseClockTest, AChainBeginsWhenThereWasTimeForAPing) {
  // Two writes may fall between two answers of the follower to the leader, which then knows nothing newer than the
  // pause.
  LeaseClock clock = idle(12s, 6s);
  clock.acknowledged(at(0s), at(0s));
  clock.heard(at(2s), at(2s));
  EXPECT_TRUE(clock.acknowledged(at(2s), at(2s)));
  EXPECT_EQ(clock.valid_until(), at(2s) + 4s - clock.margin());
  EXPECT_EQ(clock.next(), at(3001ms));
  clock.heard(at(3001ms), at(3001ms));
  EXPECT_TRUE(clock.acknowledged(at(3001ms), at(3001ms)));
  EXPECT_EQ(clock.valid_until(), at(3001ms) + 12s - 3s - 2s - clock.margin());
}

TEST(LeaseClockTest, ALateAcknowledgementAfterAPauseIsNoProof) {
  LeaseClock clock = idle(12s, 6s);
  EXPECT_FALSE(clock.acknowledged(at(0s), at(2001ms)));
  EXPECT_EQ(clock.valid_until(), TimePoint{});
}

TEST(LeaseClockTest, ALateAcknowledgementInSteadyStateProvesWhatTheOneBeforeDid) {
  LeaseClock clock = steady(12s, 6s);
  const TimePoint before = clock.valid_until();
  EXPECT_TRUE(clock.acknowledged(at(2s), at(5s)));
  EXPECT_EQ(clock.valid_until(), before + clock.interval());
}

TEST(LeaseClockTest, OverlappingWritesDoNotCount) {
  LeaseClock clock = steady(12s, 6s);
  EXPECT_TRUE(clock.acknowledged(at(2s), at(3s)));
  const TimePoint before = clock.valid_until();
  EXPECT_FALSE(clock.acknowledged(at(2500ms), at(3100ms)));  // Sent before the previous one was acknowledged.
  EXPECT_EQ(clock.valid_until(), before);
  EXPECT_TRUE(clock.acknowledged(at(5s), at(5100ms)));
}

TEST(LeaseClockTest, WritesInQuickSuccessionDoNotStretchTheProof) {
  LeaseClock clock = idle(12s, 6s);
  clock.acknowledged(at(0s), at(0s));
  for (Millis since = 1ms; since <= 3s; since += 1ms) {
    clock.heard(at(since), at(since));
    clock.acknowledged(at(since), at(since));
    ASSERT_LE(clock.valid_until(), at(since) + 4s - clock.margin()) << since.count();
  }
  clock.acknowledged(at(3001ms), at(3001ms));
  EXPECT_EQ(clock.valid_until(), at(3001ms) + 7s - clock.margin());
}

TEST(LeaseClockTest, AnAcknowledgementThatComesAfterItsOwnEndIsNoProof) {
  LeaseClock clock = steady(12s, 6s);
  const TimePoint before = clock.valid_until();
  EXPECT_FALSE(clock.acknowledged(at(2s), at(30s)));
  EXPECT_EQ(clock.valid_until(), before);
}

// A leader that goes on after a stop is still ending the sessions that it takes for silent.
TEST(LeaseClockTest, AnAnswerThatWasWaitedForIsNoProofAndNeitherIsWhatFollowsAtOnce) {
  LeaseClock clock = idle(12s, 2s);
  clock.heard(at(0s), at(3s));
  EXPECT_FALSE(clock.acknowledged(at(0s), at(3s)));
  EXPECT_EQ(clock.next(), at(3s) + clock.margin());
  clock.heard(at(3100ms), at(3110ms));
  EXPECT_FALSE(clock.acknowledged(at(3100ms), at(3110ms)));
  clock.heard(at(3300ms), at(3310ms));
  EXPECT_TRUE(clock.acknowledged(at(3300ms), at(3310ms)));
  EXPECT_TRUE(clock.will_last(at(3310ms)));
}

TEST(LeaseClockTest, AConnectionAfterASilenceIsAProofAMarginLater) {
  LeaseClock clock = idle(12s, 2s);
  clock.connected(at(6900ms), at(7s));
  EXPECT_FALSE(clock.acknowledged(at(7100ms), at(7110ms)));
  EXPECT_EQ(clock.next(), at(7s) + clock.margin());
  EXPECT_TRUE(clock.acknowledged(at(7300ms), at(7310ms)));
  EXPECT_EQ(clock.valid_until(), at(6900ms) + 12s - clock.margin());
}

// It tells a waiter, too, what it has had in hand since before the stop.
TEST(LeaseClockTest, WhatAnEventAfterASilenceSetsOffIsAProofAMarginLater) {
  LeaseClock clock = idle(12s, 2s);
  const TimePoint trusted = at(0s) + clock.margin();
  clock.woken(at(0s));
  EXPECT_FALSE(clock.acknowledged(at(0s), at(10ms)));
  EXPECT_EQ(clock.next(), trusted);
  clock.woken(at(20ms));  // The leader has acted meanwhile.
  EXPECT_TRUE(clock.acknowledged(trusted, trusted + 10ms));
  EXPECT_TRUE(clock.will_last(trusted + 10ms));
}

TEST(LeaseClockTest, AnEventSoonAfterAWriteCostsNoTrust) {
  LeaseClock clock = idle(12s, 2s);
  EXPECT_TRUE(clock.acknowledged(at(0s), at(10ms)));
  clock.heard(at(4s), at(4s));
  clock.woken(at(5s));
  EXPECT_TRUE(clock.acknowledged(at(5s), at(5010ms)));
}

TEST(LeaseClockTest, AnOutageThatALeaseOutlivesCostsNoTrust) {
  LeaseClock clock = steady(12s, 2s);
  clock.connected(at(6400ms), at(6500ms));
  EXPECT_TRUE(clock.acknowledged(at(6500ms), at(6510ms)));
}

// What the faults of the past were cannot be told from the first answer after them.
TEST(LeaseClockTest, AfterItRanOutTheChainBeginsAnew) {
  LeaseClock clock = steady(12s, 6s);
  clock.heard(at(12s), at(12s));
  EXPECT_FALSE(clock.acknowledged(at(2s), at(12s)));
  clock.heard(at(12100ms), at(12100ms));
  EXPECT_FALSE(clock.acknowledged(at(12s), at(12100ms)));
  EXPECT_FALSE(clock.will_last(at(12100ms)));
}

TEST(LeaseClockTest, NeverGoesBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    LeaseClock clock(2s, 1s);
    clock.connected(start, start);
    TimePoint now = start;
    TimePoint last{};
    for (int i = 0; i < 100; ++i) {
      now += Millis(std::uniform_int_distribution<int>(0, 900)(random));
      const TimePoint sent = now - Millis(std::uniform_int_distribution<int>(0, 400)(random));
      clock.heard(sent, now);
      const bool moved = clock.acknowledged(sent, now);
      ASSERT_EQ(moved, clock.valid_until() > last);
      ASSERT_GE(clock.valid_until(), last);
      ASSERT_LE(clock.valid_until(), std::max({last, sent + 2000ms * 5 / 6, start + 2000ms}));
      last = clock.valid_until();
    }
  }
}

// --- Slow links and short timeouts -----------------------------------------------------------------------------------

TEST(LeaseClockTest, AFifthOfTheTimeoutIsNotTooSlowUnlessTheTickIsLong) {
  for (const Millis timeout : {2000ms, 4000ms, 10'000ms, 30'000ms}) {
    for (const int ratio : {2, 4, 20})
      EXPECT_GT(LeaseClock(timeout, timeout / ratio).round_trip_limit(), timeout / 5) << timeout.count() << ratio;
    EXPECT_GT(LeaseClock(timeout, timeout * 2 / 3).round_trip_limit(), timeout / 6) << timeout.count();
    EXPECT_GT(LeaseClock(timeout, timeout).round_trip_limit(), timeout / 10) << timeout.count();
    EXPECT_LE(LeaseClock(timeout, timeout * 3 / 2).round_trip_limit(), 0ms) << timeout.count();
  }
}

TEST(LeaseClockTest, TheLeastTimeoutIsEnough) {
  for (const Millis tick : {200ms, 500ms, 2000ms, 3000ms}) {
    for (const Millis round_trip : {0ms, 50ms, 700ms}) {
      const Millis least = LeaseClock::least_timeout(round_trip, tick);
      EXPECT_GE(LeaseClock(least, tick).round_trip_limit(), std::max(round_trip, least / 20));
      EXPECT_LT(LeaseClock(least - 100ms, tick).round_trip_limit(), std::max(round_trip, (least - 100ms) / 20));
    }
  }
  EXPECT_LE(LeaseClock::least_timeout(0ms, 2000ms), 2000ms);
  EXPECT_EQ(LeaseClock::least_timeout(0ms, std::nullopt), LeaseClock::least_timeout(0ms, 2000ms));
  EXPECT_EQ(LeaseClock::least_timeout(2s, std::nullopt), 8500ms);
}

// Writes from `now` on, each answered after `round_trip`, until a lease may begin, and heartbeats from then on. How
// many writes it took; nothing if none was enough, or if one of the heartbeats was answered too late.
std::optional<int> writes_before_a_lease_that_lives(LeaseClock clock, TimePoint now, LeaseClock::Duration round_trip) {
  std::optional<int> writes;
  for (int i = 1; i <= 60; ++i) {
    const TimePoint sent = std::max(now, clock.next());
    now = sent + round_trip;
    if (writes && now >= clock.valid_until()) return std::nullopt;
    clock.heard(sent, now);
    clock.acknowledged(sent, now);
    if (!writes && clock.will_last(now)) writes = i;
  }
  return writes;
}

// Calls `check` with timeouts, ticks, and round trips up to the limit that the clock names for them.
void for_each_round_trip(const std::function<void(Millis, Millis, LeaseClock::Duration)>& check) {
  for (const Millis timeout : {2000ms, 4000ms, 30'000ms}) {
    for (const double ratio : {1.0, 1.5, 2.0, 4.0, 20.0}) {
      const Millis tick(static_cast<int>(static_cast<double>(timeout.count()) / ratio));
      const auto limit = LeaseClock(timeout, tick).round_trip_limit();
      SCOPED_TRACE(std::to_string(timeout.count()) + " / " + std::to_string(ratio));
      for (int tenth = 0; tenth <= 10; ++tenth) {
        SCOPED_TRACE("tenth " + std::to_string(tenth));
        check(timeout, tick, limit * tenth / 10);
      }
    }
  }
}

// Each heartbeat is answered before what the one before it has proven runs out, up to the limit that the clock names.
TEST(LeaseClockTest, ASteadyRoundTripWithinTheLimitKeepsALease) {
  for_each_round_trip([](Millis timeout, Millis tick, LeaseClock::Duration round_trip) {
    const auto writes = writes_before_a_lease_that_lives(idle(timeout, tick), start, round_trip);
    ASSERT_TRUE(writes);
    EXPECT_LE(*writes, 6);
  });
}

// Its first answers have none before them to be compared with: they are taken for late if they are slow.
TEST(LeaseClockTest, ALeaseThatBeginsOnANewConnectionLives) {
  for_each_round_trip([](Millis timeout, Millis tick, LeaseClock::Duration round_trip) {
    for (Millis pause = 0ms; pause <= timeout; pause += timeout / 40) {
      LeaseClock clock(timeout, tick);
      const TimePoint granted = start + round_trip;
      clock.connected(start, granted);
      for (TimePoint ping = granted + timeout / 3; ping + round_trip <= granted + pause; ping += timeout / 3)
        clock.heard(ping, ping + round_trip);
      const auto writes = writes_before_a_lease_that_lives(clock, granted + pause, round_trip);
      ASSERT_TRUE(writes) << "first write after " << pause.count() << " ms";
      EXPECT_LE(*writes, 6) << "first write after " << pause.count() << " ms";
    }
  });
}

TEST(LeaseClockTest, BeyondTheLimitNoLeaseBegins) {
  for (const int ratio : {1, 2, 4}) {
    LeaseClock clock = idle(12s, 12s / ratio);
    const auto round_trip = clock.round_trip_limit() + 500ms;
    TimePoint now = start;
    for (int i = 0; i < 20; ++i) {
      const TimePoint sent = std::max(now, clock.next());
      now = sent + round_trip;
      clock.heard(sent, now);
      clock.acknowledged(sent, now);
      EXPECT_FALSE(clock.will_last(now)) << ratio << ", " << i;
    }
    ASSERT_TRUE(clock.round_trip());
    EXPECT_EQ(*clock.round_trip(), round_trip);
  }
}

// ---- Simulation -----------------------------------------------------------------------------------------------------
//
// A client on a follower, in steps of one millisecond. The leader pings its followers every half tick; only the answer
// to such a ping tells it which sessions were heard of, and it counts from the arrival of that answer. A write is
// forwarded, committed (the other follower is healthy) and acknowledged through the client's own follower. Faults hold
// the bytes of a link, in one direction or both, or stop a server. The session's node is deleted as soon as the leader
// has not heard of it for the whole timeout: the real one rounds up to the next tick, which only delays that. Or a little
// later, whatever it hears meanwhile: a leader that goes on after a stop has many sessions to end.

constexpr int never = 1 << 30;

struct Message {
  enum Kind { write, commit, ping, touches, event } kind;
  int arrives;
  int sent = 0;          // What is answered.
  bool touched = false;  // touches: of our session.
};

struct Fault {
  enum Kind {
    cut,
    to_leader,
    from_leader,
    leader_stops,
    follower_stops,
    client_link,
    from_client,
    to_client,
    client_stops,
    kinds
  } kind;
  int begin;
  int end;
  bool active(int now) const { return now >= begin && now < end; }
};

struct Scenario {
  int timeout;
  int tick;
  int assumed_tick;
  int ping_phase;
  int first_write;
  int first_claim;
  int client_delay;    // One way, between the client and its follower.
  bool always_proven;  // Heartbeats also while nothing is held.
  bool extra_writes;
  int events;  // Apart, of a watch; none: 0.
  std::vector<Fault> faults;

  // From when the leader takes the session for silent to its end. Not drawn, so that what is drawn stays as it was.
  int hesitation() const { return std::max(0, (first_write + 31 * ping_phase + 7 * client_delay) % 80 - 40); }
};

// How long a rule trusts its acknowledged writes.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual void heard(int /*sent*/, int /*now*/) {}
  virtual void event(int /*now*/) {}
  virtual void acknowledged(int sent, int now) = 0;
  virtual int valid_until() const = 0;
  virtual int next() const = 0;  // When it wants the next heartbeat.
  virtual bool may_begin(int now) const { return now < valid_until(); }
};

class OurRule : public Rule {
 public:
  explicit OurRule(const Scenario& s) : clock_(Millis(s.timeout), Millis(s.assumed_tick)) {
    clock_.connected(start, start);
  }
  void heard(int sent, int now) override { clock_.heard(at(Millis(sent)), at(Millis(now))); }
  void acknowledged(int sent, int now) override { clock_.acknowledged(at(Millis(sent)), at(Millis(now))); }
  int valid_until() const override { return since_start(clock_.valid_until()); }
  int next() const override { return since_start(clock_.next()) + 1; }
  bool may_begin(int now) const override { return clock_.will_last(at(Millis(now))); }

 private:
  static int since_start(TimePoint time) {
    return time < start ? -1 : static_cast<int>(std::chrono::duration_cast<Millis>(time - start).count());
  }
  LeaseClock clock_;
};

// Takes what the server sends of its own accord for a sign that it hears the client.
class EventsCount final : public OurRule {
 public:
  using OurRule::OurRule;
  void event(int now) override { heard(now, now); }
};

class LastAcknowledgement final : public Rule {
 public:
  explicit LastAcknowledgement(const Scenario& s) : timeout_(s.timeout) {}
  void acknowledged(int, int now) override {
    until_ = now + timeout_;
    next_ = now + timeout_ / 6;
  }
  int valid_until() const override { return until_; }
  int next() const override { return next_; }

 private:
  int timeout_;
  int next_ = 0;
  int until_ = -1;
};

class LastSendTime final : public Rule {
 public:
  explicit LastSendTime(const Scenario& s) : timeout_(s.timeout) {}
  void acknowledged(int sent, int now) override {
    until_ = sent + timeout_;
    next_ = now + timeout_ / 6;
  }
  int valid_until() const override { return until_; }
  int next() const override { return next_; }

 private:
  int timeout_;
  int next_ = 0;
  int until_ = -1;
};

struct Outcome {
  int deleted = never;  // When the leader deleted the node.
  int claimed = -1;     // Until when the client took it for its own.
  int claims = 0;
  bool violated() const { return claimed > deleted; }
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, Rule& rule, unsigned seed) : s_(scenario), rule_(rule), random_(seed) {}

  Outcome run() {
    const int horizon = 8 * s_.timeout + s_.first_claim;
    next_write_ = s_.first_write;
    next_claim_ = s_.first_claim;
    for (now_ = 0; now_ < horizon && outcome_.deleted == never; ++now_) {
      update_faults();
      client();
      if (flip()) {
        follower_hears_client();
        follower_hears_leader();
      } else {
        follower_hears_leader();
        follower_hears_client();
      }
      leader();
    }
    outcome_.claimed = outcome_.deleted == never ? -1 : claim_end_;
    return outcome_;
  }

 private:
  bool flip() { return std::uniform_int_distribution<int>(0, 1)(random_) == 0; }
  int latency() { return now_ + std::uniform_int_distribution<int>(0, 2)(random_); }
  int client_latency() { return latency() + s_.client_delay; }
  bool held(std::initializer_list<Fault::Kind> kinds) const {
    return std::any_of(kinds.begin(), kinds.end(), [&](Fault::Kind kind) { return active_[kind]; });
  }
  void update_faults() {
    active_.fill(false);
    for (const Fault& fault : s_.faults) {
      if (fault.active(now_)) active_[fault.kind] = true;
    }
  }
  static bool due(const std::deque<Message>& link, int now) { return !link.empty() && link.front().arrives <= now; }
  static Message next(std::deque<Message>& link) {
    const Message message = link.front();
    link.pop_front();
    return message;
  }

  // One write at a time, the next a sixth of the timeout after the acknowledgement; between writes the C client pings
  // when nothing was sent for a third of the timeout and nothing is unanswered, and gives the connection up when
  // nothing was heard for two thirds.
  void client() {
    if (held({Fault::client_stops})) return;
    if (!held({Fault::client_link, Fault::to_client})) {
      for (; due(to_client_, now_); last_heard_ = now_) {
        const Message message = next(to_client_);
        if (message.kind == Message::event) {
          rule_.event(now_);
          continue;
        }
        rule_.heard(message.sent, now_);
        --unanswered_;
        if (message.kind == Message::commit) write_answered();
      }
    }
    if (claiming_ && now_ >= rule_.valid_until()) lose();
    if (!claiming_ && now_ >= next_claim_ && rule_.may_begin(now_)) {
      claiming_ = true;
      ++outcome_.claims;
    }
    if (claiming_) claim_end_ = rule_.valid_until();
    if (now_ - last_heard_ >= s_.timeout * 2 / 3) disconnected_ = true;
    if (disconnected_) return;
    if (!writing_ && now_ >= next_write_) {
      writing_ = true;
      sent_ = now_;
      send(Message::write);
    } else if (unanswered_ == 0 && now_ - last_sent_ >= s_.timeout / 3) {
      send(Message::ping);
    }
  }
  // Nothing revives a claim. Another one may begin, on a proof of its own.
  void lose() {
    claiming_ = false;
    next_claim_ = now_ + std::uniform_int_distribution<int>(1, s_.timeout)(random_);
  }
  void send(Message::Kind kind) {
    last_sent_ = now_;
    ++unanswered_;
    to_follower_.push_back({kind, client_latency(), now_});
  }
  void write_answered() {
    writing_ = false;
    if (claiming_ && now_ >= rule_.valid_until()) lose();
    rule_.acknowledged(sent_, now_);
    next_write_ = std::max(now_, rule_.next());
    const bool pauses = !s_.always_proven && !claiming_ && flip();
    if (pauses) next_write_ = now_ + std::uniform_int_distribution<int>(0, 2 * s_.timeout)(random_);
    if (s_.extra_writes) next_write_ = std::uniform_int_distribution<int>(now_, next_write_)(random_);
  }

  void follower_hears_client() {
    if (held({Fault::follower_stops})) return;
    if (s_.events > 0 && now_ % s_.events == 0) to_client_.push_back({Message::event, client_latency()});
    if (held({Fault::client_link, Fault::from_client})) return;
    while (due(to_follower_, now_)) {
      const Message message = next(to_follower_);
      touched_ = true;
      if (message.kind == Message::write) {
        to_leader_.push_back({Message::write, latency(), message.sent});
      } else if (writing_) {
        --unanswered_;  // The answers of a session keep their order; this one is left out.
      } else {
        to_client_.push_back({Message::ping, client_latency(), message.sent});
      }
    }
  }
  void follower_hears_leader() {
    if (held({Fault::follower_stops, Fault::from_leader, Fault::cut})) return;
    while (due(from_leader_, now_)) {
      const Message message = next(from_leader_);
      if (message.kind == Message::commit) {
        to_client_.push_back({Message::commit, client_latency(), message.sent});
      } else {
        to_leader_.push_back({Message::touches, latency(), 0, std::exchange(touched_, false)});
      }
    }
  }

  void leader() {
    if (held({Fault::leader_stops})) return;
    if (flip()) expire();
    if (!held({Fault::to_leader, Fault::cut})) {
      while (due(to_leader_, now_)) {
        const Message message = next(to_leader_);
        if (message.kind == Message::write) from_leader_.push_back({Message::commit, latency(), message.sent});
        if (message.kind == Message::touches && message.touched) heard_ = now_;
      }
    }
    if (now_ >= next_ping_) {
      from_leader_.push_back({Message::ping, latency()});
      next_ping_ = now_ + s_.tick / 2;
    }
    expire();
  }
  void expire() {
    if (now_ >= heard_ + s_.timeout) doomed_ = std::min(doomed_, now_ + s_.hesitation());
    if (now_ >= doomed_) outcome_.deleted = std::min(outcome_.deleted, now_);
  }

  const Scenario& s_;
  Rule& rule_;
  std::mt19937 random_;
  int now_ = 0;
  std::array<bool, Fault::kinds> active_{};
  Outcome outcome_;

  // Client. The session was made at time 0.
  int last_sent_ = 0;
  int last_heard_ = 0;
  int unanswered_ = 0;
  int next_write_ = 0;
  int sent_ = 0;
  int next_claim_ = 0;
  int claim_end_ = -1;
  bool writing_ = false;
  bool claiming_ = false;
  bool disconnected_ = false;
  // Follower.
  bool touched_ = false;
  // Leader.
  int heard_ = 0;
  int doomed_ = never;
  int next_ping_ = s_.ping_phase;

  std::deque<Message> to_follower_, to_client_, to_leader_, from_leader_;
};

// Ticks in a timeout: what the server has, and what the client takes it to have.
struct Ratio {
  double real;
  double assumed;
};

class Scenarios {
 public:
  Scenarios(unsigned seed, Ratio ratio) : random_(seed), ratio_(ratio) {}

  Scenario next() {
    Scenario scenario;
    scenario.timeout = pick({1500, 2000, 4000});
    scenario.tick = static_cast<int>(scenario.timeout / ratio_.real);
    scenario.assumed_tick = static_cast<int>(scenario.timeout / ratio_.assumed);
    const LeaseClock clock(Millis(scenario.timeout), Millis(scenario.assumed_tick));
    const auto limit = std::chrono::duration_cast<Millis>(clock.round_trip_limit()).count();
    const bool slow = between(0, 2) == 0;
    scenario.client_delay = between(0, slow ? std::max(0, static_cast<int>(limit) / 2 - 4) : 5);
    scenario.ping_phase = between(0, scenario.tick / 2);
    scenario.first_write = between(0, 2 * scenario.timeout);
    scenario.first_claim = between(0, 1) == 0 ? 0 : scenario.first_write + between(0, 3 * scenario.timeout);
    scenario.always_proven = between(0, 1) == 0;
    scenario.extra_writes = between(0, 3) == 0;
    scenario.events = between(0, 1) == 0 ? 0 : between(10, scenario.timeout / 3);
    // Faults come at any time, often right after the first write or claim; short ones, long ones, one after the other,
    // often at once. A thaw lasts for a round trip at least.
    int begin = between(0, 1) == 0 ? scenario.first_write : std::max(scenario.first_write, scenario.first_claim);
    begin +=
        between(0, 1) == 0 ? between(-scenario.timeout / 3, scenario.timeout / 2) : between(0, 3 * scenario.timeout);
    const int count = between(1, 4);
    for (int i = 0; i < count; ++i) {
      begin = std::max(begin, 1);
      const int length = i + 1 == count ? 10 * scenario.timeout : between(1, scenario.timeout * 11 / 10);
      scenario.faults.push_back({static_cast<Fault::Kind>(between(0, Fault::kinds - 1)), begin, begin + length});
      begin += length + between(10, between(0, 1) == 0 ? 50 : scenario.timeout);
    }
    return scenario;
  }
  unsigned seed() { return static_cast<unsigned>(random_()); }

 private:
  int between(int low, int high) { return std::uniform_int_distribution<int>(low, high)(random_); }
  int pick(std::vector<int> from) {
    return from[static_cast<std::size_t>(between(0, static_cast<int>(from.size()) - 1))];
  }
  std::mt19937 random_;
  Ratio ratio_;
};

struct Tally {
  int deleted = 0;  // Runs in which the node was deleted while it had been held.
  int violated = 0;
  int claims = 0;
  int worst = 0;  // Milliseconds of a claim beyond the deletion.
  std::string example;
};

std::string describe(const Scenario& s, const Outcome& outcome) {
  std::string text = "T=" + std::to_string(s.timeout) + " tick=" + std::to_string(s.tick) +
                     " phase=" + std::to_string(s.ping_phase) + " first=" + std::to_string(s.first_write) +
                     " claim=" + std::to_string(s.first_claim) + " delay=" + std::to_string(s.client_delay) +
                     " proven=" + std::to_string(s.always_proven) + " extra=" + std::to_string(s.extra_writes) +
                     " events=" + std::to_string(s.events) + " deleted=" + std::to_string(outcome.deleted) +
                     " claimed=" + std::to_string(outcome.claimed);
  for (const Fault& fault : s.faults) {
    text += " fault" + std::to_string(fault.kind) + "[" + std::to_string(fault.begin) + "," +
            std::to_string(fault.end) + ")";
  }
  return text;
}

template <typename RuleType>
Tally simulate(int runs, unsigned seed, Ratio ratio) {
  Scenarios scenarios(seed, ratio);
  Tally tally;
  for (int i = 0; i < runs; ++i) {
    const Scenario scenario = scenarios.next();
    RuleType rule(scenario);
    const Outcome outcome = Simulation(scenario, rule, scenarios.seed()).run();
    tally.claims += outcome.claims;
    if (outcome.claimed < 0) continue;
    ++tally.deleted;
    if (!outcome.violated()) continue;
    ++tally.violated;
    if (outcome.claimed - outcome.deleted > tally.worst) {
      tally.worst = outcome.claimed - outcome.deleted;
      tally.example = describe(scenario, outcome);
    }
  }
  return tally;
}

// Whether the faults find out a rule, in `runs` at most.
template <typename RuleType>
bool is_found_out(int runs, unsigned seed, Ratio ratio) {
  for (int left = runs; left > 0; left -= 100) {
    if (simulate<RuleType>(std::min(left, 100), seed++, ratio).violated > 0) return true;
  }
  return false;
}

// ZKRECIPES_RUNS: how many, of each kind. The seed is fixed: this is a proof by cases, not a search for them.
// Sanitizers look for other mistakes, and take fifty times as long for each.
int runs() {
  const char* given = std::getenv("ZKRECIPES_RUNS");
  if (given != nullptr) return std::stoi(given);
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
  return 40;
#else
  return 1000;
#endif
}
constexpr unsigned seed = 20'240'229;
constexpr Ratio honest[] = {{1, 1}, {1.5, 1.5}, {2, 2}, {4, 4}, {20, 20}, {4, 2}, {20, 2}};

TEST(LeaseClockSimulationTest, NothingIsClaimedBeyondItsDeletion) {
  for (const Ratio ratio : honest) {
    const Tally tally = simulate<OurRule>(runs(), seed, ratio);
    EXPECT_GT(tally.deleted, runs() / 4) << "the faults are too mild to prove anything";
    EXPECT_EQ(tally.violated, 0) << "T / tick = " << ratio.real << ", taken for " << ratio.assumed << ": of "
                                 << tally.deleted << ", worst " << tally.worst << " ms: " << tally.example;
  }
}

// The same faults find out the rules that look right and are not: so the test above can fail.
TEST(LeaseClockSimulationTest, LastAcknowledgementPlusTimeoutIsUnsafe) {
  EXPECT_TRUE(is_found_out<LastAcknowledgement>(1000, seed, {2, 2}));
}

TEST(LeaseClockSimulationTest, LastSendTimePlusTimeoutIsUnsafe) {
  EXPECT_TRUE(is_found_out<LastSendTime>(1000, seed, {2, 2}));
}

// Rare: of the seeds before this one, none finds it.
TEST(LeaseClockSimulationTest, EventsOfWatchesAreNoProof) {
  EXPECT_TRUE(is_found_out<EventsCount>(20'000, seed + 15, {2, 2}));
}

// Whoever takes a timeout of one tick for one of two: this is why the tick has to be known.
TEST(LeaseClockSimulationTest, AShorterTickThanTheServersIsUnsafe) {
  EXPECT_TRUE(is_found_out<OurRule>(1000, seed, {1, 2}));
}

}  // namespace
