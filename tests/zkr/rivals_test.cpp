// Contenders of one path whose sessions time out after 4 s and after 40 s, in a made world: what zkr decides, a server
// that gives nodes away as early as it may, connections that break, and keepers that hang.

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <random>
#include <vector>

#include "tools/zkr/run/decider.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

/// One call of zkr after the other, and the session of each.
struct Rival {
  explicit Rival(Duration its_timeout) : timeout(its_timeout) {}

  bool runs() const { return past.started && !facts.tree_empty; }
  bool is_connected() const { return reaches_server && hears_server; }
  void begin_again() {
    facts = {};
    facts.lease.timeout = timeout;
    past = {};
    page_until = {};
  }
  /// Whatever was started ends.
  void kill_all() {
    if (facts.child == Child::running) facts.child = Child::ended;
    facts.tree_empty = past.started;
  }

  Duration timeout;
  RunOptions options{};
  Facts facts{};
  Past past{};
  bool heeds_term = true;
  int node = 0;  // Its place in the queue; 0: it has none.
  int terms = 0;
  Instant heard{};  // By the server, which counts from then on.
  Instant next_heartbeat{};
  Instant page_until{};  // The end of the lease as the front knows it.
  Instant hangs_until{};
  bool reaches_server = true;
  bool hears_server = true;
  Instant network_changes{};
};

class RivalWorld {
 public:
  explicit RivalWorld(std::uint64_t seed) : chance_(seed) {
    for (const Duration timeout : {4s, 40s, 4s, 40s}) {
      rivals_.emplace_back(timeout);
      begin(rivals_.back());
    }
  }

  void run(Duration length) {
    for (const Instant end = now_ + length; now_ < end && !testing::Test::HasFailure(); now_ = next_instant()) {
      for (Rival& rival : rivals_)
        step(rival);
      const auto running = std::count_if(rivals_.begin(), rivals_.end(), [](const Rival& one) { return one.runs(); });
      ASSERT_LE(running, 1);
    }
  }
  /// Of those with this timeout.
  int terms(Duration timeout) const {
    int count = 0;
    for (const Rival& rival : rivals_)
      count += rival.timeout == timeout ? rival.terms : 0;
    return count;
  }
  int expiries_of_holders() const { return expiries_of_holders_; }

 private:
  bool one_in(std::uint64_t number) { return chance_() % number == 0; }
  Duration up_to(Duration most) { return Duration(chance_() % static_cast<std::uint64_t>(most.count())); }

  void begin(Rival& rival) {
    rival.begin_again();
    rival.heeds_term = !one_in(3);
    rival.options = {.on_doubt = one_in(3) ? OnDoubt::freeze : OnDoubt::term};
    if (one_in(3)) rival.options.grace = up_to(rival.timeout / 3);
  }
  Instant next_instant() {
    Instant next = now_ + 1ms + up_to(40ms);
    for (const Rival& rival : rivals_) {
      if (!rival.runs()) continue;
      for (const Instant due : {front_due(rival), deadlines(rival.facts.lease, rival.options).kill_at}) {
        if (due > now_) next = std::min(next, due);
      }
    }
    return next;
  }
  static Instant front_due(const Rival& rival) {
    return front_kills_at(rival.page_until, rival.timeout, rival.options);
  }

  void step(Rival& rival) {
    change_network(rival);
    expire(rival);
    beat(rival);
    queue(rival);
    grant(rival);
    if (rival.runs() && now_ >= front_due(rival)) rival.kill_all();
    if (rival.runs() && one_in(400)) rival.kill_all();  // By itself.
    if (now_ < rival.hangs_until) return;
    if (one_in(300)) rival.hangs_until = now_ + up_to(rival.timeout * 3 / 2);
    keep(rival);
  }

  void change_network(Rival& rival) {
    if (now_ < rival.network_changes) return;
    const bool breaks = rival.is_connected() && one_in(2);
    rival.reaches_server = !breaks || one_in(3);
    rival.hears_server = !breaks || one_in(3);
    rival.network_changes = now_ + up_to(breaks ? rival.timeout * 3 / 2 : Duration(20s));
  }
  /// As early as it may: no server counts to the end of its tick here.
  void expire(Rival& rival) {
    if (rival.node == 0 || now_ < rival.heard + rival.timeout) return;
    EXPECT_FALSE(rival.runs()) << "T = " << rival.timeout / 1s << " s: it runs, and its node is gone";
    if (rival.facts.lease.state != LeaseState::waiting) ++expiries_of_holders_;
    rival.node = 0;
    if (rival.facts.lease.state == LeaseState::held) rival.facts.lease.state = LeaseState::lost;
  }
  void beat(Rival& rival) {
    if (rival.node == 0 || now_ < rival.next_heartbeat) return;
    rival.next_heartbeat = now_ + rival.timeout / 6;
    if (rival.reaches_server) rival.heard = now_;
    Lease& lease = rival.facts.lease;
    if (!rival.is_connected() || lease.state != LeaseState::held || now_ >= lease.valid_until) return;
    lease.proven_at = now_;
    lease.valid_until = valid_until(now_, rival.timeout, now_ < lease.granted_at + rival.timeout / 3);
  }
  void queue(Rival& rival) {
    if (rival.node != 0 || rival.facts.lease.state != LeaseState::waiting || !rival.is_connected()) return;
    rival.node = ++newest_node_;
    rival.heard = now_;
    rival.next_heartbeat = now_ + rival.timeout / 6;
  }
  void grant(Rival& rival) {
    if (rival.node == 0 || rival.facts.lease.state != LeaseState::waiting || !rival.is_connected()) return;
    for (const Rival& other : rivals_) {
      if (other.node != 0 && other.node < rival.node) return;
    }
    Lease& lease = rival.facts.lease;
    lease.state = LeaseState::held;
    lease.granted_at = lease.proven_at = rival.heard = now_;
    lease.valid_until = valid_until(now_, rival.timeout, true);
    ++rival.terms;
  }

  void keep(Rival& rival) {
    rival.facts.now = now_;
    const Lease& lease = rival.facts.lease;
    if (lease.state == LeaseState::held) rival.page_until = lease.valid_until;
    if (rival.past.released) answer_release(rival);
    for (int i = 0; i < 20; ++i) {
      const Decision decision = decide(rival.facts, rival.past, rival.options);
      rival.past = after(rival.past, rival.facts, decision);
      perform(rival, decision);
      if (decision.act == Act::quit) return begin(rival);
      if (decision.act == Act::wait || decision.look_at) return;
    }
    ADD_FAILURE() << "the keeper never rests";
  }
  static void perform(Rival& rival, const Decision& decision) {
    if (decision.act == Act::run) {
      rival.facts.child = Child::running;
      rival.facts.tree_empty = false;
    }
    if (decision.act == Act::kill || (decision.act == Act::term && rival.heeds_term)) rival.kill_all();
    EXPECT_FALSE(decision.act == Act::release && rival.runs()) << "it is given back while it runs";
  }
  /// A node that is given back goes when the server hears of it, or with its session.
  static void answer_release(Rival& rival) {
    if (rival.is_connected()) rival.node = 0;
    if (rival.node == 0) rival.facts.lease.state = LeaseState::gone;
  }

  std::mt19937_64 chance_;
  Instant now_{1000h};
  std::vector<Rival> rivals_;
  int newest_node_ = 0;
  int expiries_of_holders_ = 0;
};

TEST(Decider, Z33RivalsOfOtherSessionTimeoutsNeverRunTogether) {
  int brief = 0;
  int calm = 0;
  int expiries = 0;
  for (std::uint64_t seed = 0; seed < 40 && !testing::Test::HasFailure(); ++seed) {
    SCOPED_TRACE(seed);
    RivalWorld world(seed);
    world.run(15min);
    brief += world.terms(4s);
    calm += world.terms(40s);
    expiries += world.expiries_of_holders();
  }
  EXPECT_GT(brief, 300);
  EXPECT_GT(calm, 100);
  EXPECT_GT(expiries, 20);
}

}  // namespace
}  // namespace zkr
