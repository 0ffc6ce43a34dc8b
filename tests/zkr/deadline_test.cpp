// When a command is killed, and when it is not, at random phases of the heartbeat. ZKRECIPES_ROUNDS=number: of freezes,
// and of blips.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <iostream>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <zktesting/environment.hpp>
#include <zktesting/proxy.hpp>

#include "tests/support/lease_judges.hpp"
#include "tests/support/testkit.hpp"
#include "tests/zkr/lease_told.hpp"
#include "tests/zkr/rounds.hpp"
#include "tests/zkr/zkr_process.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using zktesting::Direction;

class ZkrDeadlines : public testing::Test {
 protected:
  Duration up_to(Duration most) {
    return Duration(std::uniform_int_distribution<Duration::rep>(0, most.count())(random_));
  }
  /// Of a path of its own.
  Words lock_through(const zktesting::Proxy& proxy, const Words& options, const std::string& script) {
    Words words{"lock", "/zkr/deadlines-" + std::to_string(++paths_), "--server", proxy.connect_string()};
    words.insert(words.end(), options.begin(), options.end());
    words.emplace_back("--");
    const Words command = puppet(script);
    words.insert(words.end(), command.begin(), command.end());
    return words;
  }

  const unsigned seed_ = testkit::seed();
  std::minstd_rand random_{seed_};
  testkit::Stalls stalls_;
  Folder folder_;
  static inline int paths_ = 0;
};

// --- Freezes --------------------------------------------------------------------------------------------------------

constexpr Duration freezing_timeout = 4s;
constexpr Duration freezing_margin = 1s;  // From KILL to the end of the lease.

/// One call of `zkr` whose network falls silent at some time after its command has begun.
struct Freezing {
  zktesting::Proxy proxy{zktesting::SharedServer::instance().connect_string()};
  std::string log;
  Duration phase{};
  std::unique_ptr<ZkrProcess> zkr;
  Descriptor page;
  std::optional<Instant> due;
  std::optional<Instant> cut_at;

  bool has_begun() const { return std::ifstream(log).peek() != std::ifstream::traits_type::eof(); }
  /// What is to be done now. True: it is over.
  bool step() {
    if (!due && has_begun()) {
      page = page_of(zkr->front());
      due = BootClock::now() + phase;
    }
    if (due && !cut_at && BootClock::now() >= *due) {
      cut_at = BootClock::now();
      proxy.stall(Direction::both);
    }
    return zkr->ended_now() && zkr->lines().ended_now() && zkr->errors().ended_now();
  }
  /// Of the command, and of what it has started.
  Instant last_line() const {
    std::ifstream file(log);
    std::string name;
    std::string process;
    std::string token;
    std::int64_t last = 0;
    for (std::int64_t at = 0; file >> name >> process >> token >> at;)
      last = std::max(last, at);
    return Instant(Duration(last));
  }
};

TEST_F(ZkrDeadlines, KilledBeforeTheEndOfTheLeaseAtAnyPhase) {
  constexpr std::size_t at_a_time = 6;
  const std::size_t wanted = rounds(at_a_time);
  Duration nearest = Duration::max();
  std::size_t not_counted = 0;
  for (std::size_t done = 0; done < wanted; done += at_a_time) {
    std::vector<std::unique_ptr<Freezing>> all;
    for (std::size_t i = done; i < std::min(wanted, done + at_a_time); ++i) {
      auto one = std::make_unique<Freezing>();
      one->log = folder_ / std::to_string(i);
      one->phase = up_to(freezing_timeout);
      one->zkr = std::make_unique<ZkrProcess>(
          lock_through(one->proxy, {"--session-timeout", "4s", "--kill-margin", "1s"},
                       "ignore 15 fork [ setsid ignore 15 log " + one->log + " of-its-own 10000000 ] log " + one->log +
                           " command 10000000"));
      all.push_back(std::move(one));
    }
    EXPECT_TRUE(eventually([&all] {
      bool over = true;
      for (const auto& one : all)
        over = one->step() && over;
      return over;
    }));
    for (const auto& one : all) {
      EXPECT_EQ(one->zkr->end(), exited(79));
      const Duration left = valid_until_on_page(one->page) - one->last_line();
      const auto from = one->last_line() - freezing_timeout;
      // Front and keeper kill it, at different times: a machine that keeps both from it shows it to others, too.
      if (left <= Duration::zero() &&
          Duration(stalls_.worst(from.time_since_epoch().count(), testkit::boot_ns())) > freezing_margin / 8) {
        ++not_counted;
        continue;
      }
      EXPECT_GT(left, Duration::zero()) << "seed " << seed_ << ", phase " << one->phase / 1ms << " ms";
      nearest = std::min(nearest, left);
    }
  }
  std::cout << wanted << " freezes, the latest line " << nearest / 1ms << " ms before the end of its lease; "
            << not_counted << " on a machine that stood still, not counted\n";
}

// --- Blips ----------------------------------------------------------------------------------------------------------

/// Returns how long it was, by the clock.
Duration blip(zktesting::Proxy& proxy, int kind, Duration length) {
  constexpr std::array directions{Direction::both, Direction::to_client, Direction::to_server};
  const Instant begun = BootClock::now();
  if (kind == 3) {
    proxy.cut();
    return BootClock::now() - begun;
  }
  const Direction direction = directions.at(static_cast<std::size_t>(kind));
  proxy.stall(direction);
  (void)eventually([end = begun + length] { return BootClock::now() >= end; });
  proxy.unstall(direction);
  return BootClock::now() - begun;
}

TEST_F(ZkrDeadlines, Z15BlipsShorterThanTheFreeOutageCostNothing) {
  constexpr Duration timeout = 10s;
  constexpr Duration between_heartbeats = timeout / 6;
  const Duration free = free_outage(timeout);
  const std::size_t wanted = rounds(3);
  zktesting::Proxy proxy(zktesting::SharedServer::instance().connect_string());
  std::unique_ptr<ZkrProcess> zkr;
  std::optional<LeaseTold> told;
  std::size_t counted = 0;
  std::size_t not_counted = 0;
  while (counted < wanted) {
    if (!zkr) {
      zkr = std::make_unique<ZkrProcess>(
          lock_through(proxy, {"--session-timeout", "10s"}, "signals env ZKR_SOCKET read exit 0"));
      told.emplace(zkr->lines().await("ZKR_SOCKET=").value_or(""));
      ASSERT_TRUE(told->await_steady(timeout));
    }
    const Instant begun = BootClock::now();
    testkit::let_age(std::chrono::duration_cast<std::chrono::milliseconds>(up_to(between_heartbeats)));
    const Duration outage = blip(proxy, static_cast<int>(random_() % 4), up_to(free * 3 / 4));
    const bool kept = told->await_proof(between_heartbeats);
    const Duration stood_still(stalls_.worst(begun.time_since_epoch().count(), testkit::boot_ns()));
    if (outage + stood_still < free) {
      ++counted;
      ASSERT_TRUE(kept) << "seed " << seed_ << ", an outage of " << outage / 1ms << " ms";
      continue;
    }
    ++not_counted;  // It was no blip, for whoever got the processor so late.
    zkr.reset();
  }
  zkr->type("go\n");
  EXPECT_EQ(zkr->lines().rest(), Words{"line go"});
  EXPECT_EQ(zkr->end(), exited(0));
  std::cout << counted << " blips; " << not_counted << " on a machine that stood still, not counted\n";
}

}  // namespace
}  // namespace zkr
