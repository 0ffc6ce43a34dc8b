#include "zkclient/detail/watch_registry.hpp"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace {

using zkclient::WatchEventType;
using zkclient::detail::WatchRegistry;
using Kind = WatchRegistry::Kind;

// The C client's event types.
constexpr int created = 1;
constexpr int deleted = 2;
constexpr int changed = 3;
constexpr int child = 4;

class WatchRegistryTest : public ::testing::Test {
 protected:
  WatchRegistry::Id add(const std::string& name, const std::string& path, Kind kind) {
    return registry.add(path, kind,
                        [this, name](WatchEventType type) { events.push_back(name + ":" + to_string(type)); });
  }
  std::vector<std::string> take() { return std::exchange(events, {}); }

  using Events = std::vector<std::string>;
  WatchRegistry registry;
  Events events;
};

TEST_F(WatchRegistryTest, OneEventReachesEverybodyInOrder) {
  add("a", "/n", Kind::data);
  add("b", "/n", Kind::data);
  add("c", "/n", Kind::data);
  add("other", "/m", Kind::data);
  registry.fire(changed, "/n");
  EXPECT_EQ(take(), (Events{"a:data_changed", "b:data_changed", "c:data_changed"}));
  EXPECT_EQ(registry.size(), 1u);
}

TEST_F(WatchRegistryTest, IsOneShot) {
  add("a", "/n", Kind::data);
  registry.fire(changed, "/n");
  registry.fire(changed, "/n");
  EXPECT_EQ(take().size(), 1u);
}

TEST_F(WatchRegistryTest, EventsReachTheKindTheyConcern) {
  add("data", "/n", Kind::data);
  add("children", "/n", Kind::children);
  registry.fire(child, "/n");
  EXPECT_EQ(take(), (Events{"children:children_changed"}));
  registry.fire(created, "/n");
  EXPECT_EQ(take(), (Events{"data:created"}));
  EXPECT_EQ(registry.size(), 0u);
}

TEST_F(WatchRegistryTest, DeletionReachesBothKinds) {
  add("data", "/n", Kind::data);
  add("children", "/n", Kind::children);
  registry.fire(deleted, "/n");
  EXPECT_EQ(take(), (Events{"data:deleted", "children:deleted"}));
  EXPECT_EQ(registry.size(), 0u);
}

TEST_F(WatchRegistryTest, UnknownPathsAndTypesAreIgnored) {
  add("a", "/n", Kind::data);
  registry.fire(changed, "/elsewhere");
  registry.fire(0, "/n");
  registry.fire(5, "/n");
  registry.fire(-1, "/n");
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(registry.size(), 1u);
}

TEST_F(WatchRegistryTest, RemovingOneLeavesTheOthers) {
  add("a", "/n", Kind::data);
  const auto id = add("b", "/n", Kind::data);
  add("c", "/n", Kind::data);
  registry.remove(id);
  registry.remove(id);
  registry.fire(changed, "/n");
  EXPECT_EQ(take(), (Events{"a:data_changed", "c:data_changed"}));
}

TEST_F(WatchRegistryTest, MayBeRemovedInsideItsOwnCallback) {
  WatchRegistry::Id id = 0;
  int calls = 0;
  id = registry.add("/n", Kind::data, [&](WatchEventType) {
    ++calls;
    registry.remove(id);
  });
  add("b", "/n", Kind::data);
  registry.fire(changed, "/n");
  EXPECT_EQ(calls, 1);
  EXPECT_EQ(take(), (Events{"b:data_changed"}));
}

TEST_F(WatchRegistryTest, RemovalOfAnotherInTheSameEventHoldsAtOnce) {
  WatchRegistry::Id later = 0;
  registry.add("/n", Kind::data, [&](WatchEventType) { registry.remove(later); });
  later = add("later", "/n", Kind::data);
  add("last", "/n", Kind::data);
  registry.fire(changed, "/n");
  EXPECT_EQ(take(), (Events{"last:data_changed"}));
  EXPECT_EQ(registry.size(), 0u);
}

TEST_F(WatchRegistryTest, RemovalAcrossKindsInTheSameEventHoldsAtOnce) {
  WatchRegistry::Id children = 0;
  registry.add("/n", Kind::data, [&](WatchEventType) { registry.remove(children); });
  children = add("children", "/n", Kind::children);
  registry.fire(deleted, "/n");
  EXPECT_TRUE(take().empty());
}

TEST_F(WatchRegistryTest, AWatchAddedInsideACallbackWaitsForTheNextEvent) {
  registry.add("/n", Kind::data, [&](WatchEventType) { add("again", "/n", Kind::data); });
  registry.fire(changed, "/n");
  EXPECT_TRUE(take().empty());
  EXPECT_EQ(registry.size(), 1u);
  registry.fire(deleted, "/n");
  EXPECT_EQ(take(), (Events{"again:deleted"}));
}

TEST_F(WatchRegistryTest, EndAllEndsEachOnceWithTheReason) {
  add("a", "/n", Kind::data);
  add("b", "/n", Kind::children);
  add("c", "/m", Kind::data);
  registry.end_all(WatchEventType::session_lost);
  EXPECT_EQ(take(), (Events{"c:session_lost", "a:session_lost", "b:session_lost"}));
  registry.end_all(WatchEventType::closed);
  EXPECT_TRUE(take().empty());
}

TEST_F(WatchRegistryTest, EndAllEndsAlsoWhatItsCallbacksAdd) {
  registry.add("/a", Kind::data, [&](WatchEventType) { add("late", "/z", Kind::data); });
  registry.end_all(WatchEventType::closed);
  EXPECT_EQ(take(), (Events{"late:closed"}));
}

TEST_F(WatchRegistryTest, PathBytesAreBounded) {
  const std::string long_path = "/" + std::string(9'995, 'x');  // 10,000 bytes with what the packet adds.
  const int fitting = static_cast<int>(WatchRegistry::max_path_bytes / 10'000);
  for (int i = 0; i < fitting; ++i) {
    const std::string path = long_path.substr(0, long_path.size() - 4) + std::to_string(1000 + i);
    ASSERT_TRUE(registry.has_room(path)) << i;
    add("x", path, Kind::data);
  }
  EXPECT_FALSE(registry.has_room(long_path));
  registry.fire(changed, long_path.substr(0, long_path.size() - 4) + "1000");
  EXPECT_TRUE(registry.has_room(long_path));
}

TEST_F(WatchRegistryTest, SeveralOnOnePathCountTheirBytesOnce) {
  const std::string path = "/" + std::string(100'000, 'x');
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(registry.has_room(path)) << i;
    add("x", path, Kind::data);
  }
}

TEST_F(WatchRegistryTest, WatchingAndDroppingForEverDoesNotGrow) {
  // The C client keeps its registration, so the entry stays; what was dropped must not pile up behind it.
  std::vector<WatchRegistry::Id> kept;
  for (int i = 0; i < 100'000; ++i)
    registry.remove(add("x", "/n", Kind::data));
  EXPECT_EQ(registry.size(), 0u);
  add("last", "/n", Kind::data);
  registry.fire(changed, "/n");
  EXPECT_EQ(take(), (Events{"last:data_changed"}));
}

}  // namespace
