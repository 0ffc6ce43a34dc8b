#include "zkclient/detail/watches/armed_watches.hpp"

#include <gtest/gtest.h>

namespace {

using zkclient::Stat;
using zkclient::detail::ArmedWatches;
using ArmedKind = ArmedWatches::Kind;

Stat stat_of(std::int64_t czxid, std::int64_t mzxid, std::int64_t pzxid) {
  Stat stat;
  stat.czxid = czxid;
  stat.mzxid = mzxid;
  stat.pzxid = pzxid;
  return stat;
}

TEST(ArmedWatchesTest, NothingIsPendingWhileTheHandleLives) {
  ArmedWatches watches;
  watches.armed("/a", ArmedKind::data, true);
  EXPECT_EQ(watches.size(), 1u);
  EXPECT_TRUE(watches.pending().empty());
}

TEST(ArmedWatchesTest, WhatWasArmedIsPendingOnTheNextHandle) {
  ArmedWatches watches;
  watches.saw(stat_of(1, 7, 3));
  watches.saw(stat_of(2, 4, 5));
  watches.armed("/a", ArmedKind::data, true);
  watches.armed("/a", ArmedKind::children, true);
  watches.armed("/absent", ArmedKind::data, false);
  watches.handle_gone();
  const auto pending = watches.pending();
  ASSERT_EQ(pending.size(), 3u);
  for (const auto& watch : pending) {
    EXPECT_EQ(watch.seen, 7) << "the newest transaction of any kind";
    EXPECT_EQ(watch.existed, watch.path == "/a");
  }
}

TEST(ArmedWatchesTest, WhatIsArmedAgainIsNotPending) {
  ArmedWatches watches;
  watches.armed("/a", ArmedKind::data, true);
  watches.armed("/b", ArmedKind::data, true);
  watches.handle_gone();
  watches.armed("/a", ArmedKind::data, true);
  ASSERT_EQ(watches.pending().size(), 1u);
  EXPECT_EQ(watches.pending().front().path, "/b");
}

// A second handle that broke before it had armed everything: what it saw is no measure for what it never armed.
TEST(ArmedWatchesTest, WhatIsStillPendingKeepsItsOldMeasure) {
  ArmedWatches watches;
  watches.saw(stat_of(10, 10, 10));
  watches.armed("/a", ArmedKind::data, true);
  watches.armed("/b", ArmedKind::data, true);
  watches.handle_gone();
  watches.armed("/a", ArmedKind::data, true);
  watches.saw(stat_of(20, 20, 20));
  watches.handle_gone();
  const auto pending = watches.pending();
  ASSERT_EQ(pending.size(), 2u);
  EXPECT_EQ(pending[0].seen, 20);
  EXPECT_EQ(pending[1].seen, 10);
}

TEST(ArmedWatchesTest, EventsEndTheWatchesThatTheyEndInTheCClient) {
  const auto left_after = [](int type) {
    ArmedWatches watches;
    watches.armed("/a", ArmedKind::data, true);
    watches.armed("/a", ArmedKind::children, true);
    watches.armed("/b", ArmedKind::data, true);
    watches.fired(type, "/a");
    return watches.size();
  };
  EXPECT_EQ(left_after(ArmedWatches::created), 2u);
  EXPECT_EQ(left_after(ArmedWatches::data_changed), 2u);
  EXPECT_EQ(left_after(ArmedWatches::children_changed), 2u);
  EXPECT_EQ(left_after(ArmedWatches::deleted), 1u);
}

TEST(ArmedWatchesTest, MissedEvents) {
  struct Case {
    const char* what;
    ArmedKind kind;
    bool existed;
    std::optional<Stat> now;
    int event;
  };
  const Case cases[] = {
      {"unchanged", ArmedKind::data, true, stat_of(5, 10, 10), 0},
      {"data changed", ArmedKind::data, true, stat_of(5, 11, 10), ArmedWatches::data_changed},
      {"children changed, which a data watch does not tell", ArmedKind::data, true, stat_of(5, 10, 11), 0},
      {"deleted", ArmedKind::data, true, std::nullopt, ArmedWatches::deleted},
      {"deleted and created again", ArmedKind::data, true, stat_of(12, 12, 12), ArmedWatches::data_changed},
      {"still absent", ArmedKind::data, false, std::nullopt, 0},
      {"created", ArmedKind::data, false, stat_of(12, 12, 12), ArmedWatches::created},
      {"children unchanged", ArmedKind::children, true, stat_of(5, 10, 10), 0},
      {"data changed, which a child watch does not tell", ArmedKind::children, true, stat_of(5, 11, 10), 0},
      {"children changed", ArmedKind::children, true, stat_of(5, 10, 11), ArmedWatches::children_changed},
      {"parent deleted", ArmedKind::children, true, std::nullopt, ArmedWatches::deleted},
      {"parent deleted and created again", ArmedKind::children, true, stat_of(12, 12, 12),
       ArmedWatches::children_changed},
  };
  for (const Case& c : cases) {
    EXPECT_EQ(ArmedWatches::missed({"/a", c.kind, c.existed, 10}, c.now), c.event) << c.what;
  }
}

}  // namespace
