// Deadlines that are given as a time from now on, however long or short.

#include <chrono>

#include <gtest/gtest.h>
#include <zkclient/types.hpp>

namespace {

using namespace std::chrono_literals;
using zkclient::Deadline;
using Clock = Deadline::Clock;

template <typename Duration>
class DeadlineTest : public ::testing::Test {};
using Durations =
    ::testing::Types<std::chrono::nanoseconds, std::chrono::microseconds, std::chrono::milliseconds,
                     std::chrono::seconds, std::chrono::minutes, std::chrono::hours, std::chrono::days,
                     std::chrono::years, std::chrono::duration<float>, std::chrono::duration<double, std::micro>>;
TYPED_TEST_SUITE(DeadlineTest, Durations, );

TYPED_TEST(DeadlineTest, TheLongestTimeNeverPasses) {
  const auto now = Clock::now();
  EXPECT_GT(*Deadline(TypeParam::max()), now + std::chrono::years(50));
}

TYPED_TEST(DeadlineTest, TheShortestTimeHasPassed) {
  const Deadline deadline(TypeParam::min());
  EXPECT_LE(*deadline, Clock::now());
  EXPECT_LT(*deadline - Clock::now(), 1ns) << "the difference can be worked out";
}

TYPED_TEST(DeadlineTest, TheLongestTimeThatIsOverHasPassed) {
  const Deadline deadline(-TypeParam::max());
  EXPECT_LE(*deadline, Clock::now());
  EXPECT_LT(*deadline - Clock::now(), 1ns);
}

TEST(DeadlineOfATime, IsThatTimeFromNowOn) {
  const auto before = Clock::now();
  const Deadline deadline(1500ms);
  EXPECT_GE(*deadline, before + 1500ms);
  EXPECT_LE(*deadline, Clock::now() + 1500ms);
  EXPECT_GE(*Deadline(std::chrono::duration<double>(1.5)), before + 1500ms);
  const Deadline past(-2ms);
  EXPECT_LE(*past, Clock::now() - 2ms);
}

}  // namespace
