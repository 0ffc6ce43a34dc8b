#include <zkclient/path.hpp>

#include <set>
#include <sstream>
#include <string>
#include <unordered_set>

#include <gtest/gtest.h>
#include <zkclient/error.hpp>

namespace {

using zkclient::Errc;
using zkclient::Error;
using zkclient::Path;

bool refused(std::string_view text) {
  try {
    const Path path(text);
    return false;
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), Errc::invalid_path);
    return true;
  }
}

TEST(PathTest, RootIsTheDefault) {
  const Path root;
  EXPECT_EQ(root.str(), "/");
  EXPECT_TRUE(root.is_root());
  EXPECT_EQ(root, Path("/"));
  EXPECT_EQ(root.name(), "");
  EXPECT_EQ(root.parent(), root);
}

TEST(PathTest, KeepsTheTextAsItIs) {
  for (const char* text : {"/a", "/a/b", "/a b/c", "/...", "/.a", "/a.", "/..a", "/zookeeper/config", "/-",
                           "/\xc3\xa4\xe2\x82\xac",          // Two and three bytes of UTF-8.
                           "/\xc2\xa0", "/\xef\xa4\x80"}) {  // The neighbours of what is refused: U+00A0, U+F900.
    EXPECT_EQ(Path(text).str(), text);
    EXPECT_FALSE(Path(text).is_root());
  }
  EXPECT_EQ(Path("/" + std::string(Path::max_size - 1, 'x')).str().size(), Path::max_size);
}

TEST(PathTest, RefusesWhatIsNoPath) {
  for (const char* text : {"", "a", "a/b", "//", "/a/", "//a", "/a//b", "/.", "/..", "/a/.", "/a/..", "/./a", "/../a",
                           "/a/./b", "/a/../b"}) {
    EXPECT_TRUE(refused(text)) << text;
  }
  EXPECT_TRUE(refused("/" + std::string(Path::max_size, 'x')));
}

TEST(PathTest, RefusesCharactersThatTheServerRefuses) {
  EXPECT_TRUE(refused(std::string_view("/a\0b", 4)));
  for (int c = 1; c < 0x20; ++c)
    EXPECT_TRUE(refused(std::string("/a") + static_cast<char>(c))) << c;
  EXPECT_TRUE(refused("/\x7f"));
  EXPECT_TRUE(refused("/\xc2\x80"));          // U+0080
  EXPECT_TRUE(refused("/\xc2\x9f"));          // U+009F
  EXPECT_TRUE(refused("/\xee\x80\x80"));      // U+E000
  EXPECT_TRUE(refused("/\xef\xa3\xbf"));      // U+F8FF
  EXPECT_TRUE(refused("/\xef\xbf\xb0"));      // U+FFF0
  EXPECT_TRUE(refused("/\xef\xbf\xbf"));      // U+FFFF
  EXPECT_TRUE(refused("/\xf0\x9f\x98\x80"));  // Beyond U+FFFF: two surrogates for the server.
}

TEST(PathTest, RefusesWhatIsNotUtf8) {
  for (const char* text : {"/\x80", "/\xff", "/\xc3", "/\xc3(", "/\xe2\x82", "/\xe2(\xa1", "/\xc0\xaf", "/\xe0\x80\xaf",
                           "/\xf0\x80\x80\xaf", "/\xed\xa0\x80", "/\xf4\x90\x80\x80", "/\xf8\x88\x80\x80\x80"}) {
    EXPECT_TRUE(refused(text)) << text + 1;
  }
}

TEST(PathTest, ErrorShowsTheTextInPrintableForm) {
  try {
    const Path path("/bad\x01\xff");
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_EQ(error.path(), "/bad\\x01\\xff");
    EXPECT_NE(std::string(error.what()).find("/bad\\x01\\xff"), std::string::npos) << error.what();
  }
  try {
    const Path path("/" + std::string(Path::max_size, 'x'));
    FAIL() << "accepted";
  } catch (const Error& error) {
    EXPECT_LT(std::string(error.what()).size(), 500u);
  }
}

TEST(PathTest, ParentAndName) {
  const Path path("/a/b/c");
  EXPECT_EQ(path.name(), "c");
  EXPECT_EQ(path.parent(), Path("/a/b"));
  EXPECT_EQ(path.parent().parent(), Path("/a"));
  EXPECT_EQ(path.parent().parent().parent(), Path());
}

TEST(PathTest, SlashAppends) {
  EXPECT_EQ(Path() / "a", Path("/a"));
  EXPECT_EQ(Path("/a") / "b", Path("/a/b"));
  EXPECT_EQ(Path("/a") / "b/c", Path("/a/b/c"));
  for (const char* bad : {"", "/b", "b/", ".", "..", "b//c", "\x01"}) {
    EXPECT_THROW((void)(Path("/a") / bad), Error) << bad;
    EXPECT_THROW((void)(Path() / bad), Error) << bad;
  }
  EXPECT_THROW((void)(Path("/" + std::string(Path::max_size - 1, 'x')) / "y"), Error);
}

TEST(PathTest, StartsWithCountsWholeComponents) {
  EXPECT_TRUE(Path("/a/b").starts_with("/a"));
  EXPECT_TRUE(Path("/a/b").starts_with("/a/b"));
  EXPECT_TRUE(Path("/a/b").starts_with("/"));
  EXPECT_TRUE(Path().starts_with("/"));
  EXPECT_FALSE(Path("/ab").starts_with("/a"));
  EXPECT_FALSE(Path("/a").starts_with("/a/b"));
  EXPECT_FALSE(Path().starts_with("/a"));
}

TEST(PathTest, IsAValue) {
  EXPECT_LT(Path("/a"), Path("/b"));
  EXPECT_EQ(std::set<Path>({"/b", "/a", "/b"}).size(), 2u);
  EXPECT_EQ(std::unordered_set<Path>({"/b", "/a", "/b"}).size(), 2u);
  std::ostringstream out;
  out << Path("/a/b");
  EXPECT_EQ(out.str(), "/a/b");
  EXPECT_EQ(std::string_view(Path("/a")), "/a");
  EXPECT_EQ(Path(std::string("/a")), Path("/a"));
}

}  // namespace
