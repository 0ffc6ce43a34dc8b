#include "recipes/coherent/shard_lease.hpp"

#include <gtest/gtest.h>

#include "zkclient/detail/lease/lease_clock.hpp"

namespace zkrecipes::detail {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using Time = ShardLease::TimePoint;

constexpr Time lease_start{seconds(1000)};
constexpr Time far = Time::max();

TEST(ShardLease, CountsItsTermFromTheSending) {
  const ShardLease lease(7, lease_start, seconds(1));
  EXPECT_EQ(lease.valid_until(far), lease_start + seconds(1));
  EXPECT_TRUE(lease.valid(lease_start + milliseconds(999), far));
  EXPECT_FALSE(lease.valid(lease_start + seconds(1), far));
}

TEST(ShardLease, EndsWithWhatIsCertainOfTheSession) {
  const ShardLease lease(7, lease_start, seconds(1));
  EXPECT_EQ(lease.valid_until(lease_start + milliseconds(300)), lease_start + milliseconds(300));
  EXPECT_FALSE(lease.valid(lease_start, Time{}));
}

TEST(ShardLease, IsRenewedByACheckOfItsEpochOnly) {
  ShardLease lease(7, lease_start, seconds(1));
  lease.renew(8, lease_start + milliseconds(500), lease_start + milliseconds(600));
  EXPECT_EQ(lease.valid_until(far), lease_start + seconds(1));
  lease.renew(7, lease_start + milliseconds(500), lease_start + milliseconds(600));
  EXPECT_EQ(lease.valid_until(far), lease_start + milliseconds(1500));
}

TEST(ShardLease, AnOlderAnswerDoesNotShortenIt) {
  ShardLease lease(7, lease_start + milliseconds(500), seconds(1));
  lease.renew(7, lease_start, lease_start + milliseconds(600));
  EXPECT_EQ(lease.valid_until(far), lease_start + milliseconds(1500));
}

TEST(ShardLease, StaysOverOnceItHasRunOut) {
  ShardLease lease(7, lease_start, seconds(1));
  lease.renew(7, lease_start + milliseconds(999), lease_start + seconds(1));
  EXPECT_FALSE(lease.valid(lease_start + seconds(1), far));
}

TEST(ShardLease, StaysOverOnceItIsRevoked) {
  ShardLease lease(7, lease_start, seconds(1));
  lease.revoke();
  EXPECT_FALSE(lease.valid(lease_start, far));
  lease.renew(7, lease_start, lease_start);
  EXPECT_FALSE(lease.valid(lease_start, far));
}

TEST(ShardLease, NoneIsNeverValid) {
  ShardLease lease;
  EXPECT_FALSE(lease.valid(lease_start, far));
  lease.renew(-1, lease_start, lease_start);
  EXPECT_FALSE(lease.valid(lease_start, far));
}

TEST(ShardLease, AWriterWaitsForLongerThanASlowClockMakesTheTerm) {
  for (const ShardLease::Duration term :
       {milliseconds(1), milliseconds(1167), milliseconds(17500), milliseconds(3600000)}) {
    const ShardLease::Duration slow = term + term / 1001;  // A thousandth slower: it takes so long for `term`.
    EXPECT_GT(patience_for(term), slow);
    EXPECT_LT(patience_for(term), term + term / 100 + milliseconds(20));
  }
}

// What the lease clock promises after a write of a session whose server has the largest tick for its timeout.
TEST(ShardLease, TheTermIsNoLongerThanTheSessionCertainlyLives) {
  for (const seconds timeout : {seconds(4), seconds(10), seconds(30)}) {
    zkclient::detail::LeaseClock clock(timeout, timeout / 2);
    Time now = lease_start;
    clock.connected(now, now);
    for (int beat = 0; beat < 40; ++beat) {
      now += clock.interval();
      clock.acknowledged(now, now + milliseconds(1));
    }
    EXPECT_GE(now + default_term(timeout), clock.valid_until()) << timeout.count();
    EXPECT_LE(now + default_term(timeout) - clock.valid_until(), clock.margin()) << timeout.count();
  }
}

}  // namespace
}  // namespace zkrecipes::detail
