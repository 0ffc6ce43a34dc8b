#include <zkrecipes/layout.hpp>

#include <gtest/gtest.h>

#include "recipes/kernel/sequence.hpp"

namespace zkrecipes {
namespace {

constexpr const char* uuid = "0b1c5a8e-77d2-4c65-9f0a-d6d9a1b2c3d4";

TEST(Layout, CuratorsNames) {
  const Layout layout = Layout::curator();
  EXPECT_EQ(layout.name(uuid, "lock"), "_c_0b1c5a8e-77d2-4c65-9f0a-d6d9a1b2c3d4-lock-");
  EXPECT_EQ(layout.name(uuid, "latch"), "_c_0b1c5a8e-77d2-4c65-9f0a-d6d9a1b2c3d4-latch-");
  EXPECT_EQ(layout.parent_mode(), zkclient::CreateMode::container);
}

TEST(Layout, KazoosNames) {
  const Layout layout = Layout::kazoo();
  EXPECT_EQ(layout.name(uuid, "lock"), "0b1c5a8e77d24c659f0ad6d9a1b2c3d4__lock__");
  EXPECT_EQ(layout.name(uuid, "latch"), "0b1c5a8e77d24c659f0ad6d9a1b2c3d4__lock__") << "kazoo's elections are locks";
  EXPECT_EQ(layout.parent_mode(), zkclient::CreateMode::persistent);
}

TEST(Layout, TheMarkerIsTheUniqueBeginningOfTheName) {
  for (const Layout& layout : {Layout::curator(), Layout::kazoo()}) {
    for (const char* kind : {"lock", "latch"}) {
      const std::string name = layout.name(uuid, kind);
      const std::string marker = layout.marker(uuid, kind);
      EXPECT_TRUE(name.starts_with(marker));
      EXPECT_FALSE(layout.name("1b1c5a8e-77d2-4c65-9f0a-d6d9a1b2c3d4", kind).starts_with(marker));
    }
  }
}

TEST(Layout, TheSequenceNumberIsFoundInTheNames) {
  const std::vector<std::string_view> locks = {"lock-", "__lock__"};
  EXPECT_EQ(detail::sequence_of(Layout::curator().name(uuid, "lock") + "0000000042", locks), 42);
  EXPECT_EQ(detail::sequence_of(Layout::kazoo().name(uuid, "lock") + "0000000042", locks), 42);
  EXPECT_EQ(detail::sequence_of(Layout::curator().name(uuid, "latch") + "0000000042", locks), std::nullopt);
}

}  // namespace
}  // namespace zkrecipes
