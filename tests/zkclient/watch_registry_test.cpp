#include "zkclient/detail/watches/watch_registry.hpp"

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
    ASSERT_TRUE(registry.has_room(path, Kind::data)) << i;
    add("x", path, Kind::data);
  }
  EXPECT_FALSE(registry.has_room(long_path, Kind::data));
  registry.fire(changed, long_path.substr(0, long_path.size() - 4) + "1000");
  EXPECT_TRUE(registry.has_room(long_path, Kind::data));
}

TEST_F(WatchRegistryTest, SeveralOnOnePathCountTheirBytesOnce) {
  const std::string path = "/" + std::string(100'000, 'x');
  for (int i = 0; i < 50; ++i) {
    ASSERT_TRUE(registry.has_room(path, Kind::data)) << i;
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

// ---- Registrations that nobody waits for ----------------------------------------------------------------------------

class IdleWatchTest : public WatchRegistryTest {
 protected:
  using Removal = WatchRegistry::Removal;
  using Keys = std::vector<WatchRegistry::Key>;
  // A read that arms a watch, from its sending to the end.
  WatchRegistry::Id read(const std::string& path, Kind kind) {
    EXPECT_TRUE(registry.reserve(path, kind));
    const auto id = add("x", path, kind);
    registry.settle(path, kind, true);
    return id;
  }
  Keys due() { return registry.take_idle(WatchRegistry::Clock::now() + 2 * WatchRegistry::idle_time); }
};

TEST_F(IdleWatchTest, IsRemovedAfterAWhileAndOnce) {
  int told = 0;
  registry.on_idle([&] { ++told; });
  const auto before = WatchRegistry::Clock::now();
  registry.remove(read("/n", Kind::data));
  EXPECT_EQ(told, 1);
  EXPECT_TRUE(registry.take_idle(before + WatchRegistry::idle_time / 2).empty()) << "too early";
  EXPECT_EQ(due(), (Keys{{"/n", Kind::data}}));
  EXPECT_TRUE(due().empty()) << "on its way";
  registry.removed({"/n", Kind::data}, Removal::done);
  EXPECT_FALSE(registry.idle_due());
}

TEST_F(IdleWatchTest, ThoseWithAListenerOrAReadInFlightStay) {
  read("/listener", Kind::data);
  registry.remove(read("/listener", Kind::data));
  registry.remove(read("/read", Kind::data));
  ASSERT_TRUE(registry.reserve("/read", Kind::data));
  EXPECT_TRUE(due().empty());
  registry.settle("/read", Kind::data, false);
  EXPECT_EQ(due(), (Keys{{"/read", Kind::data}})) << "the registration of the first read is still there";
}

TEST_F(IdleWatchTest, AReadThatNobodyWaitsForAnyMoreLeavesAnIdleOne) {
  ASSERT_TRUE(registry.reserve("/n", Kind::children));
  registry.settle("/n", Kind::children, true);
  EXPECT_EQ(due(), (Keys{{"/n", Kind::children}}));
}

TEST_F(IdleWatchTest, AReadThatArmedNothingLeavesNothing) {
  ASSERT_TRUE(registry.reserve("/n", Kind::data));
  registry.settle("/n", Kind::data, false);
  EXPECT_FALSE(registry.idle_due());
}

TEST_F(IdleWatchTest, AnEventEndsAnIdleOne) {
  registry.remove(read("/n", Kind::data));
  registry.fire(changed, "/n");
  EXPECT_TRUE(due().empty());
  registry.remove(read("/n", Kind::data));
  EXPECT_EQ(due().size(), 1u);
  registry.fire(changed, "/n");
  registry.removed({"/n", Kind::data}, Removal::done);
  EXPECT_TRUE(due().empty());
}

TEST_F(IdleWatchTest, AWatchArmedDuringTheRemovalStays) {
  registry.remove(read("/n", Kind::data));
  ASSERT_EQ(due().size(), 1u);
  ASSERT_TRUE(registry.reserve("/n", Kind::data));  // Sent after the removal, answered after it.
  registry.removed({"/n", Kind::data}, Removal::done);
  add("later", "/n", Kind::data);
  registry.settle("/n", Kind::data, true);
  EXPECT_TRUE(due().empty());
  registry.fire(changed, "/n");
  EXPECT_EQ(take(), (Events{"later:data_changed"}));
}

TEST_F(IdleWatchTest, ALostRemovalIsTriedAgainAndARefusedOneIsNot) {
  registry.remove(read("/n", Kind::data));
  ASSERT_EQ(due().size(), 1u);
  registry.removed({"/n", Kind::data}, Removal::try_later);
  ASSERT_EQ(due().size(), 1u);
  registry.removed({"/n", Kind::data}, Removal::refused);
  EXPECT_TRUE(due().empty());
}

TEST_F(IdleWatchTest, TooManyBytesDoNotWait) {
  const std::string padding(9'990, 'x');
  const auto before = WatchRegistry::Clock::now();
  for (int i = 0; i < 13; ++i)
    registry.remove(read("/" + padding + std::to_string(i), Kind::data));
  EXPECT_EQ(registry.take_idle(before + WatchRegistry::idle_time / 2).size(), 3u) << "100 kB may stay";
}

TEST_F(IdleWatchTest, RemovalsInFlightAreBounded) {
  for (int i = 0; i < 1000; ++i)
    registry.remove(read("/n" + std::to_string(i), Kind::data));
  EXPECT_EQ(due().size(), WatchRegistry::max_removals);
  EXPECT_TRUE(due().empty());
  registry.removed({"/n0", Kind::data}, Removal::done);
  EXPECT_EQ(due().size(), 1u);
}

TEST_F(IdleWatchTest, TheEndOfTheSessionEndsAll) {
  registry.remove(read("/idle", Kind::data));
  registry.remove(read("/going", Kind::data));
  ASSERT_TRUE(registry.reserve("/read", Kind::data));
  ASSERT_EQ(due().size(), 2u);
  registry.end_all(WatchEventType::session_lost);
  registry.removed({"/going", Kind::data}, Removal::done);
  registry.settle("/read", Kind::data, true);
  EXPECT_FALSE(registry.idle_due());
  EXPECT_TRUE(take().empty());
}

TEST_F(IdleWatchTest, ReadsInFlightTakeRoom) {
  const std::string padding(299'990, 'x');
  for (int i = 0; i < 3; ++i)
    ASSERT_TRUE(registry.reserve("/" + padding + std::to_string(i), Kind::data)) << i;
  EXPECT_FALSE(registry.reserve("/" + padding + "3", Kind::data));
  EXPECT_TRUE(registry.reserve("/" + padding + "2", Kind::data)) << "counted once";
  registry.settle("/" + padding + "0", Kind::data, false);
  EXPECT_TRUE(registry.reserve("/" + padding + "3", Kind::data));
}

}  // namespace
