#include <zkclient/format.hpp>

#include <gtest/gtest.h>
#include <zkrecipes/format.hpp>

namespace {

TEST(FormatTest, NamesAndTexts) {
  EXPECT_EQ(fmt::format("{} {:>6}", zkclient::Path("/a/b"), zkclient::Path("/c")), "/a/b     /c");
  EXPECT_EQ(fmt::format("{}", zkclient::Errc::no_node), make_error_code(zkclient::Errc::no_node).message());
  EXPECT_EQ(fmt::format("{}", zkclient::ErrorKind::in_doubt), "in doubt");
  const zkclient::Error error(zkclient::Errc::no_node, "get", "/a", "why");
  EXPECT_EQ(fmt::format("{}", error), error.what());
  EXPECT_EQ(fmt::format("{:<10}|", zkclient::ConnectionState::lost), "lost      |");
  EXPECT_EQ(fmt::format("{}", zkclient::WatchEventType::deleted), to_string(zkclient::WatchEventType::deleted));
  EXPECT_EQ(fmt::format("{}", zkrecipes::LeaseState::uncertain), "uncertain");
}

TEST(FormatTest, Numbers) {
  zkclient::Stat stat;
  stat.czxid = 0x1a;
  stat.mzxid = 0x1b;
  stat.pzxid = 0x1c;
  stat.version = 3;
  stat.children_count = 2;
  stat.data_length = 5;
  EXPECT_EQ(fmt::format("{}", stat), "czxid=0x1a mzxid=0x1b pzxid=0x1c version=3 children=2 bytes=5 owner=0x0");
  EXPECT_EQ(fmt::format("{} {:#x}", zkrecipes::FencingToken{255}, zkrecipes::FencingToken{255}), "255 0xff");
  EXPECT_EQ(fmt::format("{}", zkrecipes::FencingToken{.value = 7, .epoch = 2}), "2.7");
}

}  // namespace
