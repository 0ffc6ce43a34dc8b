#include <zkrecipes/delay_queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>

#include <zkclient/error.hpp>

#include "recipes/queues/due_time.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using WallClock = std::chrono::system_clock;

class DelayQueueTest : public testkit::RecipeTest {
 protected:
  DelayQueueTest() : RecipeTest("/queue") {}
  static WallClock::time_point in(std::chrono::nanoseconds time) {
    return WallClock::now() + std::chrono::duration_cast<WallClock::duration>(time);
  }
  static std::string claim_and_commit(DelayQueue& queue) {
    Claim claim = queue.claim(patient());
    claim.commit(patient());
    return claim.data();
  }
};

TEST_F(DelayQueueTest, EarliestFirstThenFirstIn) {
  for (const QueueLayout& layout : {QueueLayout::curator(), QueueLayout::standard()}) {
    DelayQueue queue(client(), layout.style() == QueueLayout::Style::standard ? "/standard" : "/queue",
                     {.layout = layout});
    queue.push("third", in(-1min), patient());
    queue.push("never", WallClock::time_point::max(), patient());
    queue.push_all({"first-1", "first-2"}, WallClock::time_point(), patient());
    queue.push("second", in(-1h), patient());
    EXPECT_TRUE(queue.try_push("later", in(1h), patient()));
    EXPECT_EQ(queue.peek(), "first-1");
    for (const char* item : {"first-1", "first-2", "second", "third"})
      EXPECT_EQ(queue.pop(patient()), item);
    EXPECT_EQ(queue.try_pop(), std::nullopt);
    EXPECT_EQ(queue.peek(), std::nullopt);
    EXPECT_FALSE(queue.try_claim());
    EXPECT_EQ(queue.size(), 2U);
  }
}

TEST_F(DelayQueueTest, ListTellsWhenItemsAreDue) {
  DelayQueue queue(client(), "/queue");
  const auto due = std::chrono::ceil<std::chrono::milliseconds>(in(1h));
  queue.push("later", due, patient());
  queue.push("never", WallClock::time_point::max(), patient());
  const std::vector<QueueItem> all = queue.list();
  ASSERT_EQ(all.size(), 2U);
  EXPECT_EQ(all.front().not_before, due);
  EXPECT_GT(all.back().not_before, in(24h * 365 * 200));
}

// By the clock of this process, which is the producer's as well.
TEST_F(DelayQueueTest, NoItemComesBeforeItsTime) {
  DelayQueue queue(client(), "/queue");
  const WallClock::time_point start = WallClock::now();
  const auto due = [&](int number) { return start + std::chrono::milliseconds(50 * number); };
  for (const int number : {3, 1, 2})
    queue.push(std::to_string(number), due(number), patient());
  for (const int number : {1, 2, 3}) {
    const std::string item = number == 2 ? claim_and_commit(queue) : queue.pop(patient());
    EXPECT_GE(WallClock::now(), due(number));
    EXPECT_EQ(item, std::to_string(number));
  }
  EXPECT_EQ(queue.size(), 0U);
}

// The producer's clock is an hour behind the consumer's, and an hour ahead of it.
TEST_F(DelayQueueTest, TheConsumersClockDecides) {
  DelayQueue queue(client(), "/queue");
  queue.push("its producer meant in a minute", in(1min - 1h), patient());
  queue.push("its producer meant at once", in(1h), patient());
  EXPECT_EQ(queue.pop(patient()), "its producer meant in a minute");
  EXPECT_EQ(queue.try_pop(), std::nullopt);
}

TEST_F(DelayQueueTest, DeadlineOrStopRequestBeforeItIsDue) {
  DelayQueue queue(client(), "/queue");
  queue.push("later", in(1h), patient());
  EXPECT_EQ(queue.try_pop_for(20ms), std::nullopt);
  EXPECT_FALSE(queue.try_claim_for(20ms));
  EXPECT_EQ(error_of([&] { (void)queue.pop({.deadline = SteadyClock::now() + 20ms}); }), Errc::deadline_exceeded);
  std::stop_source stop;
  auto waiting = in_thread([&] { return error_of([&] { (void)queue.claim({.stop = stop.get_token()}); }); });
  stop.request_stop();
  EXPECT_EQ(result_of(waiting), Errc::cancelled);
  EXPECT_EQ(queue.size(), 1U);
}

TEST_F(DelayQueueTest, ClaimedAndGivenBack) {
  DelayQueue queue(client(), "/queue", {.max_deliveries = 2});
  queue.push("due", in(-1min), patient());
  queue.push("later", in(1h), patient());
  for (const int deliveries : {1, 2}) {
    Claim claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), "due");
    EXPECT_EQ(claim.deliveries(), deliveries);
    claim.give_back(patient());
  }
  EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
  DelayQueue dead(client(), "/queue-dead");
  EXPECT_EQ(dead.pop(patient()), "due") << "of a time that has passed";
  EXPECT_EQ(queue.size(), 1U);
}

TEST_F(DelayQueueTest, TimeInANameThatIsNoNumber) {
  DelayQueue queue(client(), "/queue");
  client().create("/queue", "");
  for (const char* name : {"queue-||0000000001", "queue-|x|0000000002", "queue-|-1|0000000003", "queue-|7|",
                           "queue-|FFFFFFFFFFFFFFFF|0000000004", "queue-|7", "queue-1000000050000000005"})
    client().create(path() / name, "");
  EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
  EXPECT_TRUE(queue.list().empty());
}

// The path of its claim would be longer than any path may be.
TEST_F(DelayQueueTest, TimeInANameOfTooManyDigits) {
  DelayQueue queue(client(), "/queue");
  client().create("/queue", "");
  const std::string around = prefix().str() + "/queue/queue-||0000000001";
  const std::string one("\0\1\0\1\1\0\0\0\1a\2", 11);  // As Curator writes it.
  client().create("/queue/queue-|" + std::string(Path::max_size - around.size(), '0') + "|0000000001", one);
  EXPECT_FALSE(queue.try_claim(patient()));
  EXPECT_TRUE(queue.list().empty());
}

// As Curator puts back what its consumer could not digest.
TEST_F(DelayQueueTest, ItemsWithoutATimeAreDueAtOnce) {
  DelayQueue queue(client(), "/queue");
  Queue plain(client(), "/queue", {.layout = QueueLayout::curator()});
  queue.push("due", in(-1h), patient());
  plain.push("put back", patient());
  EXPECT_EQ(queue.pop(patient()), "put back");
  EXPECT_EQ(queue.pop(patient()), "due");
}

TEST_F(DelayQueueTest, NamesAreCurators) {
  DelayQueue queue(client(), "/queue");
  queue.push("a", WallClock::time_point(std::chrono::milliseconds(0x19A3C5F7E00)), patient());
  queue.push("b", WallClock::time_point(std::chrono::nanoseconds(1)), patient());
  std::vector<std::string> all = names();
  std::sort(all.begin(), all.end());
  EXPECT_EQ(all, (std::vector<std::string>{"queue-|00000001|0000000001", "queue-|19A3C5F7E00|0000000000"}));
}

TEST_F(DelayQueueTest, CapacityCountsWhatIsNotDue) {
  DelayQueue queue(client(), "/queue", {.capacity = 1});
  queue.push("later", in(1h), patient());
  EXPECT_FALSE(queue.try_push("now", WallClock::now(), patient()));
}

TEST_F(DelayQueueTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { DelayQueue(client(), "/queue", {.layout = QueueLayout::zookeeper()}); }),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { DelayQueue(client(), "/queue", {.layout = QueueLayout::kazoo()}); }),
            Errc::invalid_argument);
  DelayQueue queue(client(), "/queue");
  const WallClock::time_point before(-1ms);
  EXPECT_EQ(error_of([&] { queue.push("x", before); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.push_all({"x"}, WallClock::time_point::min()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.async_push("x", before, [](Result<void>) {}); }), Errc::invalid_argument);
  EXPECT_FALSE(client().exists("/queue"));
}

TEST(DueTime, TheClockIsLookedAtEachMinute) {
  using detail::pause_until_due;
  EXPECT_EQ(pause_until_due(1500, 1000), 500ms);
  EXPECT_EQ(pause_until_due(std::numeric_limits<std::int64_t>::max(), 0), 1min);
  EXPECT_LE(pause_until_due(1000, 1500), 0ms);
}

TEST(DueTime, IsRoundedUp) {
  using namespace detail;
  EXPECT_EQ(to_due_ms(WallTime(std::chrono::nanoseconds(1))), 1);
  EXPECT_EQ(to_due_ms(WallTime(1ms)), 1);
  EXPECT_EQ(to_due_ms(WallTime(std::chrono::nanoseconds(-1))), 0);
  EXPECT_EQ(from_due_ms(7), WallTime(7ms));
  EXPECT_LE(from_due_ms(std::numeric_limits<std::int64_t>::max()), WallTime::max());
  EXPECT_GT(to_due_ms(WallTime::max()), to_due_ms(WallTime::max() - 1h));
}

}  // namespace
}  // namespace zkrecipes
