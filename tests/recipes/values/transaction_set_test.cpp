// What a function has read and changed becomes one transaction: rules without a server.

#include "recipes/values/transaction_set.hpp"

#include <gtest/gtest.h>

#include <limits>
#include <string>
#include <variant>
#include <vector>

#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {
namespace {

namespace zk = zkclient::detail;
using zkclient::Check;
using zkclient::Errc;
using zkclient::Transaction;
using Lines = std::vector<std::string>;

SeenNode present(std::string data, std::int32_t version = 3) { return {true, std::move(data), version, 17, ""}; }
SeenNode absent(std::string missing) { return {false, "", 0, 0, std::move(missing)}; }

// One line for each operation.
Lines lines(const TransactionSet& set, bool writing = true) {
  struct Text {
    static std::string version(std::int32_t number) {
      return number == zkclient::any_version ? "" : " if " + std::to_string(number);
    }
    std::string operator()(const Transaction::Create& one) const {
      const char* kind = one.mode == zkclient::CreateMode::persistent_sequential ? "number " : "create ";
      return kind + one.path.str() + " " + *one.data;
    }
    std::string operator()(const Transaction::Set& one) const {
      return "set " + one.path.str() + " " + *one.data + version(one.version);
    }
    std::string operator()(const Transaction::Remove& one) const {
      return "remove " + one.path.str() + version(one.version);
    }
    std::string operator()(const Check& one) const { return "check " + one.path.str() + version(one.version); }
  };
  Lines all;
  for (const Transaction::Operation& operation : set.operations(zkclient::open_acl(), "id", writing))
    all.push_back(std::visit(Text(), operation));
  return all;
}

TEST(TransactionSet, WhatWasReadIsChecked) {
  TransactionSet set;
  EXPECT_EQ(lines(set), Lines());
  set.add("/a", present("1"));
  set.add("/b/c", absent("/b/c"));
  set.add("/d/e/f", absent("/d/e"));
  EXPECT_EQ(lines(set), (Lines{"check /a if 3", "create /b/c ", "remove /b/c", "create /d/e ", "remove /d/e"}));
  EXPECT_FALSE(set.writes());
  EXPECT_EQ(set.paths(), (Lines{"/a", "/b/c", "/d/e/f"}));
}

TEST(TransactionSet, NodesThatAreMissingTogetherAreCheckedOnce) {
  TransactionSet set;
  set.add("/d/e/f", absent("/d/e"));
  set.add("/d/e/g", absent("/d/e"));
  EXPECT_EQ(lines(set), (Lines{"create /d/e ", "remove /d/e"}));
}

TEST(TransactionSet, ChangesExpectWhatWasRead) {
  TransactionSet set;
  set.add("/a", present("1"));
  set.add("/b", absent("/b"));
  set.add("/c", present("", -7));
  EXPECT_EQ(set.set("/a", "2"), std::nullopt);
  EXPECT_EQ(set.create("/b", "new"), std::nullopt);
  EXPECT_EQ(set.remove("/c"), std::nullopt);
  EXPECT_EQ(set.data("/a"), "2");
  EXPECT_EQ(set.data("/b"), "new");
  EXPECT_EQ(set.data("/c"), std::nullopt);
  EXPECT_EQ(lines(set), (Lines{"set /a 2 if 3", "create /b new", "remove /c if -7"}));
  EXPECT_EQ(lines(set, false), (Lines{"check /a if 3", "check /c if -7", "create /b ", "remove /b"}))
      << "the same without the changes";
  ASSERT_NE(set.first_set("/a"), nullptr);
  EXPECT_EQ(set.first_set("/a")->czxid, 17);
  for (const char* other : {"/b", "/c", "/x"})
    EXPECT_EQ(set.first_set(other), nullptr);
}

TEST(TransactionSet, FurtherChangesOfANodeExpectNothing) {
  TransactionSet set;
  set.add("/a", present("1"));
  set.add("/b", absent("/b"));
  (void)set.set("/a", "2");
  (void)set.set("/a", "3");
  (void)set.remove("/a");
  (void)set.create("/a", "4");
  (void)set.create("/b", "5");
  (void)set.set("/b", "6");
  (void)set.remove("/b");
  EXPECT_EQ(lines(set),
            (Lines{"set /a 2 if 3", "set /a 3", "remove /a", "create /a 4", "create /b 5", "set /b 6", "remove /b"}));
  EXPECT_EQ(set.data("/a"), "4");
  EXPECT_EQ(set.data("/b"), std::nullopt);
}

TEST(TransactionSet, WhatCannotBe) {
  TransactionSet set;
  set.add("/a", present("1"));
  set.add("/b", absent("/b"));
  set.add("/b/c", absent("/b"));
  set.add("/x/y", absent("/x"));
  EXPECT_EQ(set.create("/a", ""), Errc::node_exists);
  EXPECT_EQ(set.set("/b", ""), Errc::no_node);
  EXPECT_EQ(set.remove("/b"), Errc::no_node);
  EXPECT_EQ(set.create("/b/c", ""), Errc::no_node) << "its parent was read";
  EXPECT_EQ(set.create("/x/y", ""), Errc::no_node) << "its parent was not";
  EXPECT_FALSE(set.writes());
  EXPECT_EQ(set.create("/b", ""), std::nullopt);
  EXPECT_EQ(set.create("/b/c", ""), std::nullopt) << "now there is one";
  EXPECT_EQ(lines(set), (Lines{"check /a if 3", "create /x ", "remove /x", "create /b ", "create /b/c "}));
}

TEST(TransactionSet, AListIsCheckedByTheNumberThatComesNext) {
  TransactionSet set;
  set.add_list("/d", {{"x", "y"}, 12, false});
  EXPECT_EQ(lines(set), (Lines{"number /d/_c_id- ", "remove /d/_c_id-0000000012", "check /d/x", "check /d/y"}));
  EXPECT_TRUE(set.knows_list("/d"));
  EXPECT_FALSE(set.knows_list("/"));
}

TEST(TransactionSet, AListShowsTheChanges) {
  TransactionSet set;
  set.add_list("/d", {{"y", "x"}, 2, false});
  set.add("/d", present(""));
  set.add("/d/a", absent("/d/a"));
  set.add("/d/a/below", absent("/d/a"));
  set.add("/d/x", present(""));
  (void)set.create("/d/a", "");
  (void)set.create("/d/a/below", "");
  (void)set.remove("/d/x");
  EXPECT_EQ(set.names("/d"), (Lines{"a", "y"}));
  EXPECT_EQ(set.remove("/d"), Errc::not_empty);
  EXPECT_EQ(lines(set), (Lines{"number /d/_c_id- ", "remove /d/_c_id-0000000002", "check /d/y", "check /d/x",
                               "check /d if 3", "create /d/a ", "create /d/a/below ", "remove /d/x if 3"}))
      << "lists before all that makes children";
}

TEST(TransactionSet, AnEphemeralNodeHasNoChildren) {
  TransactionSet set;
  set.add_list("/d", {{}, 0, true});
  EXPECT_EQ(lines(set), Lines());
}

TEST(TransactionSet, TheNumberOfCreations) {
  zkclient::Stat stat;
  stat.children_version = 10;  // Six were made, two of them are left, or seven and four.
  stat.children_count = 2;
  EXPECT_EQ(creations_of(stat), 6);
  stat.children_count = 4;
  EXPECT_EQ(creations_of(stat), 7);
  stat.children_version = -2;  // 2^31 - 1 were made.
  stat.children_count = 0;
  EXPECT_EQ(creations_of(stat), std::numeric_limits<std::int32_t>::max());
}

TEST(TransactionSet, TheVersionThatMeansAnyIsSkipped) {
  TransactionSet set;
  set.add("/a", present("1", -2));
  set.add("/b", present("1", -3));
  (void)set.set("/a", "2");
  (void)set.set("/b", "2");
  (void)set.set("/b", "3");
  EXPECT_EQ(lines(set), (Lines{"set /a 2 if -2", "set /a 2", "set /b 2 if -3", "set /b 3", "set /b 3"}));
  EXPECT_EQ(set.uncheckable(), "");
  set.add("/c", present("1", -1));
  EXPECT_EQ(set.uncheckable(), "/c");
}

TEST(TransactionSet, AfterTheGreatestVersionComesTheLeast) {
  TransactionSet set;
  set.add("/a", present("1", std::numeric_limits<std::int32_t>::max()));
  (void)set.set("/a", "2");
  EXPECT_EQ(lines(set), (Lines{"set /a 2 if 2147483647"}));
}

TEST(TransactionSet, WhichRefusalsAreConflicts) {
  TransactionSet set;
  set.add("/a", present("1"));
  set.add_list("/d", {});
  for (const int code : {zk::rc::bad_version, zk::rc::no_node, zk::rc::node_exists})
    EXPECT_TRUE(set.is_conflict("/a", code));
  EXPECT_FALSE(set.is_conflict("/a", zk::rc::no_auth));
  EXPECT_FALSE(set.is_conflict("/a", zk::rc::not_empty));
  EXPECT_TRUE(set.is_conflict("/d", zk::rc::not_empty)) << "it was empty when it was read";
}

}  // namespace
}  // namespace zkrecipes::detail
