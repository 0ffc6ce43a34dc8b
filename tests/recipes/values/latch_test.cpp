#include <zkrecipes/latch.hpp>

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class LatchTest : public testkit::RecipeTest {
 protected:
  LatchTest() : RecipeTest("/latches/start") {}
  Latch make(std::int64_t count = 3, std::int64_t generation = 1) {
    return Latch(client(), path(), count, {.generation = generation});
  }
  std::string data() { return client().get(path(), patient()).data; }
};

TEST_F(LatchTest, OpensWhenItIsCountedDown) {
  Latch latch = make();
  EXPECT_EQ(latch.path(), path());
  EXPECT_EQ(latch.generation(), 1);
  EXPECT_EQ(latch.left(patient()), 3);
  EXPECT_FALSE(client().exists(path())) << "nobody has counted";
  EXPECT_FALSE(latch.wait_for(0s));
  auto waiting = in_thread([&] { latch.wait(patient()); });
  EXPECT_EQ(latch.count_down(1, patient()), 2);
  EXPECT_EQ(data(), "generation=1 count=3 left=2");
  EXPECT_FALSE(latch.wait_for(0s));
  EXPECT_EQ(make().count_down(2, patient()), 0);
  result_of(waiting);
  EXPECT_EQ(client().get(path()).stat.ephemeral_owner, 0);
}

TEST_F(LatchTest, LateComersPass) {
  make(1).count_down(1, patient());
  Latch late = make(1);
  late.wait(patient());
  EXPECT_TRUE(late.wait_for(0s));
  EXPECT_TRUE(late.wait_for(1h));
  EXPECT_EQ(late.left(patient()), 0);
}

TEST_F(LatchTest, AnotherClientCountsMeanwhile) {
  constexpr int clients = 4;
  constexpr int counts = 10;
  std::vector<std::future<std::vector<std::int64_t>>> counting;
  for (int i = 0; i < clients; ++i) {
    counting.push_back(in_thread([this] {
      Client own = make_client();
      Latch latch(own, path(), clients * counts);
      std::vector<std::int64_t> left;
      for (int j = 0; j < counts; ++j)
        left.push_back(latch.count_down(1, patient()));
      return left;
    }));
  }
  make(clients * counts).wait(patient());
  std::set<std::int64_t> seen;
  for (auto& one : counting) {
    for (const std::int64_t left : result_of(one))
      seen.insert(left);
  }
  EXPECT_EQ(seen.size(), static_cast<std::size_t>(clients * counts)) << "each number was somebody's";
}

TEST_F(LatchTest, MoreIsCountedThanIsLeft) {
  Latch latch = make(2);
  EXPECT_EQ(latch.count_down(std::numeric_limits<std::int64_t>::max(), patient()), 0);
  EXPECT_EQ(latch.count_down(1, patient()), 0);
  EXPECT_EQ(data(), "generation=1 count=2 left=0");
}

// A waiter of a generation passes when a later one has begun, however closed that is.
TEST_F(LatchTest, CountOfAGenerationThatIsOver) {
  Latch first = make(1);
  Latch second = make(5, 2);
  first.count_down(1, patient());
  EXPECT_EQ(second.left(patient()), 5);
  EXPECT_EQ(second.count_down(1, patient()), 4);
  first.wait(patient());
  EXPECT_EQ(first.left(patient()), 0);
  EXPECT_EQ(first.count_down(1, patient()), 0);
  EXPECT_EQ(make(9).count_down(9, patient()), 0) << "how it was counted is forgotten";
  EXPECT_EQ(data(), "generation=2 count=5 left=4");
  EXPECT_FALSE(second.wait_for(0s));
}

// Else waiters of the second one would pass although nobody has counted it.
TEST_F(LatchTest, AGenerationBeforeHasNotBegun) {
  Latch first = make(1);
  Latch second = make(5, 2);
  Latch third = make(1, 3);
  EXPECT_EQ(error_of([&] { second.count_down(1, patient()); }), Errc::not_available);
  EXPECT_FALSE(client().exists(path(), patient()));
  first.count_down(1, patient());
  EXPECT_EQ(error_of([&] { third.count_down(1, patient()); }), Errc::not_available);
  EXPECT_EQ(data(), "generation=1 count=1 left=0");
  EXPECT_EQ(second.count_down(5, patient()), 0);
  EXPECT_EQ(third.count_down(1, patient()), 0);
  client().set(path(), "generation=7 count=1 left=0");
  EXPECT_EQ(make(2, 8).count_down(1, patient()), 1) << "an operator has said where it goes on";
}

TEST_F(LatchTest, TheGenerationBeforeIsNotOpen) {
  Latch first = make(2);
  Latch second = make(1, 2);
  first.count_down(1, patient());
  try {
    second.count_down(1, patient());
    FAIL() << "it was counted";
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::not_available);
    EXPECT_NE(std::string(error.what()).find("generation 1 is not open, and 1 are left"), std::string::npos)
        << error.what();
  }
  EXPECT_EQ(data(), "generation=1 count=2 left=1");
  auto waiting = in_thread([&] { second.wait(patient()); });
  first.count_down(1, patient());
  EXPECT_EQ(second.count_down(1, patient()), 0);
  result_of(waiting);
}

TEST_F(LatchTest, ObjectsDifferInTheirCount) {
  make(3).count_down(1, patient());
  Latch other = make(4);
  EXPECT_EQ(error_of([&] { other.count_down(1, patient()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { other.wait(patient()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)other.wait_for(0s); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)other.left(patient()); }), Errc::invalid_argument);
  EXPECT_EQ(data(), "generation=1 count=3 left=2");
}

TEST_F(LatchTest, TheNodeHoldsNoLatch) {
  client().ensure(path(), CreateMode::persistent);
  Latch latch = make(1);
  EXPECT_EQ(latch.left(patient()), 1) << "an empty node is a latch that nobody has counted down";
  client().set(path(), "something");
  EXPECT_EQ(error_of([&] { latch.count_down(1, patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { latch.wait(patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { (void)latch.left(patient()); }), Errc::foreign_node);
  EXPECT_EQ(data(), "something");
  client().set(path(), "");
  EXPECT_EQ(latch.count_down(1, patient()), 0);
}

TEST_F(LatchTest, NodeDeletedByHand) {
  Latch latch = make(2);
  latch.count_down(1, patient());
  Client own = make_client();  // It has no other watch.
  auto waiting = in_thread([&] { Latch(own, path(), 2).wait(patient()); });
  if (has_control()) {
    ASSERT_TRUE(testkit::watch_appears(server(), own.connect(patient()).id(), prefix().str() + path().str()));
  }
  client().remove(path());
  EXPECT_EQ(latch.left(patient()), 2);
  EXPECT_EQ(latch.count_down(1, patient()), 1);
  EXPECT_EQ(latch.count_down(1, patient()), 0);
  result_of(waiting);
}

TEST_F(LatchTest, BadArgumentsAreRefusedBeforeAnythingIsSent) {
  EXPECT_EQ(error_of([&] { make(0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make(-1); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make(1, 0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Latch(client(), "/", 1); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { Latch(client(), path(), 1, {.max_marker_age = 0ms}); }), Errc::invalid_argument);
  Latch latch = make();
  for (const std::int64_t by : {std::int64_t{0}, std::int64_t{-1}, std::numeric_limits<std::int64_t>::min()}) {
    EXPECT_EQ(error_of([&] { latch.count_down(by, patient()); }), Errc::invalid_argument);
    EXPECT_EQ(error_of([&] { latch.async_count_down(by, [](Result<std::int64_t>) {}); }), Errc::invalid_argument);
  }
  EXPECT_FALSE(client().exists(path()));
}

TEST_F(LatchTest, NothingIsLeftAtTheServer) {
  {
    Latch latch = make(1);
    EXPECT_FALSE(latch.wait_for(1ms));
    EXPECT_EQ(latch.count_down(1, patient()), 0);
    latch.wait(patient());
  }
  EXPECT_TRUE(remain(0, path().parent() / "_c_writes"));
  expect_no_watch_left();
}

}  // namespace
}  // namespace zkrecipes
