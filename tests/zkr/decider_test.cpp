// When the command under a lease is ended, and in which order: the table of the deadlines, every situation at every
// instant that matters, and long random histories.

#include "tools/zkr/run/decider.hpp"

#include <gtest/gtest.h>

#include <csignal>

#include <algorithm>
#include <array>
#include <functional>
#include <optional>
#include <random>
#include <vector>

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr Instant start_of_time{1000h};

Lease held_lease(Duration timeout, Instant proven_at, bool first_third = false) {
  Lease lease;
  lease.state = LeaseState::held;
  lease.timeout = timeout;
  lease.granted_at = proven_at;
  lease.proven_at = proven_at;
  lease.valid_until = valid_until(proven_at, timeout, first_third);
  return lease;
}

// ---- The table ---------------------------------------------------------------------------------------------------

struct Row {
  Duration timeout;
  Duration free_from;  // An outage of that length costs nothing, in the worst case
  Duration free_to;    // and in the best.
  Duration term;
  Duration kill;
  Duration end;
  Duration first_term;  // In the first third of T after a grant.
  Duration first_kill;
};

constexpr std::array table{
    Row{10s, 1167ms, 2833ms, 2833ms, 5333ms, 5583ms, 2500ms, 2833ms},
    Row{30s, 3500ms, 8500ms, 8500ms, 16000ms, 16750ms, 7500ms, 8500ms},
    Row{40s, 4667ms, 11333ms, 11333ms, 21333ms, 22333ms, 10000ms, 11333ms},
};

Duration rounded(Duration exact) { return std::chrono::round<std::chrono::milliseconds>(exact); }

TEST(LeaseDeadlines, AreThoseOfTheTable) {
  for (const Row& row : table) {
    SCOPED_TRACE(row.timeout.count());
    const Lease lease = held_lease(row.timeout, start_of_time);
    const Deadlines usual = deadlines(lease, {});
    EXPECT_EQ(rounded(usual.term_at - start_of_time), row.term);
    EXPECT_EQ(rounded(usual.kill_at - start_of_time), row.kill);
    EXPECT_EQ(rounded(lease.valid_until - start_of_time), row.end);
    EXPECT_EQ(rounded(usual.term_at - start_of_time), row.free_to);
    EXPECT_EQ(rounded(usual.term_at - start_of_time - row.timeout / 6), row.free_from);
    const Deadlines first = deadlines(held_lease(row.timeout, start_of_time, true), {});
    EXPECT_EQ(rounded(first.term_at - start_of_time), row.first_term);
    EXPECT_EQ(rounded(first.kill_at - start_of_time), row.first_kill);
  }
}

TEST(LeaseDeadlines, LeaveMoreTimeIfLessGraceIsWanted) {
  const RunOptions options{.grace = 2s};
  const Deadlines at = deadlines(held_lease(30s, start_of_time), options);
  EXPECT_EQ(at.term_at - start_of_time, 14s);
  EXPECT_EQ(at.term_at - start_of_time - 30s / 6, 9s);
  EXPECT_EQ(at.kill_at - start_of_time, 16s);
}

TEST(LeaseDeadlines, OfAFreezeNeedOneSecond) {
  const RunOptions options{.on_doubt = OnDoubt::freeze};
  const Deadlines at = deadlines(held_lease(30s, start_of_time), options);
  EXPECT_EQ(at.kill_at - at.term_at, 1s);
}

TEST(LeaseDeadlines, KeepTheirOrderForAnyTimeoutAndOption) {
  for (Duration timeout = 500ms; timeout < 90s; timeout += 250ms) {
    for (const Duration wanted : {Duration(0s), Duration(1s), Duration(10s), Duration(1h)}) {
      for (const Duration margin : {Duration(50ms), Duration(250ms), Duration(2s)}) {
        for (const bool first : {false, true}) {
          const RunOptions options{.grace = wanted, .kill_margin = margin};
          const Lease lease = held_lease(timeout, start_of_time, first);
          const Deadlines at = deadlines(lease, options);
          const Instant front = front_kills_at(lease.valid_until, timeout, options);
          EXPECT_LE(at.term_at, at.kill_at);
          EXPECT_EQ(at.kill_at, lease.valid_until - margin);
          EXPECT_LT(at.kill_at, front);
          EXPECT_LT(front, lease.valid_until);
        }
      }
    }
  }
}

// ---- Every situation ---------------------------------------------------------------------------------------------

struct Case {
  Facts facts;
  Past past;
  RunOptions options;
};

constexpr std::array all_causes{Cause::none,          Cause::command_ended, Cause::lost,       Cause::revoked,
                                Cause::held_too_long, Cause::stopped,       Cause::front_gone, Cause::not_acquired};

std::vector<RunOptions> all_options() {
  std::vector<RunOptions> all;
  for (const OnDoubt doubt : {OnDoubt::term, OnDoubt::freeze})
    for (const Descendants descendants : {Descendants::kill, Descendants::wait, Descendants::leave})
      for (const auto hold : {std::optional<Duration>(), std::optional<Duration>(5s)})
        for (const int revoke : {0, SIGTERM})
          all.push_back({.max_hold = hold, .on_doubt = doubt, .descendants = descendants, .on_revoke = revoke});
  return all;
}

std::vector<Lease> all_leases(Duration timeout) {
  std::vector<Lease> all;
  for (const LeaseState state :
       {LeaseState::waiting, LeaseState::held, LeaseState::lost, LeaseState::failed, LeaseState::gone}) {
    for (const bool first : {false, true}) {
      for (const bool revoke : {false, true}) {
        if (first && state != LeaseState::held) continue;
        Lease lease = held_lease(timeout, start_of_time, first);
        lease.state = state;
        lease.revoke_asked = revoke;
        all.push_back(lease);
      }
    }
  }
  return all;
}

std::vector<Instant> all_instants(const Lease& lease, const RunOptions& options) {
  const Deadlines at = deadlines(lease, options);
  if (lease.state != LeaseState::held) return {at.term_at - 1ns, at.kill_at, lease.valid_until + lease.timeout};
  std::vector<Instant> all{lease.proven_at, lease.valid_until + lease.timeout};
  for (const Instant edge : {at.term_at, at.kill_at, lease.valid_until, lease.granted_at + 5s})
    for (const Duration beside : {Duration(-1ns), Duration(0ns), Duration(1ns)})
      all.push_back(edge + beside);
  return all;
}

/// All that may have been done, and some that may not.
std::vector<Past> all_pasts(Instant now) {
  std::vector<Past> all;
  for (const bool started : {false, true})
    for (const Cause cause : all_causes)
      for (const auto term : {std::optional<Instant>(), std::optional(now - 1s), std::optional(now - 9s)})
        for (const int kills : {0, 3})
          for (const bool frozen : {false, true})
            for (const auto released : {std::optional<Instant>(), std::optional(now), std::optional(now - 6s)}) {
              if (!started && (term || kills > 0 || frozen)) continue;
              if (cause == Cause::none && (term || kills > 0 || released)) continue;
              if (started && (cause == Cause::stopped || cause == Cause::not_acquired)) continue;
              if (!started && (cause == Cause::command_ended || cause == Cause::held_too_long)) continue;
              all.push_back({.started = started,
                             .cause = cause,
                             .term_sent = term,
                             .kills = kills,
                             .frozen = frozen,
                             .released = released,
                             .front_told = {}});
            }
  return all;
}

/// What runs, if the command was started or not.
std::vector<Facts> all_facts(const Facts& known, bool started) {
  std::vector<Facts> all;
  for (const bool front_gone : {false, true}) {
    for (const int stop : {0, SIGTERM}) {
      Facts facts = known;
      facts.front_gone = front_gone;
      facts.stop_signal = stop;
      if (!started) {
        all.push_back(facts);
        continue;
      }
      facts.tree_empty = false;
      for (const Child child : {Child::running, Child::ended}) {
        facts.child = child;
        all.push_back(facts);
      }
      facts.tree_empty = true;
      all.push_back(facts);
    }
  }
  return all;
}

/// How many there were.
long for_each_case(const std::function<void(const Case&, const Decision&)>& check) {
  long count = 0;
  for (const RunOptions& options : all_options())
    for (const Lease& lease : all_leases(30s))
      for (const Instant now : all_instants(lease, options))
        for (const Past& past : all_pasts(now)) {
          if (past.frozen && options.on_doubt != OnDoubt::freeze) continue;
          for (const Facts& facts : all_facts({.now = now, .lease = lease, .child_ending = {}}, past.started)) {
            if (past.cause == Cause::command_ended && facts.child != Child::ended) continue;
            check({facts, past, options}, decide(facts, past, options));
            if (++count % 1'000'000 == 0 && testing::Test::HasFailure()) return count;
          }
        }
  return count;
}

bool needs_lease(const Case& at) { return at.past.started && !at.facts.tree_empty && !at.past.released; }
bool left_alone(const Case& at) {
  return at.options.descendants == Descendants::leave && at.facts.child == Child::ended;
}
bool over(const Case& at) {
  return at.facts.lease.state != LeaseState::held || at.facts.now >= deadlines(at.facts.lease, at.options).kill_at;
}
bool in_doubt(const Case& at) {
  return at.facts.lease.state == LeaseState::held && at.facts.now >= deadlines(at.facts.lease, at.options).term_at;
}

struct Rule {
  const char* name;
  bool (*broken)(const Case&, const Decision&);
};

const std::vector<Rule>& rules() {
  static const std::vector<Rule> all{
      {"what runs at kill_at, or without a lease, is killed",
       [](const Case& at, const Decision& now) { return needs_lease(at) && over(at) && now.act != Act::kill; }},
      {"nobody who waits sleeps beyond kill_at",
       [](const Case& at, const Decision& now) {
         const Instant kill_at = deadlines(at.facts.lease, at.options).kill_at;
         return needs_lease(at) && now.act == Act::wait && (!now.look_at || *now.look_at > kill_at);
       }},
      {"what is waited for lies ahead",
       [](const Case& at, const Decision& now) { return now.look_at && *now.look_at <= at.facts.now; }},
      {"nothing is released while something runs, unless it is to be left",
       [](const Case& at, const Decision& now) {
         return now.act == Act::release && !at.facts.tree_empty && !left_alone(at);
       }},
      {"what is left is left only while the lease is certain",
       [](const Case& at, const Decision& now) {
         return now.act == Act::release && !at.facts.tree_empty && (over(at) || at.past.frozen);
       }},
      {"nothing is released twice",
       [](const Case& at, const Decision& now) { return now.act == Act::release && at.past.released; }},
      {"an empty tree is released",
       [](const Case& at, const Decision& now) {
         return at.past.started && at.facts.tree_empty && !at.past.released && now.act != Act::release;
       }},
      {"nothing is started without a certain lease",
       [](const Case& at, const Decision& now) { return now.act == Act::run && (over(at) || in_doubt(at)); }},
      {"nothing is started after a stop signal, or for nobody, or when the lease is wanted back",
       [](const Case& at, const Decision& now) {
         const bool wanted = at.facts.lease.revoke_asked && at.options.on_revoke != 0;
         return now.act == Act::run && (at.facts.stop_signal != 0 || at.facts.front_gone || wanted);
       }},
      {"nothing is started twice, nor after all has come to an end",
       [](const Case& at, const Decision& now) {
         return now.act == Act::run && (at.past.started || at.past.released || at.past.cause != Cause::none);
       }},
      {"nothing is signalled that does not run",
       [](const Case& at, const Decision& now) {
         const bool signals =
             now.act == Act::term || now.act == Act::kill || now.act == Act::freeze || now.act == Act::thaw;
         return signals && !needs_lease(at);
       }},
      {"TERM is sent once",
       [](const Case& at, const Decision& now) { return now.act == Act::term && at.past.term_sent; }},
      {"what was told to end does not get away",
       [](const Case& at, const Decision& now) { return at.past.cause != Cause::none && now.cause == Cause::none; }},
      {"a lost lease stays lost",
       [](const Case& at, const Decision& now) { return at.past.cause == Cause::lost && now.cause != Cause::lost; }},
      {"doubt ends the tree, if it is not frozen",
       [](const Case& at, const Decision& now) {
         return needs_lease(at) && in_doubt(at) && !over(at) && !at.past.term_sent && at.past.kills == 0 &&
                !at.past.frozen && !left_alone(at) && now.act != Act::term && now.act != Act::freeze;
       }},
      {"only doubt freezes, and only if that is wanted",
       [](const Case& at, const Decision& now) {
         return now.act == Act::freeze && (at.past.frozen || !in_doubt(at) || at.options.on_doubt != OnDoubt::freeze);
       }},
      {"what is frozen goes on when the doubt is over, and no sooner",
       [](const Case& at, const Decision& now) {
         const bool may = at.past.frozen && needs_lease(at) && !over(at) && at.past.kills == 0;
         return (now.act == Act::thaw) != (may && !in_doubt(at));
       }},
      {"what is frozen is not told anything",
       [](const Case& at, const Decision& now) { return now.act == Act::term && at.past.frozen; }},
      {"the front is let go after the release, or if nothing was acquired",
       [](const Case& at, const Decision& now) {
         const bool nothing = at.facts.lease.state == LeaseState::failed || at.facts.lease.state == LeaseState::gone;
         return now.act == Act::exit && !at.past.released && !(nothing && !at.past.started);
       }},
      {"the front is not let go before the lease is given back, for as long as it has patience",
       [](const Case& at, const Decision& now) {
         const bool gone = at.facts.lease.state == LeaseState::failed || at.facts.lease.state == LeaseState::gone;
         return now.act == Act::exit && !gone && at.past.released && at.facts.now - *at.past.released < 1s;
       }},
      {"the front does not wait for ever",
       [](const Case& at, const Decision& now) {
         return at.past.released && at.facts.now - *at.past.released >= 5s && now.act != Act::exit;
       }},
  };
  return all;
}

TEST(Decider, KeepsItsRulesInEverySituationAtEveryInstant) {
  std::vector<long> broken(rules().size());
  const long count = for_each_case([&](const Case& at, const Decision& now) {
    for (std::size_t i = 0; i < rules().size(); ++i) {
      if (!rules()[i].broken(at, now) || broken[i]++ > 0) continue;
      const Deadlines times = deadlines(at.facts.lease, at.options);
      ADD_FAILURE() << rules()[i].name << ": lease " << static_cast<int>(at.facts.lease.state) << ", "
                    << (at.facts.now - times.term_at).count() << " ns after TERM, "
                    << (at.facts.now - times.kill_at).count() << " ns after KILL, child "
                    << static_cast<int>(at.facts.child) << ", tree empty " << at.facts.tree_empty << ", cause "
                    << static_cast<int>(at.past.cause) << ", term sent " << at.past.term_sent.has_value() << ", kills "
                    << at.past.kills << ", frozen " << at.past.frozen << ", released " << at.past.released.has_value()
                    << ", descendants " << static_cast<int>(at.options.descendants) << ", on doubt "
                    << static_cast<int>(at.options.on_doubt) << ": act " << static_cast<int>(now.act);
    }
  });
  EXPECT_GT(count, 1'000'000);
}

// ---- Histories ---------------------------------------------------------------------------------------------------

/// A world in which the keeper looks when it wants to and when something happens, and never else.
class History {
 public:
  explicit History(std::uint64_t seed) : chance_(seed) {
    const auto all = all_options();
    options_ = all[chance_() % all.size()];
    facts_.lease.timeout = timeout_;
    facts_.lease.failure = 75;
    facts_.now = start_of_time;
    obeys_ = one_in(2);
  }

  void run() {
    for (int i = 0; i < 400 && !quit_; ++i) {
      ask();
      if (!quit_) pass_time();
    }
  }

  int runs() const { return runs_; }
  int releases() const { return releases_; }
  int exits() const { return exits_; }
  bool quit() const { return quit_; }

 private:
  bool one_in(unsigned number) { return chance_() % number == 0; }
  Instant kill_at() const { return deadlines(facts_.lease, options_).kill_at; }
  bool something_runs() const { return past_.started && !facts_.tree_empty && !past_.released; }

  void ask() {
    for (int i = 0; i < 20; ++i) {
      const Decision decision = decide(facts_, past_, options_);
      const Past before = past_;
      past_ = after(past_, facts_, decision);
      perform(decision, before);
      look_at_ = decision.look_at;
      if (quit_ || decision.act == Act::wait || decision.look_at) return;
    }
    ADD_FAILURE() << "the keeper never rests";
  }

  void perform(const Decision& decision, const Past& before) {
    if (decision.act == Act::run) {
      ++runs_;
      facts_.child = Child::running;
      facts_.tree_empty = false;
    } else if (decision.act == Act::kill) {
      EXPECT_TRUE(something_runs());
      end_tree({.code = 0, .signal = SIGKILL}, one_in(3));
    } else if (decision.act == Act::term && obeys_) {
      end_tree({.code = 0, .signal = SIGTERM}, one_in(2));
    } else if (decision.act == Act::release) {
      ++releases_;
      EXPECT_TRUE(before.cause != Cause::lost || decision.cause == Cause::lost);
    } else if (decision.act == Act::exit) {
      ++exits_;
      EXPECT_EQ(decision.ending, expected_ending(decision.cause)) << static_cast<int>(decision.cause);
    }
    quit_ = decision.act == Act::quit;
  }

  Ending expected_ending(Cause cause) const {
    switch (cause) {
      case Cause::command_ended: return facts_.child_ending;
      case Cause::lost: return {.code = 79, .signal = 0};
      case Cause::revoked: return {.code = 80, .signal = 0};
      case Cause::held_too_long: return {.code = 81, .signal = 0};
      case Cause::stopped: return {.code = 0, .signal = SIGTERM};
      case Cause::not_acquired: return {.code = facts_.lease.failure, .signal = 0};
      default: return {.code = 70, .signal = 0};
    }
  }

  void end_tree(const Ending& ending, bool survivors) {
    if (facts_.child == Child::running) facts_.child_ending = ending;
    facts_.child = Child::ended;
    facts_.tree_empty = !survivors;
  }

  /// To what comes first: the instant that the keeper waits for, or something that happens.
  void pass_time() {
    const Duration next_event = Duration(chance_() % static_cast<std::uint64_t>((timeout_ / 4).count()));
    const bool keeper_first = look_at_ && (*look_at_ - facts_.now <= next_event || one_in(3));
    facts_.now = keeper_first ? *look_at_ : facts_.now + next_event;
    if (keeper_first && one_in(2)) facts_.now += Duration(chance_() % 1000);  // It is scheduled a bit late.
    if (something_runs() && facts_.lease.state == LeaseState::held) expect_in_time();
    if (!keeper_first) happen();
  }

  void expect_in_time() {
    if (past_.kills > 0) return;
    EXPECT_LE(look_at_.value_or(Instant::max()), kill_at());
  }

  void happen() {
    switch (chance_() % 12) {
      case 0: return grant();
      case 1:
      case 2:
      case 3:
      case 4: return prove();
      case 5: return lose();
      case 6: facts_.lease.revoke_asked = facts_.lease.revoke_asked || one_in(4); return;
      case 7: facts_.front_gone = facts_.front_gone || one_in(4); return;
      case 8: return end_command();
      case 9: return answer_release();
      case 10: facts_.tree_empty = facts_.tree_empty || facts_.child == Child::ended; return;
      default:
        if (facts_.child != Child::running && one_in(4)) facts_.stop_signal = SIGTERM;
        return;
    }
  }

  void grant() {
    if (facts_.lease.state == LeaseState::waiting && !past_.released)
      facts_.lease = held_lease(timeout_, facts_.now, true);
  }
  void prove() {
    if (facts_.lease.state != LeaseState::held || facts_.now >= facts_.lease.valid_until) return;
    facts_.lease.proven_at = facts_.now;
    facts_.lease.valid_until = valid_until(facts_.now, timeout_, facts_.now < facts_.lease.granted_at + timeout_ / 3);
  }
  void lose() {
    if (one_in(6) && facts_.lease.state == LeaseState::held) facts_.lease.state = LeaseState::lost;
    if (one_in(6) && facts_.lease.state == LeaseState::waiting) facts_.lease.state = LeaseState::failed;
  }
  void end_command() {
    if (facts_.child == Child::running && !past_.frozen) end_tree({.code = 7, .signal = 0}, one_in(2));
  }
  void answer_release() {
    if (past_.released && one_in(2)) facts_.lease.state = LeaseState::gone;
  }

  std::mt19937_64 chance_;
  const Duration timeout_ = 10s;
  RunOptions options_;
  bool obeys_ = true;
  Facts facts_;
  Past past_;
  std::optional<Instant> look_at_;
  bool quit_ = false;
  int runs_ = 0;
  int releases_ = 0;
  int exits_ = 0;
};

TEST(Decider, KeepsItsRulesInRandomHistories) {
  int finished = 0;
  int with_command = 0;
  for (std::uint64_t seed = 0; seed < 20'000 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    History history(seed);
    history.run();
    EXPECT_LE(history.runs(), 1);
    EXPECT_LE(history.releases(), 1);
    EXPECT_LE(history.exits(), 1);
    EXPECT_TRUE(!history.quit() || history.exits() == 1);
    finished += history.quit() ? 1 : 0;
    with_command += history.runs();
  }
  EXPECT_GT(finished, 10'000);
  EXPECT_GT(with_command, 5'000);
}

// ---- Some by name ------------------------------------------------------------------------------------------------

struct Running {
  Running() {
    facts.lease = held_lease(30s, start_of_time);
    facts.now = start_of_time;
    facts.child = Child::running;
    facts.tree_empty = false;
    past.started = true;
  }
  Decision at(Duration since_proof) {
    facts.now = start_of_time + since_proof;
    const Decision decision = decide(facts, past, options);
    past = after(past, facts, decision);
    return decision;
  }
  Facts facts;
  Past past;
  RunOptions options;
};

TEST(Decider, ProofAfterTermDoesNotUndoIt) {
  Running running;
  EXPECT_EQ(running.at(8500ms).act, Act::term);
  running.facts.lease.proven_at += 9s;
  running.facts.lease.valid_until += 9s;
  EXPECT_EQ(running.at(9s).look_at, start_of_time + 16s);  // KILL when it was to come.
  EXPECT_EQ(running.at(16s).act, Act::kill);
  running.facts.child = Child::ended;
  running.facts.tree_empty = true;
  EXPECT_EQ(running.at(16s).act, Act::release);
  running.facts.lease.state = LeaseState::gone;
  EXPECT_EQ(running.at(16s).ending, (Ending{.code = 79, .signal = 0}));
}

TEST(Decider, FreezeIsThawedIfTheLeaseIsProven) {
  Running running;
  running.options.on_doubt = OnDoubt::freeze;
  EXPECT_EQ(running.at(15s).act, Act::freeze);
  EXPECT_EQ(running.at(15s).look_at, start_of_time + 16s);
  running.facts.lease.proven_at += 15s;
  running.facts.lease.valid_until += 15s;
  EXPECT_EQ(running.at(15500ms).act, Act::thaw);
  EXPECT_EQ(running.at(15500ms).look_at, start_of_time + 30s);
}

/// Its command has ended; it waits for those of the other members.
Running member_that_has_ended() {
  Running running;
  running.options.ends_together = true;
  running.facts.child = Child::ended;
  running.facts.tree_empty = true;
  EXPECT_EQ(running.at(1s).act, Act::release);
  running.facts.lease.proven_at = start_of_time + 1h;
  EXPECT_EQ(running.at(1h).act, Act::wait);
  return running;
}

TEST(Decider, FrontOfAMemberWaitsForTheOthersUnlessItIsTold) {
  Running running = member_that_has_ended();
  const Past waiting = running.past;
  running.facts.stop_signal = SIGTERM;
  EXPECT_EQ(running.at(1h).act, Act::exit);
  running.facts.stop_signal = 0;
  running.past = waiting;
  running.facts.told_to_end = true;
  EXPECT_EQ(running.at(1h).act, Act::exit) << "it was told while its command ran";
  running.past = waiting;
  EXPECT_EQ(running.at(1500ms).look_at, start_of_time + 2s);
}

TEST(Decider, MemberWhoseFrontIsDeadWaitsForNobody) {
  Running running = member_that_has_ended();
  running.facts.front_gone = true;
  EXPECT_EQ(running.at(1h).act, Act::exit);
  EXPECT_EQ(running.at(1h).look_at, start_of_time + 1h + 30s);
  EXPECT_EQ(running.at(1h + 30s).act, Act::quit);
}

TEST(Decider, MemberWithoutAServerWaitsNoLongerThanOthers) {
  Running running;
  running.options.ends_together = true;
  running.facts.child = Child::ended;
  running.facts.tree_empty = true;
  EXPECT_EQ(running.at(1s).act, Act::release);
  running.facts.lease.proven_at = start_of_time + 10s;
  EXPECT_EQ(running.at(20s).look_at, start_of_time + 10s + 7500ms + 5s) << "until the next proof is overdue";
  EXPECT_EQ(running.at(22500ms).act, Act::exit);
}

TEST(Decider, SilenceEndsTheCommand) {
  Running running;
  running.past.runs_since = start_of_time;
  running.options.watchdog = 5s;
  EXPECT_EQ(running.at(1s).look_at, start_of_time + 5s);
  running.facts.lease.alive_at = start_of_time + 2s;
  EXPECT_EQ(running.at(5s).look_at, start_of_time + 7s);
  EXPECT_EQ(running.at(7s).act, Act::term);
  EXPECT_EQ(running.past.cause, Cause::hung);
}

TEST(Decider, SilenceOfWhatIsFrozenIsNoSilence) {
  Running running;
  running.past.runs_since = start_of_time;
  running.options.on_doubt = OnDoubt::freeze;
  running.options.watchdog = 15s + 100ms;
  EXPECT_EQ(running.at(15s).act, Act::freeze);
  EXPECT_EQ(running.at(15200ms).act, Act::wait);
  running.facts.lease.proven_at += 15s;
  running.facts.lease.valid_until += 15s;
  EXPECT_EQ(running.at(15500ms).act, Act::thaw);
  EXPECT_EQ(running.at(15500ms).look_at, start_of_time + 30s);
  EXPECT_EQ(running.past.cause, Cause::none);
}

TEST(Decider, SilenceOfWhatHasEndedIsNoSilence) {
  Running running;
  running.options.watchdog = 1s;
  running.options.descendants = Descendants::wait;
  running.facts.child = Child::ended;
  EXPECT_EQ(running.at(2s).act, Act::wait);
}

/// Why a command gets TERM at start_of_time, or when its lease is in doubt.
struct Reason {
  Cause cause;
  void (*give)(Running& running);
};

const std::array reasons{
    Reason{Cause::lost, [](Running&) {}},
    Reason{Cause::revoked, [](Running& running) { running.facts.lease.revoke_asked = true; }},
    Reason{Cause::held_too_long, [](Running& running) { running.options.max_hold = 0s; }},
    Reason{Cause::hung,
           [](Running& running) {
             running.options.watchdog = 0s;
             running.past.runs_since = start_of_time;
           }},
    Reason{Cause::stopped,
           [](Running& running) {
             running.facts.stop_signal = SIGTERM;
             running.facts.drained_at = start_of_time;
           }},
};

/// As the guide says it.
Duration promised_grace(Duration timeout, std::optional<Duration> wanted) {
  const Duration fortieth = timeout / 40;
  const Duration most = timeout / 3 - std::max<Duration>(50ms, fortieth) - std::max<Duration>(250ms, fortieth);
  return std::min(wanted.value_or(timeout / 4), most);
}

TEST(Decider, Z14KillComesExactlyOneGraceAfterTerm) {
  for (const Duration timeout : {4s, 10s, 30s, 40s}) {
    for (const std::optional<Duration> wanted : {std::optional<Duration>(), std::optional<Duration>(1ns),
                                                 std::optional<Duration>(300ms), std::optional<Duration>(1h)}) {
      for (const Reason& reason : reasons) {
        Running running;
        running.facts.lease = held_lease(timeout, start_of_time);
        running.options.grace = wanted;
        reason.give(running);
        const bool in_doubt = reason.cause == Cause::lost;
        const Duration term =
            in_doubt ? deadlines(running.facts.lease, running.options).term_at - start_of_time : Duration::zero();
        const Duration kill = term + promised_grace(timeout, wanted);
        EXPECT_EQ(running.at(term).act, Act::term);
        EXPECT_EQ(running.past.cause, reason.cause);
        EXPECT_EQ(running.at(term).look_at, start_of_time + kill);
        EXPECT_EQ(running.at(kill - 1ns).act, Act::wait);
        EXPECT_EQ(running.at(kill).act, Act::kill);
      }
    }
  }
}

TEST(Decider, DescendantsAreWaitedForButNotForEver) {
  Running running;
  running.options.descendants = Descendants::wait;
  running.facts.child = Child::ended;
  EXPECT_EQ(running.at(1s).act, Act::wait);
  running.facts.stop_signal = SIGTERM;
  EXPECT_EQ(running.at(2s).act, Act::term);
  EXPECT_EQ(running.at(2s).look_at, start_of_time + 4s);
  EXPECT_EQ(running.at(4s).act, Act::kill);
}

TEST(Decider, LeftoversAreAskedThenKilled) {
  Running running;
  running.facts.child = Child::ended;
  EXPECT_EQ(running.at(1s).act, Act::term);
  EXPECT_EQ(running.at(1s).look_at, start_of_time + 3s);
  EXPECT_EQ(running.at(3s).act, Act::kill);
}

TEST(Decider, CommandsOfADeadFrontHaveOneSecond) {
  Running running;
  running.facts.front_gone = true;
  EXPECT_EQ(running.at(1s).act, Act::term);
  EXPECT_EQ(running.at(1s).look_at, start_of_time + 2s);
}

TEST(Decider, WhatMayEndItsWorkIsToldWhenItsTimeIsOver) {
  Running running;
  running.facts.stop_signal = SIGTERM;
  running.facts.drained_at = start_of_time + 4s;
  EXPECT_EQ(running.at(1s).act, Act::wait);
  EXPECT_EQ(running.at(1s).look_at, start_of_time + 4s);
  EXPECT_EQ(running.at(4s).act, Act::term);
  EXPECT_EQ(running.at(4s).cause, Cause::stopped);
  EXPECT_EQ(running.at(4s).look_at, start_of_time + 11500ms);
  EXPECT_EQ(running.at(11500ms).act, Act::kill);
  running.facts.child = Child::ended;
  running.facts.tree_empty = true;
  EXPECT_EQ(running.at(11600ms).act, Act::release);
  running.facts.lease.state = LeaseState::gone;
  EXPECT_EQ(running.at(11700ms).ending, (Ending{.code = 0, .signal = SIGTERM}));
}

TEST(Decider, WhatMayEndItsWorkEndsAsItWouldHave) {
  Running running;
  running.facts.stop_signal = SIGTERM;
  running.facts.drained_at = start_of_time + 4s;
  running.facts.child = Child::ended;
  running.facts.child_ending = {.code = 3, .signal = 0};
  running.facts.tree_empty = true;
  EXPECT_EQ(running.at(5s).act, Act::release);
  EXPECT_EQ(running.past.cause, Cause::command_ended) << "although its time was over";
}

TEST(Decider, ReleaseIsWaitedForAsLongAsItMayTake) {
  Running running;
  running.options.release_patience = 1h;
  running.facts.child = Child::ended;
  running.facts.tree_empty = true;
  EXPECT_EQ(running.at(1s).act, Act::release);
  EXPECT_EQ(running.at(10s).look_at, start_of_time + 1s + 1h);
}

TEST(Decider, ReleaseIsNotWaitedForLongIfWeAreToEnd) {
  for (int why = 0; why < 3; ++why) {
    Running running;
    running.options.release_patience = 1h;
    running.facts.child = Child::ended;
    running.facts.tree_empty = true;
    EXPECT_EQ(running.at(1s).act, Act::release);
    if (why == 0) running.facts.stop_signal = SIGTERM;
    running.facts.told_to_end = why == 1;
    running.facts.front_gone = why == 2;
    EXPECT_EQ(running.at(2s).look_at, start_of_time + 6s);
    EXPECT_EQ(running.at(6s).act, Act::exit);
  }
}

TEST(Decider, RevokeSendsTheSignalThatIsWanted) {
  Running running;
  running.options.on_revoke = SIGUSR1;
  running.facts.lease.revoke_asked = true;
  const Decision decision = running.at(1s);
  EXPECT_EQ(decision.act, Act::term);
  EXPECT_EQ(decision.signal, SIGUSR1);
  EXPECT_EQ(decision.cause, Cause::revoked);
}

TEST(Decider, GraceThatIsTooLongIsCutAlsoWhenTheLeaseIsProvenAllTheTime) {
  Running running;
  running.options.grace = 1h;
  running.facts.lease.revoke_asked = true;
  EXPECT_EQ(running.at(1s).act, Act::term);
  EXPECT_EQ(running.at(1s).look_at, start_of_time + 9500ms);
}

}  // namespace
}  // namespace zkr
