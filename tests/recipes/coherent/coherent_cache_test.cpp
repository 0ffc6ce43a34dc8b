#include <zkrecipes/coherent_cache.hpp>

#include <gtest/gtest.h>

#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class CoherentCacheTest : public testkit::RecipeTest {
 protected:
  CoherentCacheTest() : RecipeTest("/coherent") {}
  CoherentCache make(CoherentCacheOptions options = {}) { return CoherentCache(client(), path(), std::move(options)); }
  CoherentCache make_other(CoherentCacheOptions options = {}) {
    return CoherentCache(make_client(), path(), std::move(options));
  }
  /// One shard: what happens to one item happens to all.
  static CoherentCacheOptions one_shard() { return {.shards = 1}; }
  static std::string data(CoherentCache& cache, std::string_view name) {
    const CoherentItemPtr item = cache.get(name, patient());
    return item->exists ? item->data : "(none)";
  }
};

TEST_F(CoherentCacheTest, RemembersItemsAndTheirAbsence) {
  CoherentCache cache = make();
  EXPECT_EQ(cache.path(), path());
  EXPECT_EQ(cache.peek("a"), nullptr);
  EXPECT_FALSE(cache.get("a", patient())->exists);
  EXPECT_EQ(cache.statistics().misses, 1U);
  for (int i = 0; i < 10; ++i)
    EXPECT_FALSE(cache.get("a", patient())->exists);
  EXPECT_EQ(cache.statistics().hits, 10U);
  EXPECT_EQ(cache.statistics().misses, 1U);
  EXPECT_EQ(cache.statistics().leases, 1U);

  cache.put("a", "1", patient());
  const CoherentItemPtr item = cache.get("a", patient());
  EXPECT_TRUE(item->exists);
  EXPECT_EQ(item->data, "1");
  EXPECT_GT(item->revision, 0);
  EXPECT_EQ(cache.get("a", patient()), item) << "the same object";
  EXPECT_EQ(cache.statistics().hits, 11U);
}

TEST_F(CoherentCacheTest, TheNodesAreAsDrawn) {
  CoherentCache cache = make({.shards = 2});
  cache.put("a", "value", patient());
  (void)cache.get("a", patient());
  EXPECT_EQ(client().get(path()).data, "coherent 1 shards=2");
  EXPECT_EQ(client().get(path() / "items/a").data, "value");
  ASSERT_EQ(names(path() / "gates").size(), 1U);
  const std::string shard = names(path() / "gates").front();
  EXPECT_TRUE(client().get(path() / "gates" / shard).data.starts_with("open "));
  const auto holders = names(path() / "holders" / shard);
  ASSERT_EQ(holders.size(), 1U);
  EXPECT_NE(client().get(path() / "holders" / shard / holders.front()).stat.ephemeral_owner, 0);
  cache.close();
  EXPECT_TRUE(remain(0, path() / "holders" / shard));
}

TEST_F(CoherentCacheTest, AReadThatBeginsAfterAWriteSeesIt) {
  CoherentCache reader = make(one_shard());
  CoherentCache writer = make_other();
  for (int i = 0; i < 30; ++i) {
    const std::string value = std::to_string(i);
    writer.put("a", value, patient());
    EXPECT_EQ(data(reader, "a"), value);
    EXPECT_EQ(data(reader, "a"), value);
  }
  EXPECT_GE(reader.statistics().hits, 25U);
  EXPECT_GE(writer.statistics().closings, 25U);
  EXPECT_EQ(data(writer, "a"), "29");
}

TEST_F(CoherentCacheTest, AWriteWithoutOtherReadersClosesNoGate) {
  CoherentCache cache = make(one_shard());
  for (int i = 0; i < 5; ++i) {
    cache.put("a", std::to_string(i), patient());
    EXPECT_EQ(data(cache, "a"), std::to_string(i));
  }
  EXPECT_EQ(cache.statistics().closings, 0U);
}

TEST_F(CoherentCacheTest, OtherItemsOfTheShardAreFetchedUnderTheSameLease) {
  CoherentCache cache = make(one_shard());
  cache.put("a", "1", patient());
  cache.put("b", "2", patient());
  EXPECT_EQ(data(cache, "a"), "1");
  EXPECT_EQ(data(cache, "b"), "2");
  EXPECT_EQ(data(cache, "c"), "(none)");
  EXPECT_EQ(names(path() / "holders/0").size(), 1U);
  const std::uint64_t misses = cache.statistics().misses;
  EXPECT_EQ(data(cache, "a"), "1");
  EXPECT_EQ(data(cache, "b"), "2");
  EXPECT_EQ(data(cache, "c"), "(none)");
  EXPECT_EQ(cache.statistics().misses, misses);
}

TEST_F(CoherentCacheTest, CreatesWhatIsNotThereAndRemovesWhatIs) {
  CoherentCache cache = make(one_shard());
  CoherentCache other = make_other();
  EXPECT_EQ(data(other, "a"), "(none)");
  EXPECT_EQ(error_of([&] { cache.remove("a", patient()); }), Errc::no_node);
  cache.create("a", "1", patient());
  EXPECT_EQ(data(other, "a"), "1");
  EXPECT_EQ(error_of([&] { cache.create("a", "2", patient()); }), Errc::node_exists);
  EXPECT_EQ(error_of([&] { other.create("a", "2", patient()); }), Errc::node_exists);
  other.remove("a", patient());
  EXPECT_EQ(data(cache, "a"), "(none)");
  EXPECT_EQ(error_of([&] { cache.remove("a", patient()); }), Errc::no_node);
}

TEST_F(CoherentCacheTest, ComparesRevisionsThatAreNeverUsedTwice) {
  CoherentCache cache = make(one_shard());
  CoherentCache other = make_other();
  EXPECT_TRUE(cache.compare_put("a", 0, "1", patient()));
  EXPECT_FALSE(cache.compare_put("a", 0, "2", patient()));
  const std::int64_t first = cache.get("a", patient())->revision;
  other.remove("a", patient());
  other.create("a", "1", patient());
  EXPECT_FALSE(cache.compare_put("a", first, "2", patient())) << "made again: the same data, and the same version";
  EXPECT_FALSE(cache.compare_remove("a", first, patient()));
  const std::int64_t second = cache.get("a", patient())->revision;
  EXPECT_GT(second, first);
  EXPECT_TRUE(cache.compare_put("a", second, "2", patient()));
  EXPECT_EQ(data(other, "a"), "2");
  EXPECT_TRUE(other.compare_remove("a", other.get("a", patient())->revision, patient()));
  EXPECT_EQ(data(cache, "a"), "(none)");
  EXPECT_EQ(error_of([&] { (void)cache.compare_remove("a", 0, patient()); }), Errc::invalid_argument);
}

TEST_F(CoherentCacheTest, UpdatesOfManyAreAllApplied) {
  CoherentCache one = make(one_shard());
  CoherentCache other = make_other();
  const auto add_one = [](const CoherentItem& item) -> std::optional<std::string> {
    return std::to_string(item.exists ? std::stoi(item.data) + 1 : 1);
  };
  std::vector<std::future<void>> adding;
  for (int i = 0; i < 4; ++i) {
    adding.push_back(in_thread([&, i] {
      for (int n = 0; n < 15; ++n)
        EXPECT_TRUE((i % 2 == 0 ? one : other).update("a", add_one, patient()));
    }));
  }
  for (auto& one_of_them : adding)
    result_of(one_of_them);
  EXPECT_EQ(data(one, "a"), "60");
  EXPECT_EQ(data(other, "a"), "60");
}

TEST_F(CoherentCacheTest, AnUpdateMayDecline) {
  CoherentCache cache = make();
  cache.put("a", "1", patient());
  EXPECT_EQ(cache.update(
                "a", [](const CoherentItem&) { return std::nullopt; }, patient()),
            std::nullopt);
  const auto thrower = [](const CoherentItem&) -> std::optional<std::string> { throw std::runtime_error("no"); };
  EXPECT_THROW(cache.update("a", thrower, patient()), std::runtime_error);
  EXPECT_EQ(data(cache, "a"), "1");
  Box<Result<std::optional<std::string>>> answers;
  cache.async_update(
      "a", thrower, [&](auto answer) { answers.put(std::move(answer)); }, patient());
  EXPECT_EQ(answers.take().error().errc(), Errc::invalid_argument);
}

TEST_F(CoherentCacheTest, PeeksAtWhatMayBeOld) {
  CoherentCache reader = make(one_shard());
  CoherentCache writer = make_other();
  writer.put("a", "1", patient());
  EXPECT_EQ(data(reader, "a"), "1");
  writer.put("a", "2", patient());
  ASSERT_NE(reader.peek("a"), nullptr);
  EXPECT_EQ(reader.peek("a")->data, "1");
  EXPECT_EQ(data(reader, "a"), "2");
  EXPECT_EQ(reader.peek("a")->data, "2");
}

TEST_F(CoherentCacheTest, TheLeastRecentlyUsedItemsLeaveMemory) {
  CoherentCache cache = make({.shards = 4, .max_bytes = 16 * 1024});
  const std::string large(1000, 'x');
  for (int i = 0; i < 40; ++i)
    cache.put("item-" + std::to_string(i), large, patient());
  (void)cache.get("item-0", patient());
  for (int i = 1; i < 40; ++i) {
    EXPECT_EQ(data(cache, "item-" + std::to_string(i)), large);
    EXPECT_EQ(data(cache, "item-0"), large);
    EXPECT_LE(cache.statistics().bytes, 16U * 1024);
  }
  EXPECT_GT(cache.statistics().evictions, 20U);
  EXPECT_NE(cache.peek("item-0"), nullptr) << "it is used all the time";
  EXPECT_EQ(cache.peek("item-1"), nullptr);
  cache.put("huge", std::string(20 * 1024, 'y'), patient());
  EXPECT_EQ(cache.get("huge", patient())->data.size(), 20U * 1024);
  EXPECT_EQ(cache.peek("huge"), nullptr) << "it does not fit";
}

TEST_F(CoherentCacheTest, HoldsMoreLeasesThanOneTransactionChecks) {
  constexpr auto term = 5000ms;
  CoherentCache cache = make({.shards = 1000, .lease_term = term});
  std::vector<std::string> items;
  for (int i = 0; i < 500; ++i)
    items.push_back("item-" + std::to_string(i));
  // Reads may take so long that the first leases have ended before the last one is there.
  const auto all_are_held = [&] {
    const std::uint64_t before = cache.statistics().misses;
    for (const std::string& item : items)
      (void)cache.get(item, patient());
    return cache.statistics().misses == before;
  };
  // A stall of the machine may keep all renewals of a term away: then another term has to show it.
  const auto all_are_renewed = [&] {
    if (!all_are_held()) return false;
    testkit::let_age(term + 1s);
    return all_are_held();
  };
  ASSERT_TRUE(eventually(all_are_renewed));
  EXPECT_GT(cache.statistics().leases, 300U);

  CoherentCache writer = make_other();
  int writes = 0;
  const auto only_one_ends = [&] {
    if (!all_are_held()) return false;
    const std::size_t leases = cache.statistics().leases;
    const std::string value = std::to_string(++writes);
    writer.put("item-7", value, patient());
    EXPECT_EQ(data(cache, "item-7"), value);
    testkit::let_age(term + 1s);
    return cache.statistics().leases == leases;
  };
  EXPECT_TRUE(eventually(only_one_ends)) << "the others go on, and that one is there again";
}

TEST_F(CoherentCacheTest, AllTakeTheShardsThatAreThere) {
  CoherentCache first = make({.shards = 3});
  CoherentCache second = make_other({.shards = 64});
  for (int i = 0; i < 20; ++i) {
    const std::string name = "item-" + std::to_string(i);
    first.put(name, name, patient());
    EXPECT_EQ(data(second, name), name);
    second.put(name, "new", patient());
    EXPECT_EQ(data(first, name), "new");
  }
  EXPECT_EQ(names(path() / "gates").size(), 3U);
}

TEST_F(CoherentCacheTest, DirectoryOfAnotherRecipe) {
  client().create(path(), "something else");
  CoherentCache cache = make();
  EXPECT_EQ(error_of([&] { (void)cache.get("a", patient()); }), Errc::foreign_node);
  EXPECT_EQ(error_of([&] { cache.put("a", "1", patient()); }), Errc::foreign_node);
  EXPECT_EQ(client().get(path()).data, "something else");
}

TEST_F(CoherentCacheTest, RefusesWhatCannotBe) {
  CoherentCache cache = make();
  for (const char* name : {"", "a/b", ".", "..", "a\nb"}) {
    EXPECT_EQ(error_of([&] { (void)cache.get(name, patient()); }), Errc::invalid_argument) << name;
    EXPECT_EQ(error_of([&] { cache.put(name, "1", patient()); }), Errc::invalid_argument) << name;
  }
  EXPECT_EQ(error_of([&] { CoherentCache(client(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { CoherentCache(client(), path(), {.shards = 0}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { CoherentCache(client(), path(), {.lease_term = -1ms}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { CoherentCache(client(), path(), {.max_bytes = 0}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { CoherentCache(client(), path(), {.acl = {}}); }), Errc::invalid_acl);
}

// The reader has a lease and the item. Neither it nor the writer remembers the item for ever.
TEST_F(CoherentCacheTest, ItemChangedByHand) {
  CoherentCache cache = make(one_shard());
  const auto append = [](const CoherentItem& item) { return std::optional(item.data + "+"); };
  cache.put("a", "0", patient());
  const auto change_by_hand = [&] {
    cache.put("a", "1", patient());  // Its answer tells the writer of the cache the revision: it need not read it.
    const std::int64_t written = cache.get("a", patient())->revision;
    client().set(path() / "items/a", "by hand");
    const std::uint64_t misses = cache.statistics().misses;
    const std::string seen = data(cache, "a");
    EXPECT_EQ(seen, cache.statistics().misses == misses ? "1" : "by hand") << "nothing has written to the shard";
    return written;
  };
  EXPECT_FALSE(cache.compare_put("a", change_by_hand(), "x", patient()));
  EXPECT_FALSE(cache.compare_put("a", 1, "x", patient()));
  EXPECT_FALSE(cache.compare_remove("a", change_by_hand(), patient()));
  EXPECT_EQ(client().get(path() / "items/a").data, "by hand");
  (void)change_by_hand();
  EXPECT_EQ(cache.update("a", append, patient()), "by hand+");
  EXPECT_EQ(data(cache, "a"), "by hand+");
  // The asynchronous form, after a removal by hand.
  client().remove(path() / "items/a");
  EXPECT_EQ(data(cache, "a"), "by hand+");
  Box<Result<std::optional<std::string>>> answers;
  cache.async_update(
      "a", append, [&](auto answer) { answers.put(std::move(answer)); }, patient());
  EXPECT_EQ(answers.take().value(), "+");
  client().set(path() / "items/a", "again");
  cache.put("a", "2", patient());
  EXPECT_EQ(data(cache, "a"), "2");
}

// The gate has the version that it had before.
TEST_F(CoherentCacheTest, DirectoryRemovedAndMadeAgain) {
  CoherentCache reader = make(one_shard());
  {
    CoherentCache writer = make_other(one_shard());
    writer.put("a", "former", patient());
  }
  EXPECT_EQ(data(reader, "a"), "former");
  EXPECT_EQ(data(reader, "b"), "(none)");
  const auto before = client().get(path() / "gates/0").stat;
  client().remove_tree(path(), patient());
  EXPECT_TRUE(testkit::eventually([&] { return reader.statistics().leases == 0; }));
  CoherentCache writer = make_other(one_shard());
  writer.put("a", "new", patient());
  const auto after = client().get(path() / "gates/0").stat;
  EXPECT_EQ(after.version, before.version);
  EXPECT_NE(after.czxid, before.czxid);
  EXPECT_EQ(data(reader, "b"), "(none)");
  EXPECT_EQ(reader.statistics().leases, 1U);
  EXPECT_EQ(data(reader, "a"), "new");
}

// The gate is still there, so that nothing else tells.
TEST_F(CoherentCacheTest, FolderRemovedByHand) {
  CoherentCache cache = make(one_shard());
  CoherentCache reader = make_other(one_shard());
  cache.put("a", "1", patient());
  client().remove_tree(path() / "items", patient());
  cache.put("a", "2", patient());
  EXPECT_EQ(data(cache, "a"), "2");
  EXPECT_EQ(data(reader, "a"), "2");
  client().remove_tree(path() / "writers", patient());
  cache.put("a", "3", patient());  // Closes the gate, as there is a reader.
  EXPECT_EQ(data(reader, "a"), "3");
  client().remove_tree(path() / "writers", patient());
  client().set(path() / "gates/0", "closed 1234");  // As a writer leaves it that dies.
  cache.put("a", "4", patient());
  EXPECT_EQ(data(cache, "a"), "4");
}

TEST_F(CoherentCacheTest, Closed) {
  CoherentCache cache = make(one_shard());
  cache.put("a", "1", patient());
  EXPECT_EQ(data(cache, "a"), "1");
  cache.close();
  EXPECT_EQ(error_of([&] { (void)cache.get("a", patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { cache.put("a", "2", patient()); }), Errc::closed);
  EXPECT_TRUE(remain(0, path() / "holders/0"));
  cache.close();

  const Client own = make_client();
  CoherentCache other(own, path());
  EXPECT_EQ(data(other, "a"), "1");
  Client(own).close();
  EXPECT_EQ(error_of([&] { (void)other.get("a", patient()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { other.put("a", "2", patient()); }), Errc::closed);
  EXPECT_TRUE(remain(0, path() / "holders/0"));
}

}  // namespace
}  // namespace zkrecipes
