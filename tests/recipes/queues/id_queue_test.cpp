#include <zkrecipes/id_queue.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <thread>

#include <zkclient/error.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class IdQueueTest : public testkit::RecipeTest {
 protected:
  IdQueueTest() : RecipeTest("/queue") {}
};

TEST_F(IdQueueTest, FirstInFirstOutWhateverTheIds) {
  for (const QueueLayout& layout : {QueueLayout::curator(), QueueLayout::standard()}) {
    IdQueue queue(client(), layout.style() == QueueLayout::Style::standard ? "/standard" : "/queue",
                  {.layout = layout});
    queue.push("1", "z", patient());
    queue.push_all({"2", "3"}, "a b", patient());
    EXPECT_TRUE(queue.try_push("4", "1000000050000000007", patient()));
    const std::vector<QueueItem> all = queue.list();
    ASSERT_EQ(all.size(), 4U);
    EXPECT_EQ(all[0].id, "z");
    EXPECT_EQ(all[2].id, "a b");
    EXPECT_EQ(all[3].id, "1000000050000000007");
    Claim claim = queue.claim(patient());
    EXPECT_EQ(claim.id(), "z");
    claim.give_back(patient());
    for (const char* item : {"1", "2", "3", "4"})
      EXPECT_EQ(queue.pop(patient()), item);
  }
}

TEST_F(IdQueueTest, SeveralItemsOfOneId) {
  IdQueue queue(client(), "/queue");
  IdQueue other(client(), "/queue");
  queue.push_all({"1", "2"}, "x", patient());
  queue.push("3", "xy", patient());
  queue.push("4", "x", patient());
  EXPECT_EQ(other.remove("x", patient()), 3U);
  EXPECT_EQ(other.remove("x", patient()), 0U);
  EXPECT_EQ(queue.pop(patient()), "3");
  EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
}

TEST_F(IdQueueTest, NoneOfThatId) {
  IdQueue queue(client(), "/queue");
  EXPECT_EQ(queue.remove("x", patient()), 0U) << "without a folder";
  queue.push("1", "y", patient());
  EXPECT_EQ(queue.remove("x", patient()), 0U);
  EXPECT_EQ(queue.size(), 1U);
}

TEST_F(IdQueueTest, ItemIsClaimed) {
  for (const QueueLayout& layout : {QueueLayout::curator(), QueueLayout::curator(Path("/locks"))}) {
    IdQueue queue(client(), layout.lock_path() ? "/locked" : "/queue", {.layout = layout});
    IdQueue other(client(), queue.path(), {.layout = layout});
    queue.push_all({"1", "2"}, "x", patient());
    Claim claim = queue.claim(patient());
    EXPECT_EQ(other.remove("x", patient()), 1U) << "the other one";
    claim.give_back(patient());
    claim = queue.claim(patient());
    EXPECT_EQ(claim.data(), "1");
    EXPECT_EQ(other.remove("x", patient()), 0U);
    claim.give_back(patient());
    EXPECT_EQ(other.remove("x", patient()), 1U) << "it has come back";
    EXPECT_EQ(queue.size(), 0U);
  }
}

TEST_F(IdQueueTest, ConsumersAndRemovalsShareTheItems) {
  constexpr int count = 60;
  IdQueue queue(client(), "/queue");
  Client other = make_client();
  IdQueue consumer(other, "/queue");
  std::vector<std::string> items;
  for (int i = 0; i < count; ++i)
    items.push_back(std::to_string(i));
  queue.push_all(items, "x", patient());
  std::atomic<int> taken{0};
  std::jthread popping([&] {
    while (consumer.try_pop(patient()))
      ++taken;
  });
  std::jthread claiming([&] {
    while (auto claim = consumer.try_claim(patient())) {
      claim->commit(patient());
      ++taken;
    }
  });
  std::size_t removed = queue.remove("x", patient());
  popping.join();
  claiming.join();
  removed += queue.remove("x", patient());
  EXPECT_EQ(removed + static_cast<std::size_t>(taken), static_cast<std::size_t>(count));
  EXPECT_EQ(queue.size(), 0U);
}

TEST_F(IdQueueTest, NodesWithSeveralItemsGoAsAWhole) {
  IdQueue queue(client(), "/queue");
  client().create("/queue", "");
  // Two items, "a" and "b", as Curator's putMulti() writes them.
  const std::string two("\0\1\0\1\1\0\0\0\1a\1\0\0\0\1b\2", 17);
  client().create("/queue/queue-|x|0000000001", two);
  client().create("/queue/queue-|x|0000000002", "not in the layout's format");
  EXPECT_EQ(queue.remove("x", patient()), 2U);
}

TEST_F(IdQueueTest, IdInANameThatIsNotWellFormed) {
  IdQueue queue(client(), "/queue");
  client().create("/queue", "");
  for (const char* name :
       {"queue-||0000000001", "queue-|x|", "queue-|x0000000001", "queue-|x|7", "other-|x|0000000001"})
    client().create(path() / name, "");
  EXPECT_EQ(queue.try_pop(patient()), std::nullopt);
  EXPECT_EQ(queue.remove("x", patient()), 0U);
}

// The path of its claim would be longer than any path may be.
TEST_F(IdQueueTest, NameIsTooLong) {
  IdQueue queue(client(), "/queue");
  client().create("/queue", "");
  const std::string around = prefix().str() + "/queue/queue-||0000000001";
  const std::string id(Path::max_size - around.size(), 'i');
  const std::string one("\0\1\0\1\1\0\0\0\1a\2", 11);  // As Curator writes it.
  client().create("/queue/queue-|" + id + "|0000000001", one);
  const std::string longest(1000, 'i');
  queue.push("item", longest, patient());
  EXPECT_EQ(queue.list().size(), 1U);
  EXPECT_EQ(queue.claim(patient()).id(), longest);
  EXPECT_EQ(queue.pop(patient()), "item");
  EXPECT_FALSE(queue.try_claim(patient()));
  EXPECT_EQ(error_of([&] { queue.push("x", longest + "i"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { queue.remove(longest + "i"); }), Errc::invalid_argument);
}

TEST_F(IdQueueTest, ItemsWithoutAnId) {
  IdQueue queue(client(), "/queue");
  Queue plain(client(), "/queue", {.layout = QueueLayout::curator()});
  plain.push("1", patient());
  queue.push("2", "x", patient());
  EXPECT_EQ(queue.list().front().id, "");
  const Claim claim = queue.claim(patient());
  EXPECT_EQ(claim.data(), "1");
  EXPECT_EQ(claim.id(), "");
}

TEST_F(IdQueueTest, NamesAreCurators) {
  IdQueue queue(client(), "/queue");
  queue.push("a", "order-17", patient());
  EXPECT_EQ(names(), std::vector<std::string>{"queue-|order-17|0000000000"});
}

TEST_F(IdQueueTest, RejectedItemsKeepTheirIds) {
  IdQueue queue(client(), "/queue");
  queue.push("a", "x", patient());
  queue.claim(patient()).reject("no such customer", patient());
  IdQueue dead(client(), "/queue-dead");
  EXPECT_EQ(dead.remove("x", patient()), 1U);
}

TEST_F(IdQueueTest, AsynchronousForms) {
  IdQueue queue(client(), "/queue");
  Box<Result<void>> pushed;
  queue.async_push(
      "a", "x", [&](Result<void> result) { pushed.put(std::move(result)); }, patient());
  pushed.take().value();
  Box<Result<std::size_t>> removed;
  queue.async_remove(
      "x", [&](Result<std::size_t> result) { removed.put(std::move(result)); }, patient());
  EXPECT_EQ(removed.take().value(), 1U);
}

TEST_F(IdQueueTest, RefusesBadInput) {
  EXPECT_EQ(error_of([&] { IdQueue(client(), "/queue", {.layout = QueueLayout::kazoo()}); }), Errc::invalid_argument);
  IdQueue queue(client(), "/queue");
  for (const char* id : {"", "a/b", "a|b"}) {
    EXPECT_EQ(error_of([&] { queue.push("x", id); }), Errc::invalid_argument) << id;
    EXPECT_EQ(error_of([&] { queue.push_all({"x"}, id); }), Errc::invalid_argument) << id;
    EXPECT_EQ(error_of([&] { queue.remove(id); }), Errc::invalid_argument) << id;
  }
  EXPECT_EQ(error_of([&] { queue.push("x", "a\nb"); }), Errc::invalid_argument);
  EXPECT_EQ(queue.remove("a\nb"), 0U) << "no item can have it";
  EXPECT_EQ(error_of([&] { queue.push("x", std::string(Path::max_size, 'x')); }), Errc::invalid_argument);
  EXPECT_FALSE(client().exists("/queue"));
}

}  // namespace
}  // namespace zkrecipes
