#include <zkrecipes/typed.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <charconv>
#include <memory>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/queue_layout.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

/// A number of seats, as text.
struct Seats {
  int number = 0;
  bool operator==(const Seats&) const = default;
};

}  // namespace

template <>
struct Codec<Seats> {
  static inline std::atomic<int> decodings = 0;

  static std::string encode(const Seats& seats) {
    if (seats.number < 0) throw std::invalid_argument("fewer than none");
    return std::to_string(seats.number);
  }
  static Seats decode(std::string_view bytes) {
    ++decodings;
    Seats seats;
    const auto [end, error] = std::from_chars(bytes.data(), bytes.data() + bytes.size(), seats.number);
    if (bytes == "bad") throw 42;
    if (error != std::errc() || end != bytes.data() + bytes.size()) throw std::invalid_argument("no number");
    return seats;
  }
};

namespace {

using namespace testkit::words;

class TypedTest : public testkit::RecipeTest {
 protected:
  TypedTest() : RecipeTest("/typed") {}
  void SetUp() override {
    RecipeTest::SetUp();
    client().create(path(), "");
  }
  /// The error that `call` ends with says `text`, and is of the kind that no repetition cures.
  template <typename Call>
  static void expect_foreign(Call call, const std::string& text) {
    try {
      call();
      FAIL() << "no error";
    } catch (const Error& error) {
      EXPECT_EQ(error.errc(), Errc::foreign_node);
      EXPECT_NE(std::string(error.what()).find(text), std::string::npos) << error.what();
    }
  }
};

TEST_F(TypedTest, WhatACodecThrowsIsAnError) {
  EXPECT_EQ(encode(Seats{7}), "7");
  EXPECT_EQ(decode<Seats>("7"), Seats{7});
  EXPECT_EQ(error_of([] { (void)encode(Seats{-1}); }), Errc::invalid_argument);
  expect_foreign([] { (void)decode<Seats>("x", "/node"); }, "/node");
  expect_foreign([] { (void)decode<Seats>("x"); }, "no number");
  expect_foreign([] { (void)decode<Seats>("bad"); }, "the codec threw no std::exception");
  EXPECT_EQ(try_decode<Seats>("x").code(), Errc::foreign_node);
  const std::string bytes("\0\xff", 2);
  EXPECT_EQ(decode<std::string>(encode(bytes)), bytes);
}

TEST_F(TypedTest, ItemsOfAQueue) {
  Queue queue(client(), path() / "queue");
  queue.push(encode(Seats{3}), patient());
  queue.push("x", patient());
  Claim good = queue.claim(patient());
  EXPECT_EQ(decode<Seats>(good), Seats{3});
  good.commit(patient());
  Claim bad = queue.claim(patient());
  expect_foreign([&] { (void)decode<Seats>(bad); }, bad.node());
  bad.reject("no number", patient());
  EXPECT_EQ(queue.size(patient()), 0U);
}

TEST_F(TypedTest, ItemsThatCuratorHasPutTogether) {
  Queue queue(client(), path(), {.layout = QueueLayout::curator()});
  // As putMulti() writes "3" and "4", and "3" and "x".
  const std::string two(
      "\0\1\0\1\1\0\0\0\1"
      "3\1\0\0\0\1"
      "4\2",
      17);
  const std::string bad(
      "\0\1\0\1\1\0\0\0\1"
      "3\1\0\0\0\1"
      "x\2",
      17);
  client().create(path() / "queue-0000000001", two);
  client().create(path() / "queue-0000000002", bad);
  Claim both = queue.claim(patient());
  EXPECT_EQ(decode<Seats>(both), Seats{3});
  EXPECT_EQ(decode_items<Seats>(both), (std::vector<Seats>{{3}, {4}}));
  both.commit(patient());
  const Claim half = queue.claim(patient());
  expect_foreign([&] { (void)decode_items<Seats>(half); }, half.node());
}

TEST_F(TypedTest, PayloadsOfServices) {
  ServiceInstance instance{.name = "rooms", .id = "one"};
  instance.payload = encode(Seats{3});
  EXPECT_EQ(decode<Seats>(instance), Seats{3});
  instance.payload = "{}";
  expect_foreign([&] { (void)decode<Seats>(instance); }, "rooms/one");
}

TEST_F(TypedTest, ASharedValue) {
  SharedValue value(client(), path() / "value");
  const auto one_more =
      updating<Seats>([](std::optional<Seats> now) { return Seats{now.value_or(Seats{}).number + 1}; });
  EXPECT_EQ(decode<Seats>(value.get(patient())), std::nullopt);
  EXPECT_EQ(value.update(one_more, patient()), "1");
  EXPECT_EQ(value.update(one_more, patient()), "2");
  EXPECT_EQ(decode<Seats>(value.get(patient())), Seats{2});
  const auto declines = updating<Seats>([](std::optional<Seats>) { return std::optional<Seats>(); });
  EXPECT_EQ(value.update(declines, patient()), std::nullopt);

  Box<Result<std::optional<Seats>>> told;
  const auto tell = [&](auto result) {
    told.put(std::move(result));
    return true;  // Nobody asks for it.
  };
  const auto subscription = value.on_change(listening<Seats>(tell, "/told"));
  EXPECT_EQ(told.take().value(), Seats{2});
  value.set("x", patient());
  const auto bad = told.take();
  EXPECT_EQ(bad.code(), Errc::foreign_node);
  EXPECT_EQ(bad.error().path(), "/told");
  expect_foreign([&] { (void)decode<Seats>(value.get(patient()), value.path().str()); }, value.path().str());
  expect_foreign([&] { value.update(one_more, patient()); }, "no number");
  const auto one_less = updating<Seats>([](auto now) { return Seats{now->number - 1}; }, "/updated");
  expect_foreign([&] { value.update(one_less, patient()); }, "/updated");
  EXPECT_EQ(value.get(patient()).data, "x");
  client().remove(value.path());
  EXPECT_EQ(told.take().value(), std::nullopt);
}

TEST_F(TypedTest, AKeyOfAConfiguration) {
  TypedConfiguration<Seats> seats(client(), path() / "config", parsing<Seats>("seats"));
  Configuration writer(client(), path() / "config");
  const auto publish = [&](const std::string& text, std::int64_t before) {
    ConfigurationUpdate update;
    update.values["seats"] = text;
    writer.publish(update, before, patient());
  };
  Box<std::string> refused;
  const auto subscription =
      seats.on_rejected([&](const ConfigurationRejection& rejection) { refused.put(std::string(rejection.why)); });
  publish("4", 0);
  seats.wait_for_revision(1, patient());
  ASSERT_NE(seats.value(), nullptr);
  EXPECT_EQ(*seats.value(), Seats{4});
  publish("x", 1);
  EXPECT_NE(refused.take().find("no number"), std::string::npos);
  EXPECT_EQ(*seats.value(), Seats{4}) << "the last good one stays";
}

TEST_F(TypedTest, ANodeOfACacheThatIsNoSuchValue) {
  client().set(path(), "1");
  TypedCache<Seats, NodeCache> node(client(), path());
  node.wait_ready(patient());
  ASSERT_NE(node.value(), nullptr);
  EXPECT_EQ(*node.value(), Seats{1});
  EXPECT_FALSE(node.problem());
  const std::shared_ptr<const Seats> kept = node.value();
  client().set(path(), "x");
  node.wait_ready(patient());
  EXPECT_EQ(node.value(), nullptr);
  ASSERT_TRUE(node.problem());
  EXPECT_EQ(node.problem()->errc(), Errc::foreign_node);
  EXPECT_EQ(node.problem()->path(), path().str());
  EXPECT_EQ(*kept, Seats{1});
  client().set(path(), "3");
  node.wait_ready(patient());
  EXPECT_FALSE(node.problem());
  EXPECT_EQ(*node.value(), Seats{3});
}

TEST_F(TypedTest, ATreeIsDecodedNodeByNode) {
  client().set(path(), "1");
  client().create(path() / "a", "2");
  client().create(path() / "b", "x");
  TypedCache<Seats, TreeCache> tree(client(), path());
  tree.wait_ready(patient());
  const auto values = tree.values();
  EXPECT_EQ(values.size(), 2U);
  EXPECT_EQ(*values.at(path().str()), Seats{1});
  EXPECT_EQ(*tree.value((path() / "a").str()), Seats{2});
  EXPECT_EQ(tree.value((path() / "b").str()), nullptr);
  EXPECT_EQ(tree.problem()->path(), (path() / "b").str());
  const int before = Codec<Seats>::decodings;
  client().set(path() / "b", "5");
  tree.wait_ready(patient());
  EXPECT_EQ(*tree.value((path() / "b").str()), Seats{5});
  EXPECT_EQ(Codec<Seats>::decodings, before + 1) << "the others were decoded before";
  EXPECT_EQ(tree.value((path() / "a").str()), values.at((path() / "a").str()));
  TypedCache<Seats, TreeCache> moved = std::move(tree);
  EXPECT_EQ(moved.values().size(), 3U);
  client().remove(path() / "a");
  moved.wait_ready(patient());
  EXPECT_EQ(moved.values().size(), 2U);
}

// Its directory is not read, so that is no error.
TEST_F(TypedTest, ChildrenWithoutTheirDirectory) {
  client().set(path(), "text");
  client().create(path() / "a", "2");
  TypedCache<Seats, ChildrenCache> children(client(), path());
  children.wait_ready(patient());
  EXPECT_EQ(children.value(), nullptr);
  EXPECT_EQ(children.values().size(), 1U);
  EXPECT_FALSE(children.problem());
}

}  // namespace
}  // namespace zkrecipes
