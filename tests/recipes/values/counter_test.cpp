#include <zkrecipes/counter.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>

#include "recipes/values/last_writer.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using Changes = std::vector<CounterChange>;

class CounterTest : public testkit::RecipeTest {
 protected:
  CounterTest() : RecipeTest("/counters/hits") {}
  Counter make(CounterOptions options = {}) { return Counter(client(), path(), std::move(options)); }
  std::string data() { return client().get(path(), patient()).data; }
  /// As another program would.
  void write(const std::string& data) { client().set(path(), data); }
};

constexpr auto decimal = CounterEncoding::kazoo;

TEST_F(CounterTest, CountsFromZero) {
  Counter counter = make();
  EXPECT_EQ(counter.path(), path());
  EXPECT_EQ(counter.get(patient()), 0);
  EXPECT_FALSE(client().exists(path()));
  EXPECT_EQ(counter.add(5, patient()), (CounterChange{0, 5}));
  EXPECT_EQ(counter.add(-7, patient()), (CounterChange{5, -2}));
  EXPECT_EQ(counter.add(0, patient()), (CounterChange{-2, -2}));
  EXPECT_EQ(counter.get(patient()), -2);
  EXPECT_EQ(client().get(path()).stat.version, 1) << "adding 0 writes nothing";
  EXPECT_EQ(client().get(path()).stat.ephemeral_owner, 0);
}

TEST_F(CounterTest, TheNodeHoldsTheNumberAsTheOthersWriteIt) {
  make().set(-2, patient());
  EXPECT_EQ(data(), std::string(7, '\xff') + '\xfe');
  client().remove(path());
  make({.encoding = CounterEncoding::curator_int32}).set(258, patient());
  EXPECT_EQ(data(), std::string("\0\0\1\2", 4));
  client().remove(path());
  make({.encoding = decimal}).set(-17, patient());
  EXPECT_EQ(data(), "-17");
}

// V86: what is there wins, whatever its version.
TEST_F(CounterTest, ANumberThatIsThereIsWhereItBegins) {
  client().ensure("/counters", zkclient::CreateMode::persistent);
  client().create(path(), "40");
  Counter counter = make({.encoding = decimal});
  EXPECT_FALSE(counter.compare_set(0, 7, patient()));
  EXPECT_EQ(counter.add(2, patient()), (CounterChange{40, 42}));
}

TEST_F(CounterTest, AnEmptyNodeIsZero) {
  client().ensure("/counters", zkclient::CreateMode::persistent);
  for (const CounterEncoding encoding : {CounterEncoding::curator_int64, CounterEncoding::curator_int32, decimal}) {
    client().create(path(), "");
    Counter counter = make({.encoding = encoding});
    EXPECT_EQ(counter.get(patient()), 0);
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{0, 1}));
    client().remove(path());
  }
}

TEST_F(CounterTest, ComparesAndSets) {
  Counter counter = make();
  EXPECT_FALSE(counter.compare_set(1, 2, patient()));
  EXPECT_TRUE(counter.compare_set(0, 2, patient()));
  EXPECT_FALSE(counter.compare_set(0, 3, patient()));
  EXPECT_TRUE(counter.compare_set(2, 2, patient()));
  EXPECT_EQ(counter.get(patient()), 2);
  counter.set(9, patient());
  EXPECT_TRUE(counter.compare_set(9, -9, patient()));
  EXPECT_EQ(counter.get(patient()), -9);
}

TEST_F(CounterTest, AFunctionDecides) {
  Counter counter = make();
  const auto take_one = [](std::int64_t number) { return number > 0 ? std::optional(number - 1) : std::nullopt; };
  EXPECT_EQ(counter.update(take_one, patient()), (CounterChange{0, 0}));
  counter.set(2, patient());
  EXPECT_EQ(counter.update(take_one, patient()), (CounterChange{2, 1}));
  EXPECT_EQ(counter.update([](std::int64_t number) { return number * 10; }, patient()), (CounterChange{1, 10}));
  const auto me = std::this_thread::get_id();
  counter.update(
      [me](std::int64_t number) {
        EXPECT_EQ(std::this_thread::get_id(), me);
        return number;
      },
      patient());
  EXPECT_EQ(counter.get(patient()), 10);
}

TEST_F(CounterTest, AFunctionThatThrowsChangesNothing) {
  Counter counter = make({.encoding = CounterEncoding::curator_int32});
  const auto fails = [](std::int64_t) -> std::optional<std::int64_t> { throw std::runtime_error("no idea"); };
  const auto refuses = [](std::int64_t) -> std::optional<std::int64_t> { throw Error(Errc::not_held, "mine", "/x"); };
  const auto beyond = [](std::int64_t) { return std::numeric_limits<std::int64_t>::max(); };
  EXPECT_THROW(counter.update(fails, patient()), std::runtime_error);
  EXPECT_EQ(error_of([&] { counter.update(refuses, patient()); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { counter.update(beyond, patient()); }), Errc::invalid_argument);
  Box<Result<CounterChange>> told;
  const auto handler = [&](Result<CounterChange> result) { told.put(std::move(result)); };
  counter.async_update(fails, handler, patient());
  const Result<CounterChange> failed = told.take();
  EXPECT_EQ(failed.error().errc(), Errc::invalid_argument);
  EXPECT_EQ(failed.error().detail(), "no idea");
  counter.async_update(refuses, handler, patient());
  EXPECT_EQ(told.take().code(), Errc::not_held);
  counter.async_update(beyond, handler, patient());
  EXPECT_EQ(told.take().code(), Errc::invalid_argument);
  EXPECT_FALSE(client().exists(path()));
  EXPECT_EQ(error_of([&] { counter.update(nullptr, patient()); }), Errc::invalid_argument);
}

TEST_F(CounterTest, ResultBeyondTheEncoding) {
  const struct {
    CounterEncoding encoding;
    std::int64_t highest;
    std::int64_t lowest;
  } encodings[] = {
      {CounterEncoding::curator_int64, std::numeric_limits<std::int64_t>::max(),
       std::numeric_limits<std::int64_t>::min()},
      {CounterEncoding::curator_int32, std::numeric_limits<std::int32_t>::max(),
       std::numeric_limits<std::int32_t>::min()},
  };
  for (const auto& [encoding, highest, lowest] : encodings) {
    Counter counter = make({.encoding = encoding});
    counter.set(highest, patient());
    EXPECT_EQ(error_of([&] { counter.add(1, patient()); }), Errc::invalid_argument);
    EXPECT_EQ(counter.add(0, patient()).after, highest);
    counter.set(lowest, patient());
    EXPECT_EQ(error_of([&] { counter.add(-1, patient()); }), Errc::invalid_argument);
    EXPECT_EQ(counter.add(0, patient()).after, lowest);
    client().remove(path());
  }
  Counter narrow = make({.encoding = CounterEncoding::curator_int32});
  EXPECT_EQ(error_of([&] { narrow.set(1LL << 31, patient()); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)narrow.compare_set(0, 1LL << 31, patient()); }), Errc::invalid_argument);
  EXPECT_FALSE(client().exists(path()));
}

TEST_F(CounterTest, NodeHoldsNoNumber) {
  Counter counter = make();
  counter.add(1, patient());
  write("three");
  EXPECT_EQ(error_of([&] { counter.add(1, patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { (void)counter.get(patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { (void)counter.compare_set(0, 1, patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { counter.update([](std::int64_t) { return 1; }, patient()); }), Errc::foreign_node);
  EXPECT_EQ(data(), "three");
  counter.set(3, patient());
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{3, 4}));
}

TEST_F(CounterTest, NodeDeletedByHand) {
  Counter counter = make();
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(counter.add(5, patient()), (CounterChange{0, 5}));
    client().remove(path());
  }
  EXPECT_EQ(counter.get(patient()), 0);
  EXPECT_FALSE(counter.compare_set(5, 6, patient()));
}

// The version is the same as before.
TEST_F(CounterTest, NodeDeletedAndMadeAgain) {
  Counter counter = make({.encoding = decimal});
  for (int i = 0; i < 20; ++i) {
    EXPECT_EQ(counter.add(5, patient()), (CounterChange{0, 5}));
    client().remove(path());
    client().create(path(), "100");
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{100, 101}));
    client().remove(path());
  }
}

TEST_F(CounterTest, NodeWrittenByAnotherProgram) {
  Counter counter = make({.encoding = decimal});
  for (int i = 0; i < 20; ++i) {
    counter.add(1, patient());
    write("100");
    EXPECT_EQ(counter.add(1, patient()), (CounterChange{100, 101}));
  }
}

// Each change is there once, and each caller knows which one was its own.
TEST_F(CounterTest, ChangedByOthersMeanwhile) {
  constexpr int clients = 4;
  constexpr int each = 50;
  std::vector<std::future<Changes>> all;
  for (int i = 0; i < clients; ++i) {
    all.push_back(in_thread([this, i] {
      const Client own = make_client();
      Counter counter(own, path());
      Changes changes;
      for (int k = 0; k < each; ++k) {
        const bool by_function = i == 0;
        changes.push_back(by_function ? counter.update([](std::int64_t number) { return number + 1; }, patient())
                                      : counter.add(1, patient()));
      }
      return changes;
    }));
  }
  std::vector<std::int64_t> before;
  for (auto& changes : all) {
    for (const CounterChange& change : result_of(changes)) {
      EXPECT_EQ(change.after, change.before + 1);
      before.push_back(change.before);
    }
  }
  std::sort(before.begin(), before.end());
  for (std::size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(before[i], static_cast<std::int64_t>(i));
  EXPECT_EQ(make().get(patient()), clients * each);
}

TEST_F(CounterTest, ManyThreadsShareOneObject) {
  Counter counter = make();
  std::vector<std::future<Changes>> all;
  for (int i = 0; i < 8; ++i) {
    all.push_back(in_thread([&] {
      Changes changes;
      for (int k = 0; k < 50; ++k)
        changes.push_back(counter.add(1, patient()));
      return changes;
    }));
  }
  std::vector<std::int64_t> before;
  for (auto& changes : all) {
    std::int64_t last = -1;
    for (const CounterChange& change : result_of(changes)) {
      EXPECT_GT(change.before, last) << "in the order of the calls";
      last = change.before;
      before.push_back(change.before);
    }
  }
  std::sort(before.begin(), before.end());
  for (std::size_t i = 0; i < before.size(); ++i)
    ASSERT_EQ(before[i], static_cast<std::int64_t>(i));
}

TEST_F(CounterTest, TheRootIsNoCounter) {
  EXPECT_EQ(error_of([&] { Counter(client(), "/"); }), Errc::invalid_argument);
}

// A change of ours is told from one of another library by the slot that is written with it.
TEST_F(CounterTest, KnowsTheChangesOfOtherLibraries) {
  using zkclient::detail::Awaitable;
  using zkclient::detail::Call;
  Counter counter = make({.encoding = decimal});
  Counter rival = make({.encoding = decimal});
  Counter neighbour(client(), path().parent() / (std::string(path().name()) + "-more"), {.encoding = decimal});
  const auto is_foreign = [&](std::int64_t change) {
    zkclient::detail::Work<bool> ask = [this, change](Call call) -> Awaitable<zkclient::Result<bool>> {
      const std::string slots = client().impl()->full(path().parent() / "_c_writes");
      const std::string family = std::string(path().name()) + "-";
      co_return co_await detail::is_foreign_change(client().impl(), slots, family, change, std::move(call));
    };
    return zkclient::detail::CallForm(client().impl(), "test", "/n").result(patient(), std::move(ask)).value();
  };
  const auto last_change = [&] { return client().get(path(), patient()).stat.mzxid; };
  counter.add(1, patient());
  EXPECT_FALSE(is_foreign(last_change()));
  rival.add(1, patient());
  EXPECT_FALSE(is_foreign(last_change()));
  const std::int64_t earlier = last_change();
  write("7");
  EXPECT_TRUE(is_foreign(last_change())) << "though the writers of ours are still there";
  neighbour.add(1, patient());
  EXPECT_TRUE(is_foreign(last_change())) << "it writes another node";
  EXPECT_FALSE(is_foreign(earlier));
  counter.add(1, patient());
  EXPECT_FALSE(is_foreign(last_change()));
}

TEST_F(CounterTest, ACounterWithoutParents) {
  Counter counter(client(), "/top");
  EXPECT_EQ(counter.add(1, patient()), (CounterChange{0, 1}));
  EXPECT_TRUE(client().exists("/_c_writes"));
}

}  // namespace
}  // namespace zkrecipes
