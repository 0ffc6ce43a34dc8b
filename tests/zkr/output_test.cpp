// How `zkr` writes and reads what it shows, without a server.

#include <gtest/gtest.h>

#include <sys/stat.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <thread>

#include "tests/support/temporary_folder.hpp"
#include "tools/zkr/cli/acl_text.hpp"
#include "tools/zkr/cli/base64.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/cli/metrics_file.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/self_description.hpp"
#include "tools/zkr/commands/changes.hpp"

namespace zkr {
namespace {

std::string json_of_data(const zkclient::DataView& data) {
  json::object object;
  add_data(object, data);
  return json_text(object);
}

// RFC 4648, section 10.
TEST(ZkrBase64, KnownTexts) {
  const std::pair<std::string, std::string> pairs[] = {{"", ""},
                                                       {"f", "Zg=="},
                                                       {"fo", "Zm8="},
                                                       {"foo", "Zm9v"},
                                                       {"foob", "Zm9vYg=="},
                                                       {"fooba", "Zm9vYmE="},
                                                       {"foobar", "Zm9vYmFy"}};
  for (const auto& [bytes, text] : pairs) {
    EXPECT_EQ(to_base64(bytes), text);
    EXPECT_EQ(from_base64(text), bytes);
  }
  for (const char* wrong : {"Z", "Zg=", "Zg", "Z===", "Zh==", "Zm9=", "Zg==Zg==", "Zm 9", "Zm9v\n"})
    EXPECT_FALSE(from_base64(wrong)) << wrong;
}

TEST(ZkrBase64, AllBytesComeBack) {
  std::minstd_rand random(7);
  for (std::size_t size = 0; size < 300; ++size) {
    std::string bytes(size, '\0');
    for (char& byte : bytes)
      byte = static_cast<char>(random());
    EXPECT_EQ(from_base64(to_base64(bytes)), bytes);
  }
}

TEST(ZkrJson, DataIsTextWhereItCanBe) {
  EXPECT_EQ(json_of_data({}), R"({"data":null})");
  EXPECT_EQ(json_of_data(""), R"({"data":""})");
  EXPECT_EQ(json_of_data("a\n\"é€😀"), R"({"data":"a\n\"é€😀"})");
  for (const char* bytes :
       {"\xff", "a\x80", "\xc0\xaf", "\xe0\x80\xaf", "\xed\xa0\x80", "\xf4\x90\x80\x80", "\xc3", "\xf0\x9f\x98"})
    EXPECT_TRUE(json_of_data(bytes).starts_with(R"({"data_base64":)")) << json_of_data(bytes);
}

TEST(ZkrJson, DataComesBack) {
  for (const zkclient::DataView data : {zkclient::DataView(), zkclient::DataView(""), zkclient::DataView("words"),
                                        zkclient::DataView("\xff"), zkclient::DataView(std::string_view("\0", 1))}) {
    const json::value written = parse_json(json_of_data(data), "data");
    const auto read = take_data(written.get_object(), "line 1");
    EXPECT_EQ(read.has_value(), data.has_value());
    EXPECT_EQ(read.value_or(""), data.value_or(""));
  }
  for (const char* wrong : {"{}", R"({"data":7})", R"({"data_base64":"Z"})"})
    EXPECT_THROW((void)take_data(parse_json(wrong, "line 1").get_object(), "line 1"), Failure) << wrong;
  EXPECT_THROW(parse_json("{", "line 1"), Failure);
}

TEST(ZkrJson, TimesAndSessions) {
  using std::chrono::milliseconds;
  EXPECT_EQ(utc_text(std::chrono::system_clock::time_point(milliseconds(1'700'000'000'007))),
            "2023-11-14T22:13:20.007Z");
  EXPECT_EQ(session_text(0x1000a2b3c0001), "0x1000a2b3c0001");
  EXPECT_EQ(session_text(-1), "0xffffffffffffffff");
}

TEST(ZkrJson, Permissions) {
  for (std::int32_t permissions = 1; permissions <= zkclient::Acl::all; ++permissions)
    EXPECT_EQ(parse_permissions(permissions_text(permissions)), permissions);
  EXPECT_EQ(permissions_text(zkclient::Acl::all), "cdrwa");
  for (const char* wrong : {"", "x", "r w"})
    EXPECT_FALSE(parse_permissions(wrong)) << wrong;
}

TEST(ZkrOutput, TableHasStraightColumns) {
  EXPECT_EQ(table({{"A", "LONG", "C"}, {"é", "x", "last one"}, {"", "", ""}}), "A  LONG  C\né  x     last one\n\n");
}

TEST(ZkrOutput, OneWordOfALine) {
  EXPECT_EQ(printable("web-1 é"), "web-1 é");
  EXPECT_EQ(printable("a\nb\x1b[31m"), "a\\x0Ab\\x1B[31m");
  EXPECT_EQ(printable("\xff z"), "\\xFF z");
  EXPECT_EQ(printable("\xC2\x9B"
                      "2J \xC2\x80\xC2\xA0\xC3\x9B"),
            "\\xC2\\x9B2J \\xC2\\x80\xC2\xA0\xC3\x9B");
}

// A server takes any text for an id.
TEST(ZkrOutput, AccessOfAStrangerDoesNotReachTheTerminal) {
  zkclient::Acl entry;
  entry.scheme = "x\n";
  entry.id = "a\x1b[2J:b";
  EXPECT_EQ(acl_text(entry), "x\\x0A:a\\x1B[2J:b:cdrwa");
}

TEST(ZkrSelfDescription, WhatRecipesWrite) {
  const auto check = [](const char* data, const char* who, const char* host, const char* pid) {
    const SelfDescription self = parse_self_description(data);
    EXPECT_EQ(self.who, who) << data;
    EXPECT_EQ(self.host, host) << data;
    EXPECT_EQ(self.pid, pid) << data;
  };
  check("id=ci host=web-1 pid=4711 since=2026-01-01T00:00:00Z", "ci", "web-1", "4711");
  check("host=web-1 pid=4711 since=2026-01-01T00:00:00Z", "", "web-1", "4711");
  check("id=a job host=x pid=1 since=y host=web-1 pid=4711 since=z", "a job host=x pid=1 since=y", "web-1", "4711");
  check("web-1:4711", "", "web-1", "4711");
  check("10.0.0.8", "10.0.0.8", "", "");
  check("fe80::1", "fe80::1", "", "");
  check("", "", "", "");
  check("__REVOKE__", "__REVOKE__", "", "");
  check("ghost=web-1 pid=4711 since=z", "ghost=web-1 pid=4711 since=z", "", "");
}

// --- Changes ------------------------------------------------------------------------------------------------------

TEST(ZkrChangeFeed, LastStateBeforeAFailureIsTaken) {
  ChangeFeed feed;
  for (const char* line : {"a", "b", "c"})
    feed.put({.line = line, .object = {}, .environment = {}});
  feed.fail(zkclient::Error(zkclient::Errc::no_auth, "get", "/a"));
  const auto newest = feed.take_newest();
  EXPECT_EQ(newest ? newest->line : "none", "c");
  EXPECT_THROW((void)feed.take_newest(), zkclient::Error);
}

TEST(ZkrFailure, RightsOfATwoPhaseCommitAreNamed) {
  for (const char* operation : {"group join", "two-phase commit", "serve transactions"}) {
    const std::string text = explain(zkclient::Error(zkclient::Errc::no_auth, operation, "/a"), {});
    EXPECT_NE(text.find("it takes the rights"), std::string::npos) << text;
  }
}

// --- Metrics in a file --------------------------------------------------------------------------------------------

std::string content_of(const std::filesystem::path& file) {
  std::ifstream stream(file);
  return {std::istreambuf_iterator<char>(stream), {}};
}

TEST(ZkrMetricsFile, WhatIsNoFileIsNotReplaced) {
  const testkit::TemporaryFolder folder;
  const std::string pipe = (folder / "pipe").string();
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  EXPECT_THROW(write_metrics(pipe, {}), Failure);
  EXPECT_TRUE(std::filesystem::is_fifo(pipe));
  std::filesystem::create_symlink("nowhere", folder / "link");
  EXPECT_THROW(write_metrics((folder / "link").string(), {}), Failure);
  EXPECT_TRUE(std::filesystem::is_symlink(folder / "link"));
}

TEST(ZkrMetricsFile, LinkThatLiesInWaitIsNotFollowed) {
  const testkit::TemporaryFolder folder;
  std::ofstream(folder / "other") << "kept";
  std::filesystem::create_symlink("other", folder / "zkr.prom.new");
  write_metrics((folder / "zkr.prom").string(), {});
  EXPECT_EQ(content_of(folder / "other"), "kept");
  EXPECT_TRUE(content_of(folder / "zkr.prom").ends_with("# EOF\n"));
}

TEST(ZkrMetricsFile, WritersOfOneFileDoNotDisturbEachOther) {
  const testkit::TemporaryFolder folder;
  const std::string file = (folder / "zkr.prom").string();
  const auto write = [&file] {
    for (int i = 0; i < 50; ++i)
      EXPECT_NO_THROW(write_metrics(file, {}));
  };
  std::thread other(write);
  write();
  other.join();
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder / ""), {}), 1) << "nothing is left beside it";
}

}  // namespace
}  // namespace zkr
