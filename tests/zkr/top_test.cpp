// What `zkr top` shows and what its keys do, without a server and without a screen.

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>

#include "tools/zkr/commands/top_rows.hpp"
#include "tools/zkr/commands/top_view.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkrecipes::Contender;
using zkrecipes::Inspection;
using zkrecipes::RecipeKind;

const auto now = std::chrono::system_clock::time_point(1'800'000'000s);

Contender contender(const std::string& node, bool holds, std::chrono::seconds age = 0s,
                    const std::string& data = "host=web-1 pid=4711 since=x") {
  return {.node = node, .data = data, .session_id = 17, .since = now - age, .token = {}, .holds = holds};
}

TopRow row(const std::string& path, std::vector<Contender> contenders) {
  TopRow row;
  row.path = path;
  row.looked = now;
  row.found.kind = RecipeKind::mutex;
  row.found.contenders = std::move(contenders);
  return row;
}

TEST(ZkrTop, RowTellsHolderTimesAndNotes) {
  TopRow asked = row("/deploy", {contender("lock-0000000007", true, 252s), contender("lock-0000000009", false, 96s)});
  asked.handovers_per_minute = 0.3;
  asked.found.contenders.push_back(contender("other", false));
  asked.found.contenders.back().foreign = true;
  EXPECT_EQ(top_lines({asked}),
            (std::vector<std::string>{"PATH     KIND   HOLDER      HELD   WAIT  OLDEST  HANDOVERS/min  NOTE",
                                      "/deploy  mutex  web-1:4711  4m12s  1     1m36s   0.3            1 foreign"}));
  TopRow revoked = row("/b", {contender("lock-0000000001", true, 0s, "__REVOKE__")});
  EXPECT_EQ(top_lines({revoked}).back(), "/b    mutex  0x11    0s    0     -       0.0            revoke asked");
  TopRow free = row("/c", {});
  free.found.kind = RecipeKind::unknown;
  EXPECT_EQ(top_lines({free}).back(), "/c    -     -       -     0     -       0.0");
}

// Nobody may take it for free.
TEST(ZkrTop, WhatCouldNotBeReadHasNoNumbers) {
  TopRow unread = row("/a", {contender("lock-0000000001", true)});
  unread.trouble = "no access";
  EXPECT_EQ(top_lines({unread}).back(), "/a    -     ?       ?     ?     ?       ?              no access");
  TopRow never;
  never.path = "/b";
  never.trouble = "no access";
  for (const json::object& told : {top_json(unread), top_json(never)}) {
    for (const char* member : {"kind", "naming", "holder", "holders", "waiters", "held_ms", "handovers_per_minute"})
      EXPECT_TRUE(told.at(member).is_null()) << member;
    EXPECT_EQ(told.at("notes"), (json::array{"no access"}));
  }
}

TEST(ZkrTop, HolderInJsonIsOneName) {
  const TopRow several = row("/s", {contender("lease-0000000001", true), contender("lease-0000000002", true)});
  EXPECT_EQ(holder_text(several), "web-1:4711 +1");
  EXPECT_EQ(top_json(several).at("holder"), "web-1:4711");
  EXPECT_EQ(top_json(several).at("holders"), 2);
}

TEST(ZkrTop, ItemsThatNobodyHasClaimedWait) {
  TopRow queue = row("/q", {contender("item-0000000001", true, 5s)});
  queue.found.kind = RecipeKind::queue;
  queue.found.items = 3;
  EXPECT_EQ(top_lines({queue}).back(), "/q    queue  web-1:4711  5s    2     -       0.0            3 items");
}

// What the guide shows is what is shown.
TEST(ZkrTop, IsAsTheGuideShowsIt) {
  TopRow held =
      row("/locks/deploy", {contender("lock-0000000007", true, 252s), contender("lock-0000000009", false, 96s)});
  held.handovers_per_minute = 0.3;
  TopRow free = row("/locks/backup", {});
  free.found.kind = RecipeKind::unknown;
  TopView view;
  view.show({held, free});
  std::string shown = "$ zkr top /locks\n";
  for (const std::string& line : view.draw(24).lines)
    shown += line + "\n";
  std::ifstream file(DOCS "/zkr_look.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  EXPECT_NE(guide.find(shown), std::string::npos) << shown;
}

// A clock of a server that goes ahead.
TEST(ZkrTop, AgesAreNeverNegative) {
  const TopRow ahead = row("/a", {contender("lock-0000000001", true, -10s)});
  EXPECT_NE(top_lines({ahead}).back().find(" 0s "), std::string::npos);
  EXPECT_EQ(top_json(ahead).at("held_ms"), 0);
}

TEST(ZkrTop, HandoversAreCountedByTheNumbersOfNodes) {
  HandoverCount count;
  HandoverCount::Time time{};
  const auto look = [&](std::vector<Contender> contenders, std::chrono::seconds later) {
    time += later;
    Inspection found;
    found.contenders = std::move(contenders);
    count.look(found, time);
  };
  look({contender("lock-0000000007", true), contender("lock-0000000008", false)}, 0s);
  EXPECT_EQ(count.per_minute(time), 0);
  look({contender("lock-0000000007", true), contender("lock-0000000008", false)}, 15s);
  EXPECT_EQ(count.per_minute(time), 0);
  look({contender("lock-0000000008", true)}, 15s);
  EXPECT_EQ(count.per_minute(time), 2);
  look({}, 15s);
  look({contender("lock-0000000012", true)}, 15s);  // Three came and went, and this one.
  EXPECT_EQ(count.per_minute(time), 5);
  look({contender("lock-0000000012", true)}, 60s);
  EXPECT_EQ(count.per_minute(time), 4);
  look({contender("lock-0000000012", true)}, 1s);
  EXPECT_EQ(count.per_minute(time), 0);
  look({contender("lock", true)}, 0s);  // Without a number.
  EXPECT_EQ(count.per_minute(time), 1);
}

TEST(ZkrTop, RowsAreSorted) {
  std::vector<TopRow> rows = {row("/b", {contender("x", true, 5s)}), row("/a", {contender("x", true, 9s)}),
                              row("/c", {contender("x", true, 1s), contender("y", false)})};
  rows[0].handovers_per_minute = 3;
  const auto order = [&](TopSort sort) {
    sort_rows(rows, sort);
    return rows[0].path + rows[1].path + rows[2].path;
  };
  EXPECT_EQ(order(TopSort::waiters), "/c/a/b");
  EXPECT_EQ(order(TopSort::handovers), "/b/a/c");
  EXPECT_EQ(order(TopSort::held), "/a/b/c");
  EXPECT_EQ(order(TopSort::path), "/a/b/c");
  EXPECT_EQ(next(next(next(next(TopSort::path)))), TopSort::path);
}

// --- Keys ---------------------------------------------------------------------------------------------------------

class ZkrTopKeys : public testing::Test {
 protected:
  ZkrTopKeys() { view.show({row("/a", {contender("lock-0000000001", true)}), row("/b", {}), row("/c", {})}); }
  std::string selected() {
    const TopPicture picture = view.draw(24);
    return picture.lines.at(picture.selected).substr(0, 2);
  }
  std::string message() { return view.draw(24).lines.at(1); }

  TopView view;
};

TEST_F(ZkrTopKeys, SelectionStaysWithItsPath) {
  EXPECT_EQ(selected(), "/a");
  view.press(TopKey::up);
  view.press(TopKey::down);
  EXPECT_EQ(selected(), "/b");
  view.show({row("/0", {}), row("/a", {}), row("/b", {}), row("/c", {})});
  EXPECT_EQ(selected(), "/b");
  view.press(TopKey::down);
  view.press(TopKey::down);
  EXPECT_EQ(selected(), "/c");
  EXPECT_EQ(view.draw(5).lines.size(), 5U);
  EXPECT_EQ(view.draw(5).lines.back().substr(0, 2), "/c");
  EXPECT_EQ(view.draw(1).lines.size(), 4U);  // Of which the screen has the first.
}

TEST_F(ZkrTopKeys, NobodyIsAskedToGiveWayWithoutAnAnswer) {
  EXPECT_EQ(view.press(TopKey::revoke).revoke, "");
  EXPECT_EQ(message(), "/a: ask web-1:4711 to give it back? y/N");
  EXPECT_EQ(view.press(TopKey::enter).revoke, "");
  EXPECT_EQ(view.press(TopKey::yes).revoke, "");
  view.press(TopKey::revoke);
  EXPECT_FALSE(view.press(TopKey::quit).quit) << "it is an answer: no";
  view.press(TopKey::revoke);
  EXPECT_EQ(view.press(TopKey::yes).revoke, "/a");
  view.press(TopKey::down);
  view.press(TopKey::revoke);
  EXPECT_EQ(message(), "/b: nobody holds it");
  EXPECT_EQ(view.press(TopKey::yes).revoke, "");
}

// Between the question and its answer rows come and go.
TEST_F(ZkrTopKeys, AnswerIsAboutWhatWasAsked) {
  view.press(TopKey::revoke);
  view.show({row("/0", {contender("lock-0000000001", true)}), row("/a", {contender("lock-0000000001", true)})});
  EXPECT_EQ(view.press(TopKey::yes).revoke, "/a");
  view.press(TopKey::revoke);
  view.show({row("/0", {contender("lock-0000000001", true)})});
  (void)view.draw(24);
  EXPECT_EQ(view.press(TopKey::yes).revoke, "");
  EXPECT_EQ(message(), "/a: the holder has changed, nobody was asked");
  view.press(TopKey::revoke);
  EXPECT_EQ(message(), "/0: ask web-1:4711 to give it back? y/N");
  view.show({row("/0", {contender("lock-0000000002", true, 0s, "host=web-2 pid=1 since=x")})});
  EXPECT_EQ(view.press(TopKey::yes).revoke, "");
  EXPECT_EQ(message(), "/0: the holder has changed, nobody was asked");
}

TEST_F(ZkrTopKeys, EnterShowsWhoAndAnyKeyGoesBack) {
  view.press(TopKey::enter);
  EXPECT_EQ(view.draw(24).lines.at(2), "/a  mutex, 1 holds, 0 waits");
  view.press(TopKey::none);
  EXPECT_EQ(selected(), "/a");
  view.press(TopKey::sort);
  EXPECT_EQ(view.draw(24).lines.at(0).substr(0, 18), "3 paths by waiters");
  EXPECT_TRUE(view.press(TopKey::quit).quit);
}

}  // namespace
}  // namespace zkr
