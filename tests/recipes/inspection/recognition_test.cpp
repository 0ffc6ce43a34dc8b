#include "recipes/inspection/recognition.hpp"

#include <gtest/gtest.h>

namespace zkrecipes::detail {
namespace {

const std::string uuid = "11111111-2222-3333-4444-555555555555";
const std::string hex = "0123456789abcdef0123456789abcdef";

struct Case {
  std::vector<std::string> children;
  Recognition expected;
};

TEST(Recognition, NamesTellTheRecipe) {
  using Style = QueueLayout::Style;
  using Kind = RecipeKind;
  const Case cases[] = {
      {{}, {}},
      {{"config", "node-7"}, {}},
      {{"_c_" + uuid + "-lock-0000000007"}, {Kind::mutex, NodeNaming::curator}},
      {{"_c_" + uuid + "-lock--000000007"}, {Kind::mutex, NodeNaming::curator}},
      {{hex + "__lock__0000000007"}, {Kind::mutex, NodeNaming::kazoo}},
      {{hex + "__lock__0000000007", "_c_" + uuid + "-lock-0000000008"}, {Kind::mutex, NodeNaming::mixed}},
      {{"_c_" + uuid + "-__READ__0000000007"}, {Kind::shared_mutex, NodeNaming::curator}},
      {{"_c_" + uuid + "-__WRIT__0000000007"}, {Kind::shared_mutex, NodeNaming::curator}},
      {{hex + "__rlock__0000000007"}, {Kind::shared_mutex, NodeNaming::kazoo}},
      {{"_c_" + uuid + "-latch-0000000007"}, {Kind::election, NodeNaming::curator}},
      {{"lock", "_c_" + uuid + "-lock"}, {Kind::unfair_mutex, NodeNaming::own}},
      {{"leader", "_c_" + uuid + "-leader"}, {Kind::unfair_election, NodeNaming::own}},
      {{"locks", "leases"}, {Kind::semaphore, NodeNaming::curator}},
      {{"_c_" + uuid + "-member-0000000001"}, {Kind::double_barrier, NodeNaming::own}},
      {{"items", "claims", "slots"}, {Kind::queue, NodeNaming::own, Style::standard}},
      {{"qn-0000000001"}, {Kind::queue, NodeNaming::zookeeper, Style::zookeeper}},
      {{"queue-0000000001"}, {Kind::queue, NodeNaming::curator, Style::curator}},
      {{"queue-1000000050000000001"}, {Kind::priority_queue, NodeNaming::curator, Style::curator}},
      {{"queue-|order-17|0000000001", "queue-|19A3C5F7E00|0000000002"},
       {Kind::id_queue, NodeNaming::curator, Style::curator}},
      {{"queue-|7|0000000001"}, {Kind::id_queue, NodeNaming::curator, Style::curator}},
      {{"queue-|2026-11-29|0000000001"}, {Kind::id_queue, NodeNaming::curator, Style::curator}},
      {{"queue-|20261129|0000000001"}, {Kind::delay_queue, NodeNaming::curator, Style::curator}},
      {{"queue-|00000000|0000000001", "queue-|19A3C5F7E00|0000000002"},
       {Kind::delay_queue, NodeNaming::curator, Style::curator}},
      {{"queue-|19A3C5F7E00|0000000001", "queue-0000000002"}, {Kind::delay_queue, NodeNaming::curator, Style::curator}},
      {{"entry-100-0000000001"}, {Kind::priority_queue, NodeNaming::kazoo, Style::kazoo}},
      {{"entries", "taken"}, {Kind::priority_queue, NodeNaming::kazoo, Style::kazoo_locking}},
      {{"state", "history", "writes"}, {Kind::periodic_job, NodeNaming::own}},
      {{"runner", "_c_" + uuid + "-runner"}, {Kind::periodic_job, NodeNaming::own}},
      {{"meta-0000000000", "meta-0000000001"}, {Kind::migrations, NodeNaming::curator}},
      {{"hosts", "hosts-presence", "placer"}, {Kind::placement, NodeNaming::own}},
      {{"placement", "groups"}, {Kind::placement, NodeNaming::own}},
      {{"touch"}, {Kind::persistent_ttl_node, NodeNaming::curator}},
  };
  for (const Case& one : cases)
    EXPECT_EQ(recognise(one.children), one.expected) << testing::PrintToString(one.children);
}

TEST(Recognition, ContendersCountMoreThanTheirNeighbours) {
  const std::string contender = "_c_" + uuid + "-lock-0000000007";
  for (const char* neighbour : {"items", "claims", "locks", "leases", "entries", "x-12-0000000003"}) {
    EXPECT_EQ(recognise({neighbour, contender}).kind, RecipeKind::mutex) << neighbour;
    EXPECT_EQ(recognise({contender, neighbour}).kind, RecipeKind::mutex) << neighbour;
  }
}

// Names that look alike, but for the number.
TEST(Recognition, NothingIsGuessed) {
  for (const char* name : {"lock-7", "block-12345", "latch-", "queue-x", "qn-", "x-12-0000000003", "n_0000000001",
                           "guid-read-0000000001", "claims", "locks", "history", "hosts", "placement", "groups",
                           "placer", "meta-7", "meta-00000000007", "meta-000000000x"}) {
    EXPECT_EQ(recognise({name}), Recognition()) << name;
  }
}

// Holders of other recipes say the same of themselves, but for the last word.
TEST(Recognition, WhatRaisersSayOfThemselves) {
  for (const char* words :
       {"host=web-1 pid=7 since=2026-01-01T00:00:00Z raise=1-2", "id=ci job host=web-1 pid=7 since=x raise=1"})
    EXPECT_TRUE(describes_raiser(words)) << words;
  for (const char* words :
       {"", "host=web-1", "pid=7 host=web-1 since=x raise=1", "the host=web-1 pid=7 since=x raise=1", "10.0.0.8",
        "host=web-1 pid=7 since=2026-01-01T00:00:00Z"})
    EXPECT_FALSE(describes_raiser(words)) << words;
}

TEST(Recognition, EveryKindAndNamingHasAName) {
  for (int kind = 0; kind <= static_cast<int>(RecipeKind::persistent_ttl_node); ++kind)
    EXPECT_STRNE(to_string(static_cast<RecipeKind>(kind)), "");
  EXPECT_STREQ(to_string(RecipeKind::shared_mutex), "shared mutex");
  EXPECT_STREQ(to_string(NodeNaming::kazoo), "kazoo");
}

}  // namespace
}  // namespace zkrecipes::detail
