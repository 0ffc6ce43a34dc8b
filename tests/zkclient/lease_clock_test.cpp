#include "zkclient/detail/lease_clock.hpp"

#include <algorithm>
#include <array>
#include <chrono>
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

// A clock that has seen heartbeats at the usual distance for a while, the last one sent at `start`.
LeaseClock steady(Millis timeout) {
  LeaseClock clock(timeout);
  for (int i = 10; i >= 0; --i)
    clock.acknowledged(start - i * clock.interval(), start - i * clock.interval());
  return clock;
}

TEST(LeaseClockTest, ProvesNothingAtFirst) {
  const LeaseClock clock(12s);
  EXPECT_EQ(clock.valid_until(), TimePoint{});
  EXPECT_LT(clock.valid_until(), BootClock::now());
}

TEST(LeaseClockTest, HeartbeatsAreASixthApart) {
  EXPECT_EQ(LeaseClock(12s).interval(), 2s);
  EXPECT_EQ(LeaseClock(2s).interval(), std::chrono::nanoseconds(2s) / 6);
}

TEST(LeaseClockTest, MarginIsAFortiethButAtLeastFiftyMilliseconds) {
  EXPECT_EQ(LeaseClock(1s).margin(), 50ms);
  EXPECT_EQ(LeaseClock(2s).margin(), 50ms);
  EXPECT_EQ(LeaseClock(40s).margin(), 1s);
}

TEST(LeaseClockTest, SteadyStateIsSevenTwelfthsLessTheMargin) {
  for (const Millis timeout : {Millis(1200), Millis(12'000), Millis(60'000)}) {
    const LeaseClock clock = steady(timeout);
    EXPECT_EQ(clock.valid_until(), start + timeout * 7 / 12 - clock.margin()) << timeout.count();
  }
}

TEST(LeaseClockTest, WiderSpacingCountsLess) {
  LeaseClock clock = steady(12s);
  // Three seconds between writes: S + T - 3 s - max(the spacing before, T/4) - margin, and so on.
  EXPECT_TRUE(clock.acknowledged(at(3s), at(3s)));
  EXPECT_EQ(clock.valid_until(), at(3s) + 12s - 3s - 3s - clock.margin());
}

TEST(LeaseClockTest, FirstWriteAfterAPauseCountsWithTheSpacingOfPings) {
  LeaseClock clock(12s);
  EXPECT_TRUE(clock.acknowledged(at(0s), at(10ms)));
  EXPECT_EQ(clock.valid_until(), at(0s) + 12s - 4s - 4s - clock.margin());
  EXPECT_TRUE(clock.acknowledged(at(100s), at(100s)));
  EXPECT_EQ(clock.valid_until(), at(100s) + 12s - 4s - 4s - clock.margin());
}

TEST(LeaseClockTest, SecondWriteAfterAPauseStillRemembersThePause) {
  // Both may fall between two answers of the follower to the leader, which then knows nothing newer than the pause.
  LeaseClock clock(12s);
  clock.acknowledged(at(0s), at(0s));
  EXPECT_TRUE(clock.acknowledged(at(2s), at(2s)));
  EXPECT_EQ(clock.valid_until(), at(2s) + 4s - clock.margin());
  EXPECT_TRUE(clock.acknowledged(at(4s), at(4s)));
  EXPECT_EQ(clock.valid_until(), at(4s) + 7s - clock.margin());
}

TEST(LeaseClockTest, LateAcknowledgementAfterAPauseIsNoProof) {
  LeaseClock clock(12s);
  EXPECT_FALSE(clock.acknowledged(at(0s), at(2001ms)));
  EXPECT_EQ(clock.valid_until(), TimePoint{});
  // Nor is what follows at once: the leader must have had the time for another ping.
  EXPECT_EQ(clock.next(), at(5001ms));
  EXPECT_FALSE(clock.acknowledged(at(2001ms), at(2002ms)));
  EXPECT_FALSE(clock.acknowledged(at(5000ms), at(5001ms)));
  EXPECT_TRUE(clock.acknowledged(at(5001ms), at(5002ms)));
  EXPECT_EQ(clock.valid_until(), at(5001ms) + 4s - clock.margin());
}

TEST(LeaseClockTest, ASlowConnectionIsNoFault) {
  LeaseClock clock(12s);
  Millis now = 0ms;
  for (int i = 0; i < 10; ++i) {  // Each acknowledgement takes a second.
    const TimePoint sent = std::max(at(now), clock.next());
    EXPECT_TRUE(clock.acknowledged(sent, sent + 1s)) << i;
    EXPECT_GT(clock.valid_until(), clock.next() + 1s) << "the next heartbeat would come too late, " << i;
    now = std::chrono::duration_cast<Millis>(sent + 1s - start);
  }
}

TEST(LeaseClockTest, LateAcknowledgementInSteadyStateCountsFromItsSendTime) {
  LeaseClock clock = steady(12s);
  EXPECT_TRUE(clock.acknowledged(at(2s), at(4s)));
  EXPECT_EQ(clock.valid_until(), at(2s) + 7s - clock.margin());
}

TEST(LeaseClockTest, OverlappingWritesDoNotCount) {
  LeaseClock clock = steady(12s);
  EXPECT_TRUE(clock.acknowledged(at(2s), at(3s)));
  const TimePoint before = clock.valid_until();
  EXPECT_FALSE(clock.acknowledged(at(2500ms), at(3100ms)));  // Sent before the previous one was acknowledged.
  EXPECT_EQ(clock.valid_until(), before);
  EXPECT_TRUE(clock.acknowledged(at(5s), at(5100ms)));
}

TEST(LeaseClockTest, WritesInQuickSuccessionDoNotStretchTheProof) {
  LeaseClock clock(12s);
  clock.acknowledged(at(0s), at(0s));
  for (Millis since = 1ms; since < 4s; since += 1ms) {
    clock.acknowledged(at(since), at(since));
    ASSERT_LE(clock.valid_until(), at(0s) + 8s - clock.margin()) << since.count();
  }
}

TEST(LeaseClockTest, NextHeartbeatIsDueAnIntervalAfterTheAcknowledgement) {
  LeaseClock clock = steady(12s);
  EXPECT_EQ(clock.next(), at(2s));
  clock.acknowledged(at(2s), at(3s));
  EXPECT_EQ(clock.next(), at(5s));
  clock.acknowledged(at(3500ms), at(3500ms));  // Too close to the one before to count.
  EXPECT_EQ(clock.next(), at(5s));
}

TEST(LeaseClockTest, AnAcknowledgementThatComesAfterItsOwnEndIsNoProof) {
  LeaseClock clock = steady(12s);
  const TimePoint before = clock.valid_until();
  EXPECT_FALSE(clock.acknowledged(at(2s), at(30s)));
  EXPECT_EQ(clock.valid_until(), before);
}

TEST(LeaseClockTest, NeverGoesBack) {
  std::mt19937 random(7);
  for (int round = 0; round < 200; ++round) {
    LeaseClock clock(2s);
    TimePoint now = start;
    TimePoint last{};
    for (int i = 0; i < 100; ++i) {
      now += Millis(std::uniform_int_distribution<int>(0, 900)(random));
      const TimePoint sent = now - Millis(std::uniform_int_distribution<int>(0, 400)(random));
      const bool moved = clock.acknowledged(sent, now);
      ASSERT_EQ(moved, clock.valid_until() > last);
      ASSERT_GE(clock.valid_until(), last);
      ASSERT_LE(clock.valid_until(), std::max(last, sent + 2000ms * 7 / 12));
      last = clock.valid_until();
    }
  }
}

// ---- Simulation -----------------------------------------------------------------------------------------------------
//
// A client on a follower, in steps of one millisecond. The leader pings its followers every half tick; only the answer
// to such a ping tells it which sessions were heard of, and it counts from the arrival of that answer. A write is
// forwarded, committed (the other follower is healthy) and acknowledged through the client's own follower. Faults hold
// the bytes of a link, in one direction or both, or stop a server. The session's node is deleted as soon as the leader
// has not heard of it for the whole timeout: the real one rounds up to the next tick, which only delays that.

constexpr int never = 1 << 30;

struct Message {
  enum Kind { write, commit, ping, touches } kind;
  int arrives;
  bool touched = false;  // touches: of our session.
};

struct Fault {
  enum Kind { cut, to_leader, from_leader, leader_stops, follower_stops, client_link, kinds } kind;
  int begin;
  int end;
  bool active(int now) const { return now >= begin && now < end; }
};

struct Scenario {
  int timeout;
  int tick;
  int ping_phase;
  int first_write;
  bool extra_writes;
  std::vector<Fault> faults;
};

// How long a rule trusts its acknowledged writes.
class Rule {
 public:
  virtual ~Rule() = default;
  virtual void acknowledged(int sent, int now) = 0;
  virtual int valid_until() const = 0;
  virtual int next() const = 0;  // When it wants the next heartbeat.
};

class OurRule final : public Rule {
 public:
  explicit OurRule(int timeout) : clock_(Millis(timeout)) {}
  void acknowledged(int sent, int now) override { clock_.acknowledged(at(Millis(sent)), at(Millis(now))); }
  int valid_until() const override { return since_start(clock_.valid_until()); }
  int next() const override { return since_start(clock_.next()); }

 private:
  static int since_start(TimePoint time) {
    return time < start ? -1 : static_cast<int>(std::chrono::duration_cast<Millis>(time - start).count());
  }
  LeaseClock clock_;
};

class LastAcknowledgement final : public Rule {
 public:
  explicit LastAcknowledgement(int timeout) : timeout_(timeout) {}
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
  explicit LastSendTime(int timeout) : timeout_(timeout) {}
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
  bool violated() const { return claimed > deleted; }
};

class Simulation {
 public:
  Simulation(const Scenario& scenario, Rule& rule, unsigned seed) : s_(scenario), rule_(rule), random_(seed) {}

  Outcome run() {
    const int horizon = 8 * s_.timeout;
    next_write_ = s_.first_write;
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
    if (!held({Fault::client_link})) {
      for (; due(to_client_, now_); last_heard_ = now_) {
        const Message message = next(to_client_);
        --unanswered_;
        if (message.kind == Message::commit) write_answered();
      }
    }
    const bool holding = claiming_ && now_ < rule_.valid_until();
    if (claiming_ && !holding) lost_ = true;  // Sticky: nothing revives it.
    if (holding) claim_end_ = rule_.valid_until();
    if (now_ - last_heard_ >= s_.timeout * 2 / 3) disconnected_ = true;
    if (disconnected_ || lost_) return;
    if (!writing_ && now_ >= next_write_) {
      writing_ = true;
      sent_ = now_;
      send(Message::write);
    } else if (unanswered_ == 0 && now_ - last_sent_ >= s_.timeout / 3) {
      send(Message::ping);
    }
  }
  void send(Message::Kind kind) {
    last_sent_ = now_;
    ++unanswered_;
    to_follower_.push_back({kind, latency()});
  }
  void write_answered() {
    writing_ = false;
    if (claiming_ && now_ >= rule_.valid_until()) return;  // Too late.
    rule_.acknowledged(sent_, now_);
    claiming_ = claiming_ || now_ < rule_.valid_until();
    next_write_ = std::max(now_, rule_.next());
    if (s_.extra_writes) next_write_ = std::uniform_int_distribution<int>(now_, next_write_)(random_);
  }

  void follower_hears_client() {
    if (held({Fault::follower_stops, Fault::client_link})) return;
    while (due(to_follower_, now_)) {
      const Message message = next(to_follower_);
      touched_ = true;
      if (message.kind == Message::write) {
        to_leader_.push_back({Message::write, latency()});
      } else if (writes_at_follower() == 0) {
        to_client_.push_back({Message::ping, latency()});
      }
    }
  }
  int writes_at_follower() const { return static_cast<int>(writing_); }
  void follower_hears_leader() {
    if (held({Fault::follower_stops, Fault::from_leader, Fault::cut})) return;
    while (due(from_leader_, now_)) {
      const Message message = next(from_leader_);
      if (message.kind == Message::commit) {
        to_client_.push_back({Message::commit, latency()});
      } else {
        to_leader_.push_back({Message::touches, latency(), std::exchange(touched_, false)});
      }
    }
  }

  void leader() {
    if (held({Fault::leader_stops})) return;
    if (flip()) expire();
    if (!held({Fault::to_leader, Fault::cut})) {
      while (due(to_leader_, now_)) {
        const Message message = next(to_leader_);
        if (message.kind == Message::write) from_leader_.push_back({Message::commit, latency()});
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
    if (now_ >= heard_ + s_.timeout) outcome_.deleted = std::min(outcome_.deleted, now_);
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
  int claim_end_ = -1;
  bool writing_ = false;
  bool claiming_ = false;
  bool lost_ = false;
  bool disconnected_ = false;
  // Follower.
  bool touched_ = false;
  // Leader.
  int heard_ = 0;
  int next_ping_ = s_.ping_phase;

  std::deque<Message> to_follower_, to_client_, to_leader_, from_leader_;
};

class Scenarios {
 public:
  explicit Scenarios(unsigned seed) : random_(seed) {}

  Scenario next() {
    Scenario scenario;
    scenario.timeout = pick({1500, 2000, 4000});
    scenario.tick = scenario.timeout / pick({2, 4, 10});
    scenario.ping_phase = between(0, scenario.tick / 2);
    scenario.first_write = between(0, 2 * scenario.timeout);
    scenario.extra_writes = between(0, 3) == 0;
    // Faults come at any time, often right after the first write; short ones, long ones, one after the other. A thaw
    // lasts for a round trip at least.
    int begin = scenario.first_write + (between(0, 1) == 0 ? between(-scenario.timeout / 3, scenario.timeout / 2)
                                                           : between(0, 3 * scenario.timeout));
    const int count = between(1, 4);
    for (int i = 0; i < count; ++i) {
      begin = std::max(begin, 1);
      const int length = i + 1 == count ? 10 * scenario.timeout : between(1, scenario.timeout * 11 / 10);
      scenario.faults.push_back({static_cast<Fault::Kind>(between(0, Fault::kinds - 1)), begin, begin + length});
      begin += length + between(10, scenario.timeout);
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
};

struct Tally {
  int deleted = 0;  // Runs in which the node was deleted while it had been held.
  int violated = 0;
  int worst = 0;  // Milliseconds of a claim beyond the deletion.
  std::string example;
};

std::string describe(const Scenario& s, const Outcome& outcome) {
  std::string text = "T=" + std::to_string(s.timeout) + " tick=" + std::to_string(s.tick) +
                     " phase=" + std::to_string(s.ping_phase) + " first=" + std::to_string(s.first_write) +
                     " extra=" + std::to_string(s.extra_writes) + " deleted=" + std::to_string(outcome.deleted) +
                     " claimed=" + std::to_string(outcome.claimed);
  for (const Fault& fault : s.faults) {
    text += " fault" + std::to_string(fault.kind) + "[" + std::to_string(fault.begin) + "," +
            std::to_string(fault.end) + ")";
  }
  return text;
}

template <typename RuleType>
Tally simulate(int runs, unsigned seed) {
  Scenarios scenarios(seed);
  Tally tally;
  for (int i = 0; i < runs; ++i) {
    const Scenario scenario = scenarios.next();
    RuleType rule(scenario.timeout);
    const Outcome outcome = Simulation(scenario, rule, scenarios.seed()).run();
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

constexpr int runs = 2000;
constexpr unsigned seed = 20'240'229;

TEST(LeaseClockSimulationTest, NothingIsClaimedBeyondItsDeletion) {
  const Tally tally = simulate<OurRule>(runs, seed);
  EXPECT_GT(tally.deleted, runs / 4) << "the faults are too mild to prove anything";
  EXPECT_EQ(tally.violated, 0) << "of " << tally.deleted << ", worst " << tally.worst << " ms: " << tally.example;
}

// The same faults find out the rules that look right and are not: so the test above can fail.
TEST(LeaseClockSimulationTest, LastAcknowledgementPlusTimeoutIsUnsafe) {
  EXPECT_GT(simulate<LastAcknowledgement>(runs, seed).violated, 0);
}

TEST(LeaseClockSimulationTest, LastSendTimePlusTimeoutIsUnsafe) {
  EXPECT_GT(simulate<LastSendTime>(runs, seed).violated, 0);
}

}  // namespace
