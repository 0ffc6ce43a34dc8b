#include "recipes/replication/placement_format.hpp"

#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace zkrecipes::detail {
namespace {

TEST(PlacementFormat, WhatIsWrittenIsRead) {
  const ReplicaHost host{"a", "rack-1", 7};
  EXPECT_EQ(encode(host), "host 1 7 rack-1");
  EXPECT_EQ(decode_host("a", encode(host)), host);
  const ReplicaHost alone{"b", "", 0};
  EXPECT_EQ(encode(alone), "host 1 0 -");
  EXPECT_EQ(decode_host("b", encode(alone)), alone);
  const PlacementNode node{{"b", "c"}, {"a", "b", "c"}};
  EXPECT_EQ(encode(node), "placement 1\na leaving\nb wanted\nc wanted\n");
  EXPECT_EQ(decode_placement(encode(node)), node);
}

TEST(PlacementFormat, ForeignHostsAreRefused) {
  for (const char* text : {"", "host", "host 1 ", "host 1 7", "host 1 7 ", "host 1 -1 r", "host 1 x r", "host 2 7 r",
                           "host 1 7 a b", "host 1 7 a/b", "host 1 1000001 r", "host 1 99999999999 r"})
    EXPECT_FALSE(decode_host("a", text)) << text;
  EXPECT_FALSE(decode_host("a b", "host 1 7 r"));
}

TEST(PlacementFormat, ForeignPlacementsAreRefused) {
  for (const char* text :
       {"", "placement 1", "placement 1\n", "placement 2\n", "placement 1\na", "placement 1\na wanted",
        "placement 1\na\n", "placement 1\na gone\n", "placement 1\n wanted\n", "placement 1\nb wanted\na wanted\n",
        "placement 1\na wanted\na leaving\n", "placement 1\na/b wanted\n", "placement 1\na b wanted\n",
        "placement 1\n\n"})
    EXPECT_FALSE(decode_placement(text)) << text;
  std::string many = "placement 1\n";
  for (int i = 10'000; i < 15'000; ++i)
    many += std::to_string(i) + " wanted\n";
  EXPECT_FALSE(decode_placement(many));
}

}  // namespace
}  // namespace zkrecipes::detail
