#include <zkrecipes/priority_queue.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <random>
#include <thread>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class PriorityQueueTest : public testkit::RecipeTest {
 protected:
  PriorityQueueTest() : RecipeTest("/queue") {}
};

TEST_F(PriorityQueueTest, LowerFirstThenFirstIn) {
  constexpr std::int32_t lowest = std::numeric_limits<std::int32_t>::min();
  constexpr std::int32_t highest = std::numeric_limits<std::int32_t>::max();
  for (const QueueLayout& layout : {QueueLayout::curator(), QueueLayout::standard()}) {
    PriorityQueue queue(client(), layout.style() == QueueLayout::Style::standard ? "/standard" : "/queue",
                        {.layout = layout});
    queue.push("last", highest, patient());
    queue.push_all({"zero-1", "zero-2"}, 0, patient());
    queue.push("one", 1, patient());
    queue.push("minus", -1, patient());
    EXPECT_TRUE(queue.try_push("zero-3", 0, patient()));
    queue.push("first", lowest, patient());
    const std::vector<QueueItem> all = queue.list();
    ASSERT_EQ(all.size(), 7u);
    EXPECT_EQ(all.front().priority, lowest);
    EXPECT_EQ(queue.peek(), "first");
    for (const char* item : {"first", "minus", "zero-1", "zero-2", "zero-3", "one", "last"})
      EXPECT_EQ(queue.pop(patient()), item);
    EXPECT_FALSE(queue.try_pop());
  }
}

// What was pushed before the call comes before what an older list knows of.
TEST_F(PriorityQueueTest, NoInversionByStaleLists) {
  PriorityQueue queue(client(), "/queue");
  Client other = make_client();
  PriorityQueue producer(other, "/queue");
  for (int i = 0; i < 50; ++i)
    producer.push("low", 100, patient());
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(queue.pop(patient()), "low");
    producer.push("high", -i, patient());
    EXPECT_EQ(queue.pop(patient()), "high") << i;
  }
}

TEST_F(PriorityQueueTest, NoInversionBesideManyCallers) {
  PriorityQueue queue(client(), "/queue");
  Client other = make_client();
  PriorityQueue producer(other, "/queue");
  std::vector<std::string> backlog(400, "low");
  producer.push_all(backlog, 9, patient());
  std::atomic<bool> stop{false};
  std::atomic<int> popped{0};
  std::jthread busy([&] {
    while (!stop && popped < 300) {
      if (queue.try_claim(patient())) ++popped;  // Claims, and gives back at once.
    }
  });
  for (int i = 0; i < 30; ++i) {
    producer.push("high", 1, patient());
    Claim claim = queue.claim(patient());
    while (claim.data() != "high") {
      // The other thread may have it for the moment; then it comes back.
      claim = {};
      claim = queue.claim(patient());
    }
    claim.commit(patient());
  }
  stop = true;
}

// What comes back keeps its priority and its place, no matter which consumer has listed before.
TEST_F(PriorityQueueTest, GivenBackKeepsPriorityAndPlace) {
  PriorityQueue queue(client(), "/queue");
  Client other = make_client();
  PriorityQueue second(other, "/queue");
  queue.push("urgent", 1, patient());
  queue.push("usual-1", 5, patient());
  queue.push("usual-2", 5, patient());
  queue.push("usual-3", 5, patient());
  Claim urgent = queue.claim(patient());
  EXPECT_EQ(urgent.priority(), 1);
  Claim first = second.claim(patient());
  EXPECT_EQ(first.data(), "usual-1");
  urgent.give_back(patient());
  EXPECT_EQ(second.pop(patient()), "urgent");
  first.give_back(patient());
  EXPECT_EQ(queue.pop(patient()), "usual-1");
  EXPECT_EQ(second.pop(patient()), "usual-2");
}

TEST_F(PriorityQueueTest, RandomOrder) {
  PriorityQueue queue(client(), "/queue");
  std::mt19937 random(3);
  queue.push("first", 0, patient());
  EXPECT_EQ(queue.pop(patient()), "first");
  std::vector<std::pair<std::int32_t, int>> expected;
  std::atomic<int> done{0};
  for (int i = 0; i < 200; ++i) {
    const auto priority = static_cast<std::int32_t>(random()) >> 28;
    expected.emplace_back(priority, i);
    queue.async_push(
        std::to_string(i), priority, [&](Result<void> pushed) { done += pushed ? 1 : 0; }, patient());
  }
  ASSERT_TRUE(testkit::eventually([&] { return done == 200; }));
  std::sort(expected.begin(), expected.end());
  for (const auto& [priority, number] : expected) {
    SCOPED_TRACE(priority);
    EXPECT_EQ(queue.pop(patient()), std::to_string(number));
  }
}

TEST_F(PriorityQueueTest, KazoosPriorities) {
  PriorityQueue queue(client(), "/queue", {.layout = QueueLayout::kazoo()});
  Queue plain(client(), "/queue", {.layout = QueueLayout::kazoo()});
  queue.push("b", 200, patient());
  plain.push("a", patient());
  queue.push("first", 0, patient());
  EXPECT_EQ(error_of([&] { queue.push("x", -1); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.push("x", 1000); }), Errc::invalid_argument);
  for (const char* item : {"first", "a", "b"})
    EXPECT_EQ(plain.pop(patient()), item);
}

TEST_F(PriorityQueueTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { PriorityQueue(client(), "/queue", {.layout = QueueLayout::zookeeper()}); }),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { PriorityQueue(client(), "/queue", {.prefetch = 1}); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
