#include <zkrecipes/id_blocks.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <numeric>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class IdBlocksTest : public testkit::RecipeTest {
 protected:
  IdBlocksTest() : RecipeTest("/ids/orders") {}
  IdBlocks make(std::int64_t block = 10) { return make(client(), block); }
  IdBlocks make(const Client& client, std::int64_t block) {
    return IdBlocks(client, path(), {.block = block, .encoding = CounterEncoding::kazoo});
  }
  std::string data() { return client().get(path(), patient()).data; }
  void write(const std::string& data) {
    client().ensure("/ids", zkclient::CreateMode::persistent);
    client().create(path(), data);
  }
};

TEST_F(IdBlocksTest, CountsFromOne) {
  IdBlocks ids = make();
  EXPECT_EQ(ids.path(), path());
  EXPECT_FALSE(client().exists(path())) << "no I/O before the first call";
  for (std::int64_t id = 1; id <= 35; ++id)
    EXPECT_EQ(ids.next(patient()), id);
}

TEST_F(IdBlocksTest, GoesOnBehindTheNumberThatIsThere) {
  write("40");
  EXPECT_EQ(make().next(patient()), 41);
  EXPECT_EQ(data(), "50");
}

TEST_F(IdBlocksTest, TheNextBlockComesAtHalf) {
  IdBlocks ids = make();
  for (int i = 0; i < 4; ++i)
    (void)ids.next(patient());
  client().sync("/", patient());
  EXPECT_EQ(data(), "10");
  EXPECT_EQ(ids.next(patient()), 5);
  EXPECT_TRUE(eventually([&] { return data() == "20"; })) << "before the block is used up";
}

TEST_F(IdBlocksTest, OtherProcessesReserveMeanwhile) {
  std::vector<Client> clients;
  std::vector<std::vector<std::int64_t>> made(4);
  {
    std::vector<std::jthread> crew;
    for (auto& own : made) {
      const Client& one = clients.emplace_back(make_client());
      crew.emplace_back([this, one, &own] {
        IdBlocks ids = make(one, 7);
        for (int i = 0; i < 200; ++i)
          own.push_back(ids.next(patient()));
      });
    }
  }
  std::set<std::int64_t> all;
  for (const auto& own : made) {
    EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
    all.insert(own.begin(), own.end());
  }
  EXPECT_EQ(all.size(), 800u) << "no id came twice";
  EXPECT_LE(*all.rbegin(), std::stoll(data()));
  EXPECT_LE(std::stoll(data()), 800 + 4 * 2 * 7) << "what is left over: two blocks each at most";
}

TEST_F(IdBlocksTest, ManyThreadsShareOne) {
  IdBlocks ids = make(5);
  std::vector<std::vector<std::int64_t>> made(4);
  {
    std::vector<std::jthread> crew;
    for (auto& own : made) {
      crew.emplace_back([&] {
        for (int i = 0; i < 250; ++i)
          own.push_back(ids.next(patient()));
      });
    }
  }
  std::vector<std::int64_t> all;
  for (const auto& own : made) {
    EXPECT_TRUE(std::is_sorted(own.begin(), own.end()));
    all.insert(all.end(), own.begin(), own.end());
  }
  std::sort(all.begin(), all.end());
  std::vector<std::int64_t> expected(1'000);
  std::iota(expected.begin(), expected.end(), 1);
  EXPECT_EQ(all, expected) << "one process leaves no gap";
}

TEST_F(IdBlocksTest, CallsMayOutliveTheObject) {
  Box<Result<std::int64_t>> told;
  for (int i = 0; i < 20; ++i)
    make(3).async_next([&](auto result) { told.put(std::move(result)); }, patient());
  std::set<std::int64_t> ids;
  for (int i = 0; i < 20; ++i)
    ids.insert(told.take().value());
  EXPECT_EQ(ids.size(), 20u);
}

TEST_F(IdBlocksTest, TheNextBlockIsBeyondTheEncoding) {
  write("9223372036854775799");  // Eight are left.
  IdBlocks ids = make(4);
  for (std::int64_t left = 7; left >= 0; --left)
    EXPECT_EQ(ids.next(patient()), std::numeric_limits<std::int64_t>::max() - left);
  for (int i = 0; i < 3; ++i)
    EXPECT_EQ(error_of([&] { (void)ids.next(patient()); }), Errc::invalid_argument);
  EXPECT_EQ(data(), "9223372036854775807");
}

TEST_F(IdBlocksTest, NodeHoldsNoNumber) {
  write("many");
  IdBlocks ids = make();
  EXPECT_EQ(error_of([&] { (void)ids.next(patient()); }), Errc::foreign_node);
  client().set(path(), "1");
  EXPECT_EQ(ids.next(patient()), 2) << "it looks again";
  client().set(path(), "many");
  for (int i = 0; i < 9; ++i)
    EXPECT_EQ(ids.next(patient()), 3 + i) << "the block is there";
  EXPECT_EQ(error_of([&] { (void)ids.next(patient()); }), Errc::foreign_node);
}

TEST_F(IdBlocksTest, NodeDeletedByHand) {
  EXPECT_EQ(make().next(patient()), 1);
  client().remove(path());
  EXPECT_EQ(make().next(patient()), 1) << "nothing else remembers";
}

TEST_F(IdBlocksTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { IdBlocks(client(), path(), {.acl = {}}); }), Errc::invalid_acl);
  EXPECT_EQ(error_of([&] { IdBlocks(client(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make(0); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make(1'000'000'001); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
