#include "recipes/kernel/lost_leases.hpp"

#include <string>

#include <gtest/gtest.h>

namespace {

using zkrecipes::detail::LostLeases;

TEST(LostLeases, OneIsToldByItsPath) {
  LostLeases lost(nullptr, "its session is over");
  lost.add("/a");
  EXPECT_EQ(lost.text(), "lease lost: /a: its session is over");
}

TEST(LostLeases, OfManyTheFirstPathsAndTheNumberAreTold) {
  LostLeases lost(nullptr, "its session is over");
  for (const char* path : {"/a", "/b", "/c"})
    lost.add(path);
  EXPECT_EQ(lost.text(), "3 leases lost: /a, /b, /c: its session is over");
  for (int i = 0; i < 197; ++i)
    lost.add("/x" + std::to_string(i));
  EXPECT_EQ(lost.text(), "200 leases lost: /a, /b, /c and 197 more: its session is over");
}

TEST(LostLeases, AnotherCauseOrClientIsAnotherLine) {
  const LostLeases lost(nullptr, "its node is gone");
  EXPECT_TRUE(LostLeases(nullptr, "its node is gone").are_of(lost));
  EXPECT_FALSE(LostLeases(nullptr, "its session is over").are_of(lost));
}

}  // namespace
