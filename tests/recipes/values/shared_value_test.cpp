#include <zkrecipes/shared_value.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <future>
#include <memory>
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

class SharedValueTest : public testkit::RecipeTest {
 protected:
  SharedValueTest() : RecipeTest("/values/shared") {}
  SharedValue make(SharedValueOptions options = {}) { return {client(), path(), std::move(options)}; }
  std::string data() { return client().get(path(), patient()).data; }
};

TEST_F(SharedValueTest, HoldsBytes) {
  SharedValue value = make();
  EXPECT_EQ(value.path(), path());
  EXPECT_EQ(value.get(patient()), VersionedValue());
  const std::string bytes("a\0b\xff", 4);
  value.set(bytes, patient());
  const VersionedValue first = value.get(patient());
  EXPECT_TRUE(first.exists);
  EXPECT_EQ(first.data, bytes);
  EXPECT_EQ(first.version.version, 0);
  value.set("", patient());
  const VersionedValue second = value.get(patient());
  EXPECT_EQ(second.data, "");
  EXPECT_EQ(second.version, (ValueVersion{first.version.czxid, 1}));
  EXPECT_EQ(client().get(path()).stat.ephemeral_owner, 0);
}

TEST_F(SharedValueTest, ComparesVersionsAndSets) {
  SharedValue value = make();
  EXPECT_FALSE(value.compare_set(ValueVersion{1, 0}, "x", patient()));
  EXPECT_FALSE(client().exists(path())) << "what only compared has made nothing";
  EXPECT_TRUE(value.compare_set({}, "1", patient()));
  EXPECT_FALSE(value.compare_set({}, "x", patient()));
  const ValueVersion first = value.get(patient()).version;
  EXPECT_TRUE(value.compare_set(first, "2", patient()));
  EXPECT_FALSE(value.compare_set(first, "x", patient()));
  EXPECT_FALSE(make().compare_set(first, "x", patient())) << "by one that knows nothing yet";
  EXPECT_EQ(data(), "2");
}

// V86
TEST_F(SharedValueTest, AValueThatIsThereWinsOverAFirstOne) {
  make().set("there", patient());
  EXPECT_EQ(client().get(path()).stat.version, 0);
  EXPECT_FALSE(make().compare_set({}, "seed", patient()));
  EXPECT_EQ(data(), "there");
}

TEST_F(SharedValueTest, AFunctionDecides) {
  SharedValue value = make();
  const auto append = [](const VersionedValue& seen) { return std::optional(seen.data + "x"); };
  EXPECT_EQ(value.update(append, patient()), "x");
  EXPECT_EQ(value.update(append, patient()), "xx");
  const auto decline = [](const VersionedValue&) { return std::optional<std::string>(); };
  EXPECT_EQ(value.update(decline, patient()), std::nullopt);
  const auto complain = [](const VersionedValue&) -> std::optional<std::string> { throw std::domain_error("no"); };
  EXPECT_THROW(value.update(complain, patient()), std::domain_error);
  Box<Result<std::optional<std::string>>> told;
  value.async_update(
      complain, [&](auto result) { told.put(std::move(result)); }, patient());
  EXPECT_EQ(told.take().code(), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { value.update({}, patient()); }), Errc::invalid_argument);
  EXPECT_EQ(data(), "xx");
}

TEST_F(SharedValueTest, ChangedByOthersMeanwhile) {
  SharedValue value = make();
  value.set("", patient());
  const Client own = make_client();
  SharedValue other(own, path());
  int runs = 0;
  const auto meddle = [&](const VersionedValue& seen) {
    if (runs++ < 3) other.set(seen.data + "o", patient());
    return std::optional(seen.data + "x");
  };
  EXPECT_EQ(value.update(meddle, patient()), "ooox");
  EXPECT_EQ(runs, 4);
  const ValueVersion seen = value.get(patient()).version;
  other.set("y", patient());
  EXPECT_FALSE(value.compare_set(seen, "x", patient()));
  EXPECT_EQ(data(), "y");
}

TEST_F(SharedValueTest, NoChangeIsLostAmongMany) {
  std::vector<std::future<void>> all;
  for (int i = 0; i < 4; ++i) {
    all.push_back(in_thread([&] {
      const Client own = make_client();
      SharedValue value(own, path());
      for (int k = 0; k < 10; ++k)
        value.update([](const VersionedValue& seen) { return std::optional(seen.data + "x"); }, patient());
    }));
  }
  for (auto& one : all)
    result_of(one);
  EXPECT_EQ(data(), std::string(40, 'x'));
}

TEST_F(SharedValueTest, NodeDeletedByHand) {
  SharedValue value = make();
  value.set("1", patient());
  const ValueVersion before = value.get(patient()).version;
  client().remove(path());
  EXPECT_FALSE(value.get(patient()).exists);
  EXPECT_FALSE(value.compare_set(before, "x", patient()));
  EXPECT_FALSE(client().exists(path()));
  value.set("2", patient());
  EXPECT_EQ(data(), "2");
}

// The server counts from 0 again.
TEST_F(SharedValueTest, NodeDeletedAndMadeAgain) {
  SharedValue value = make();
  value.set("1", patient());
  const ValueVersion before = value.get(patient()).version;
  client().remove(path());
  client().create(path(), "2");
  const ValueVersion after = value.get(patient()).version;
  EXPECT_EQ(after.version, before.version);
  EXPECT_NE(after, before);
  EXPECT_FALSE(value.compare_set(before, "x", patient()));
  EXPECT_EQ(data(), "2");
  EXPECT_TRUE(value.compare_set(after, "3", patient()));
}

TEST_F(SharedValueTest, NodeWrittenByAnotherProgram) {
  SharedValue value = make();
  value.set("1", patient());
  const ValueVersion before = value.get(patient()).version;
  client().set(path(), "2");
  EXPECT_EQ(value.get(patient()).data, "2");
  EXPECT_FALSE(value.compare_set(before, "x", patient()));
  EXPECT_EQ(value.update([](const VersionedValue& seen) { return std::optional(seen.data + "!"); }, patient()), "2!");
}

TEST_F(SharedValueTest, ListenersHearOfChanges) {
  SharedValue value = make();
  Box<VersionedValue> heard;
  const zkclient::Subscription subscription = value.on_change([&](const VersionedValue& now) { heard.put(now); });
  EXPECT_EQ(heard.take(), VersionedValue());
  for (const std::string data : {"1", "2"}) {
    value.set(data, patient());
    EXPECT_EQ(heard.take(), value.get(patient()));
  }
  client().remove(path());
  EXPECT_EQ(heard.take(), VersionedValue());
  client().create(path(), "3");
  EXPECT_EQ(heard.take().data, "3");
  // One that comes later begins with what is there.
  Box<VersionedValue> later;
  const zkclient::Subscription second = value.on_change([&](const VersionedValue& now) { later.put(now); });
  EXPECT_EQ(later.take().data, "3");
  EXPECT_EQ(error_of([&] { (void)value.on_change({}); }), Errc::invalid_argument);
}

TEST_F(SharedValueTest, NoListenerIsCalledAfterItsObjectIsGone) {
  auto value = std::make_unique<SharedValue>(make());
  std::atomic<int> calls{0};
  const zkclient::Subscription subscription = value->on_change([&](const VersionedValue&) { ++calls; });
  EXPECT_TRUE(eventually([&] { return calls == 1; }));
  value.reset();
  make().set("x", patient());
  client().sync("/", patient());
  EXPECT_EQ(calls, 1);
  expect_no_watch_left();
}

TEST_F(SharedValueTest, RefusesWhatCannotBe) {
  EXPECT_EQ(error_of([&] { SharedValue(client(), "/"); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make({.max_marker_age = 0ms}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { make().set(std::string(2 << 20, 'x'), patient()); }), Errc::too_large);
  EXPECT_FALSE(make().get(patient()).exists);
}

}  // namespace
}  // namespace zkrecipes
