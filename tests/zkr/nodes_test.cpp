// `zkr` and nodes: what it reads and writes, what it says, and its exit codes.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <iterator>

#include <fmt/format.h>
#include <boost/json/parse.hpp>

#include "tests/support/program.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/zkr_call.hpp"

namespace zkr {
namespace {

using namespace testkit::words;
using Words = std::vector<std::string>;

class ZkrNodes : public testkit::RecipeTest {
 protected:
  ZkrNodes() : RecipeTest("/node") {}

  /// With the servers and the prefix of this test.
  Called zkr(std::vector<std::string> words, const std::string& input = "") {
    const std::vector<std::string> place = {"--server", hosts(), "--prefix", prefix().str()};
    words.insert(words.begin(), place.begin(), place.end());
    return call_zkr(std::move(words), input);
  }
  /// It succeeds, says nothing to people, and writes this.
  void expect(std::vector<std::string> words, const std::string& output, const std::string& input = "") {
    const std::string told = testing::PrintToString(words);
    const Called called = zkr(std::move(words), input);
    EXPECT_EQ(called.code, 0) << told << called.errors;
    EXPECT_EQ(called.output, output) << told;
    EXPECT_EQ(called.errors, "") << told;
  }
  /// It fails like that, writes nothing, and tells people why.
  void expect_failure(std::vector<std::string> words, int code, const std::string& why, const std::string& input = "") {
    const std::string told = testing::PrintToString(words);
    const Called called = zkr(std::move(words), input);
    EXPECT_EQ(called.code, code) << told << called.errors;
    EXPECT_EQ(called.output, "") << told;
    EXPECT_NE(called.errors.find(why), std::string::npos) << told << called.errors;
  }
  boost::json::object json(std::vector<std::string> words) {
    words.emplace_back("--json");
    const Called called = zkr(std::move(words));
    EXPECT_EQ(called.code, 0) << called.errors;
    return boost::json::parse(called.output).as_object();
  }
  static std::vector<std::string> members(const boost::json::object& object) {
    std::vector<std::string> names;
    for (const auto& member : object)
      names.emplace_back(member.key());
    return names;
  }
};

const std::vector<std::string> stat_members = {
    "czxid",       "mzxid",       "pzxid",          "ctime",  "mtime", "version", "children_version",
    "acl_version", "data_length", "children_count", "session"};

TEST_F(ZkrNodes, Z63Z64BytesComeOutAsTheyWentInAndNothingElse) {
  const std::string bytes("\0\xff\r\n-", 5);
  expect({"create", "/node", "-"}, "", bytes);
  EXPECT_EQ(client().get("/node").data, bytes);
  expect({"get", "/node"}, bytes);
  expect({"set", "/node", "words"}, "");
  expect({"get", "/node"}, "words");
  expect({"set", "/node", "--", "--version"}, "");
  expect({"get", "/node"}, "--version");
  expect({"set", "/node", ""}, "");
  expect({"get", "/node"}, "");
  expect({"rm", "/node"}, "");
  EXPECT_FALSE(client().exists("/node"));
}

// One test per code, as far as a healthy server gives them.
TEST_F(ZkrNodes, Z22ExitCodesTellWhatWentWrong) {
  expect_failure({"get", "/node"}, 66, "there is no such node");
  expect_failure({"set", "/node", "x"}, 66, "/node");
  expect_failure({"rm", "/node"}, 66, "/node");
  expect_failure({"rm", "-r", "/node"}, 66, "/node");
  client().create("/node", "words");
  client().create("/node/child", "");
  expect_failure({"create", "/node"}, 73, "exists already");
  expect_failure({"set", "/node", "x", "--version", "7"}, 73, "another version");
  expect_failure({"rm", "/node/child", "--version", "7"}, 73, "another version");
  expect_failure({"rm", "/node"}, 73, "has children");
  expect_failure({"get", "node"}, 64, "does not start with '/'");
  expect_failure({"get"}, 64, "PATH is required");
  expect_failure({"get", "/node", "--nonsense"}, 64, "--nonsense");
  expect_failure({"set", "/node"}, 64, "no value");
  expect_failure({"get", "/node", "--", "x"}, 64, "behind --");
  expect_failure({"create", "/new", "--acl", "world:anyone"}, 64, "scheme:id:cdrwa");
  expect_failure({"import"}, 65, "nothing to import");
  EXPECT_EQ(client().get("/node").data, "words");
}

// A program that has no memory left, say.
TEST_F(ZkrNodes, Z22WhatShouldNotHappenHasACodeOfItsOwn) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "the sanitizer itself needs more memory than that";
#endif
  const std::string script = "ulimit -d 65536; exec \"$@\" </dev/zero";
  testkit::Program endless("/bin/sh", {"-c", script, "sh", zkr_program(), "--server", hosts(), "--prefix",
                                       prefix().str(), "create", "/node", "-"});
  EXPECT_EQ(endless.status(), 70);
  EXPECT_FALSE(client().exists("/node"));
}

TEST_F(ZkrNodes, VersionIsACondition) {
  client().create("/node", "0");
  expect({"set", "/node", "1", "--version", "0"}, "");
  expect({"rm", "/node", "--version", "1"}, "");
}

TEST_F(ZkrNodes, Z66ChangesTellWhatWasThereBefore) {
  const auto created = client().create("/node", "0").stat;
  const std::string former = "zkr: /node was version 0, czxid " + std::to_string(created.czxid) + "\n";
  EXPECT_EQ(zkr({"set", "/node", "1", "-v"}).errors, former);
  const auto set = json({"set", "/node", "2"});
  EXPECT_EQ(members(set), (std::vector<std::string>{"path", "stat", "former"}));
  EXPECT_EQ(set.at("former"), (boost::json::object{{"version", 1}, {"czxid", created.czxid}}));
  EXPECT_EQ(set.at("stat").at("version"), 2);
  const auto removed = json({"rm", "/node"});
  EXPECT_EQ(members(removed), (std::vector<std::string>{"path", "former"}));
  EXPECT_EQ(removed.at("former"), (boost::json::object{{"version", 2}, {"czxid", created.czxid}}));
}

// The test has none.
TEST_F(ZkrNodes, Z62Z78NobodyIsAskedWithoutATerminal) {
  client().create("/node/a/b", "", {.parents = true});
  expect({"rm", "-r", "/node"}, "");
  EXPECT_FALSE(client().exists("/node"));
}

TEST_F(ZkrNodes, Z65RefusalNamesTheRight) {
  const zkclient::AclList readers = zkclient::read_only_acl();
  client().create("/node", "words", {.acl = readers});
  const Called called = zkr({"set", "/node", "x"});
  EXPECT_EQ(called.code, 77);
  EXPECT_NE(called.errors.find("/node"), std::string::npos) << called.errors;
  EXPECT_NE(called.errors.find("right to write"), std::string::npos) << called.errors;
  EXPECT_NE(called.errors.find("has no identity"), std::string::npos) << called.errors;
}

// The secret stands in the file alone.
TEST_F(ZkrNodes, IdentityComesFromAFile) {
  const testkit::TemporaryFolder folder;
  const std::string file = (folder / "auth").string();
  std::ofstream(file) << "digest alice:secret\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_read);
  const std::vector<std::string> place = {"--server", hosts(), "--prefix", prefix().str()};
  const auto call = [&](std::vector<std::string> words, const std::string& variable) {
    words.insert(words.begin(), place.begin(), place.end());
    return call_zkr(std::move(words), "", {variable});
  };
  EXPECT_EQ(call({"create", "/node", "words", "--acl", "auth::cdrwa"}, "ZKR_AUTH_FILE=" + file).code, 0);
  const Called stranger = zkr({"get", "/node"});
  EXPECT_EQ(stranger.code, 77);
  EXPECT_NE(stranger.errors.find("right to read; this call has no identity"), std::string::npos) << stranger.errors;
  EXPECT_EQ(call({"get", "/node"}, "ZKR_AUTH_FILE=" + file).output, "words");
  EXPECT_EQ(zkr({"get", "/node", "--auth-fd", "0"}, "# mine\ndigest alice:secret").output, "words");
  EXPECT_EQ(zkr({"rm", "/node", "--auth-fd", "0"}, "digest alice:secret").code, 0);
  client().create("/node", "", {.acl = zkclient::read_only_acl()});
  const Called refused = call({"set", "/node", "x", "-v"}, "ZKR_AUTH_FILE=" + file);
  EXPECT_EQ(refused.code, 77);
  EXPECT_NE(refused.errors.find("right to write; this call is digest:alice\n"), std::string::npos) << refused.errors;
  EXPECT_EQ(refused.errors.find("secret"), std::string::npos) << refused.errors;
}

TEST_F(ZkrNodes, ProfileSaysTheRestAndOptionsWin) {
  client().create("/node", "words");
  const testkit::TemporaryFolder folder;
  std::filesystem::create_directories(folder / "zkr");
  std::ofstream(folder / "zkr/config.toml") << "[profiles.default]\nserver = \"" << hosts() << prefix().str()
                                            << "\"\n[profiles.dead]\nserver = \"127.0.0.1:1\"\n";
  const std::string soon_over = "--connect-timeout=100ms";
  const auto call = [&](const std::vector<std::string>& words, const std::string& variable = "A=b") {
    return call_zkr(words, "", {"XDG_CONFIG_HOME=" + folder.path().string(), variable, "ZKRECIPES_SERVER="});
  };
  EXPECT_EQ(call({"get", "/node"}, "ZKRECIPES_SERVER=").output, "words");
  EXPECT_EQ(call({"get", "/node", soon_over}, "ZKRECIPES_SERVER=127.0.0.1:1").code, 69)
      << "the environment before the profile";
  EXPECT_EQ(call({"get", "/node", "--profile", "dead", soon_over}, "ZKRECIPES_SERVER=").code, 69);
  EXPECT_EQ(call({"get", "/node", soon_over}, "ZKR_PROFILE=dead").code, 69);
  EXPECT_EQ(call({"get", "/node", "--profile", "dead", "--server", hosts() + prefix().str()}).output, "words");
  const Called unknown = call({"get", "/node", "--profile", "none"});
  EXPECT_EQ(unknown.code, 78);
  EXPECT_NE(unknown.errors.find("config.toml"), std::string::npos) << unknown.errors;
}

TEST(ZkrServers, Z61EachServerIsNamedWithItsTrouble) {
  Called called;
  for (const char* time : {"3s", "60s"}) {  // As long as the look-up of a name may take.
    called = call_zkr({"get", "/a", "--server", "127.0.0.1:1,no-such-host.invalid", "--connect-timeout", time});
    if (called.errors.find("127.0.0.1:1 refused the connection") != std::string::npos) break;
  }
  EXPECT_EQ(called.code, 69);
  EXPECT_EQ(called.output, "");
  EXPECT_NE(called.errors.find("127.0.0.1:1 refused the connection"), std::string::npos) << called.errors;
  EXPECT_NE(called.errors.find("no-such-host.invalid"), std::string::npos) << called.errors;
}

// --- Reading ------------------------------------------------------------------------------------------------------

TEST_F(ZkrNodes, JsonHasItsMembers) {
  client().create("/node", "words");
  client().create("/node/session", "", {.mode = CreateMode::ephemeral});
  const auto got = json({"get", "/node"});
  EXPECT_EQ(members(got), (std::vector<std::string>{"path", "data", "stat"}));
  EXPECT_EQ(members(got.at("stat").as_object()), stat_members);
  EXPECT_EQ(got.at("data"), "words");
  EXPECT_TRUE(got.at("stat").at("session").is_null());
  const auto stat = json({"stat", "/node/session"});
  EXPECT_EQ(members(stat), (std::vector<std::string>{"path", "stat"}));
  EXPECT_TRUE(stat.at("stat").at("session").as_string().starts_with("0x"));
  const auto listed = json({"ls", "/node"});
  EXPECT_EQ(listed, (boost::json::object{{"path", "/node"}, {"children", {"session"}}}));
  const auto listed_long = json({"ls", "-l", "/node"});
  EXPECT_EQ(listed_long.at("children").at(0).at("name"), "session");
  EXPECT_EQ(members(listed_long.at("children").at(0).at("stat").as_object()), stat_members);
  const auto tree = json({"tree", "/node", "--depth", "0"});
  EXPECT_EQ(members(tree), (std::vector<std::string>{"path", "stat"}));
}

TEST_F(ZkrNodes, AddressIsThatOfTheSessionsConnection) {
  NEEDS_CONTROL();
  client().create("/node", "", {.mode = CreateMode::ephemeral});
  const std::string address(json({"stat", "/node", "--address"}).at("stat").at("address").as_string());
  const std::string connections = server().four_letter_word("cons");
  const std::size_t at = connections.find("/" + address + "[");
  ASSERT_NE(at, std::string::npos) << address << "\n" << connections;
  const std::string line = connections.substr(at, connections.find('\n', at) - at);
  EXPECT_NE(line.find(fmt::format("sid={:#x}", client().session().id())), std::string::npos) << line;
  client().create("/lasting", "");
  EXPECT_TRUE(json({"stat", "/lasting", "--address"}).at("stat").at("address").is_null());
}

TEST_F(ZkrNodes, ListsAndTreesAreSorted) {
  for (const char* path : {"/node", "/node/b", "/node/a", "/node/a/2", "/node/a-b", "/node/a/10"})
    client().create(path, "");
  expect({"ls", "/node"}, "a\na-b\nb\n");
  expect({"tree", "/node"}, "/node\n  a\n    10\n    2\n  a-b\n  b\n");
  expect({"tree", "/node", "--depth", "1"}, "/node\n  a\n  a-b\n  b\n");
}

TEST_F(ZkrNodes, SequentialNodesTellTheirNames) {
  client().create("/node", "");
  expect({"create", "-s", "/node/item-", "x"}, "/node/item-0000000000\n");
  expect({"create", "-p", "/new/parent/node"}, "");
  expect({"create", "/node/read-only", "--acl", "world:anyone:r"}, "");
  EXPECT_EQ(client().get_acl("/node/read-only").acl, zkclient::read_only_acl());
}

// --- Access control lists -----------------------------------------------------------------------------------------

TEST_F(ZkrNodes, AccessControlListsAreReadAndReplaced) {
  client().create("/node", "");
  expect({"acl", "get", "/node"}, "world:anyone:cdrwa\n");
  expect({"acl", "set", "/node", "world:anyone:cdra", "ip:127.0.0.1:w"}, "");
  expect({"acl", "get", "/node"}, "world:anyone:cdra\nip:127.0.0.1:w\n");
  const auto got = json({"acl", "get", "/node"});
  EXPECT_EQ(got.at("acl").at(1), (boost::json::object{{"scheme", "ip"}, {"id", "127.0.0.1"}, {"permissions", "w"}}));
  EXPECT_EQ(got.at("stat").at("acl_version"), 1);
  expect_failure({"acl", "set", "/node", "world:anyone:ra", "--version", "7"}, 73, "another version");
  expect({"acl", "set", "/node", "world:anyone:cdrwa", "--version", "1"}, "");
  expect_failure({"acl", "get", "/none"}, 66, "/none");
  expect_failure({"acl", "set", "/node", "world:anyone"}, 64, "scheme:id:cdrwa");
  EXPECT_EQ(client().get_acl("/node").acl, zkclient::open_acl());
}

TEST_F(ZkrNodes, Z66AclSetTellsWhatWasThereBefore) {
  client().create("/node", "");
  EXPECT_EQ(zkr({"acl", "set", "/node", "world:anyone:ra", "-v"}).errors,
            "zkr: /node was world:anyone:cdrwa, version 0\n");
  const auto former = json({"acl", "set", "/node", "world:anyone:r", "--without-admin"}).at("former");
  EXPECT_EQ(former.at("acl_version"), 1);
  EXPECT_EQ(former.at("acl").at(0).at("permissions"), "ra");
}

TEST_F(ZkrNodes, AclSetDoesNotLockEverybodyOutUnasked) {
  client().create("/node", "");
  expect_failure({"acl", "set", "/node", "world:anyone:cdrw", "ip:127.0.0.1:r"}, 64, "--without-admin");
  EXPECT_EQ(client().get_acl("/node").acl, zkclient::open_acl());
  expect({"acl", "set", "/node", "world:anyone:r", "--without-admin"}, "");
  EXPECT_EQ(client().get_acl("/node").acl, zkclient::read_only_acl());
}

TEST_F(ZkrNodes, Z65RefusedAclNamesTheRight) {
  const zkclient::AclList readers = zkclient::read_only_acl();
  client().create("/node", "", {.acl = readers});
  expect_failure({"acl", "set", "/node", "world:anyone:cdrwa"}, 77, "right to administer; this call has no identity");
}

// --- Transactions -------------------------------------------------------------------------------------------------

TEST_F(ZkrNodes, TransactionDoesAllOfItsLines) {
  client().create("/node", "0");
  client().create("/node/old", "");
  const std::string lines =
      "# a comment, and an empty line\n"
      "\n"
      "check /node 0\n"
      "set /node \"two words\\nand a line\" 0\r\n"
      "create -s /node/item- x\n"
      "\tcreate /node/new\n"
      "delete /node/old";
  expect({"txn"}, "/node/item-0000000001\n", lines);
  EXPECT_EQ(client().get("/node").data, "two words\nand a line");
  EXPECT_EQ(client().get("/node/item-0000000001").data, "x");
  EXPECT_EQ(client().get("/node/new").data, "");
  EXPECT_FALSE(client().exists("/node/old"));
}

TEST_F(ZkrNodes, Z22RefusedTransactionNamesItsLineAndChangesNothing) {
  client().create("/node", "0");
  const std::string first = "create /new x\n\n";
  expect_failure({"txn"}, 73, "line 3: set /node: the node has another version; nothing was changed",
                 first + "set /node 1 7");
  expect_failure({"txn"}, 73, "line 3: create /node: ", first + "create /node");
  expect_failure({"txn"}, 66, "line 3: delete /none: ", first + "delete /none");
  const zkclient::AclList readers = zkclient::read_only_acl();
  client().create("/closed", "", {.acl = readers});
  expect_failure({"txn"}, 77, "line 3: set /closed: ", first + "set /closed x");
  EXPECT_FALSE(client().exists("/new"));
  EXPECT_EQ(client().get("/node").data, "0");
}

TEST_F(ZkrNodes, TransactionOfTheGuideEndsAsItSays) {
  client().create("/jobs/owner", "", {.parents = true});
  client().create("/jobs/state", "");
  for (int version = 0; version < 7; ++version)
    client().set("/jobs/owner", "");
  std::ifstream file(DOCS "/zkr_look.md");
  const std::string guide{std::istreambuf_iterator<char>(file), {}};
  const std::string before = "$ zkr txn <<'END'\n";
  const std::size_t begin = guide.find(before) + before.size();
  const std::size_t end = guide.find("END\n", begin);
  const Called called = zkr({"txn"}, guide.substr(begin, end - begin));
  EXPECT_EQ(called.code, 73);
  EXPECT_EQ(called.errors, guide.substr(end + 4, guide.find("```", end) - end - 4));
}

// Before anything is sent.
TEST_F(ZkrNodes, TransactionThatMakesNoSenseIsRefusedWhole) {
  for (const char* line :
       {"move /a /b", "set /node", "create", "delete /node x", "delete /node -1", "check /node 1 2", "create node",
        "create /node #note", "set /node \"open", "set /node \"a\"b", "set /node \"\\x\""}) {
    expect_failure({"txn"}, 65, "line 2", std::string("create /new\n") + line);
  }
  expect_failure({"txn"}, 65, "no operation", "# nothing\n");
  EXPECT_FALSE(client().exists("/new"));
}

// --- Whole trees --------------------------------------------------------------------------------------------------

TEST_F(ZkrNodes, WhatIsExportedIsImported) {
  client().create("/node", std::nullopt);
  client().create("/node/binary", "\xff", {.acl = zkclient::read_only_acl()});
  client().create("/node/deep", "");
  client().create("/node/deep/er", "text\n");
  client().create("/node/session", "", {.mode = CreateMode::ephemeral});
  const Called exported = zkr({"export", "/node"});
  EXPECT_EQ(exported.code, 0);
  EXPECT_EQ(exported.errors, "zkr: 1 ephemeral nodes are left out\n");
  EXPECT_EQ(zkr({"export", "/node", "-q"}).errors, "");
  EXPECT_EQ(exported.output,
            R"({"format":"zkr-export","version":1,"root":"/node"})"
            "\n"
            R"({"below":"","data":null})"
            "\n"
            R"({"below":"/binary","data_base64":"/w==","acl":[{"scheme":"world","id":"anyone","permissions":"r"}]})"
            "\n"
            R"({"below":"/deep","data":""})"
            "\n"
            R"({"below":"/deep/er","data":"text\n"})"
            "\n");
  expect({"import", "/copies/one"}, "", exported.output);
  EXPECT_EQ(client().get("/copies/one/deep/er").data, "text\n");
  EXPECT_TRUE(client().get("/copies/one").is_null);
  EXPECT_EQ(client().get_acl("/copies/one/binary").acl, zkclient::read_only_acl());
  EXPECT_EQ(zkr({"export", "/copies/one"}).output.substr(60), exported.output.substr(54));
  expect_failure({"import"}, 73, "exists already", exported.output);
  client().set("/copies/one/deep/er", "other");
  const std::string deep =
      exported.output.substr(0, exported.output.find('\n') + 1) + R"({"below":"/deep/er","data":"new"})";
  expect({"import", "/copies/one", "--overwrite"}, "", deep);
  EXPECT_EQ(client().get("/copies/one/deep/er").data, "new");
}

TEST_F(ZkrNodes, ParentsThatLetNobodyCreateAreImportedWithTheirChildren) {
  client().create("/node/a/b", "x", {.parents = true});
  const zkclient::AclList no_creators = {{.permissions = zkclient::Acl::read + zkclient::Acl::remove}};
  client().set_acl("/node", no_creators);
  client().set_acl("/node/a", no_creators);
  const std::string exported = zkr({"export", "/node"}).output;
  expect({"import", "/copies/one"}, "", exported);
  expect({"cp", "-r", "/node", "/copies/two"}, "");
  for (const std::string copy : {"/copies/one", "/copies/two"}) {
    EXPECT_EQ(client().get(copy + "/a/b").data, "x");
    EXPECT_EQ(client().get_acl(copy).acl, no_creators);
    EXPECT_EQ(client().get_acl(copy + "/a").acl, no_creators);
    EXPECT_EQ(client().get_acl(copy + "/a/b").acl, zkclient::open_acl());
  }
}

TEST_F(ZkrNodes, ParentsOfAFailedImportAreNotLeftOpen) {
  const std::string exported = R"({"format":"zkr-export","version":1,"root":"/new"})"
                               "\n"
                               R"({"below":"","data":"","acl":[{"scheme":"world","id":"anyone","permissions":"r"}]})"
                               "\n"
                               R"({"below":"/a","data":"","acl":[{"scheme":"none","id":"such","permissions":"r"}]})";
  EXPECT_NE(zkr({"import"}, exported).code, 0);
  EXPECT_EQ(client().get_acl("/new").acl, zkclient::read_only_acl());
}

// With an identity nobody else may create there meanwhile.
TEST_F(ZkrNodes, IdentityImportsWhatIsItsOwn) {
  const auto mine = [&](Words words, const std::string& input) {
    words.insert(words.begin(), {"--server", hosts(), "--prefix", prefix().str()});
    const testkit::TemporaryFolder folder;
    const std::string file = (folder / "auth").string();
    std::ofstream(file) << "digest alice:secret\n";
    std::filesystem::permissions(file, std::filesystem::perms::owner_read);
    return call_zkr(std::move(words), input, {"ZKR_AUTH_FILE=" + file});
  };
  ASSERT_EQ(mine({"create", "/node", "--acl", "auth::rda"}, "").code, 0);
  const std::string list = mine({"export", "/node"}, "").output;
  const Called imported = mine({"import", "/copy"}, list + R"({"below":"/child","data":"x"})");
  EXPECT_EQ(imported.code, 0) << imported.errors;
  EXPECT_EQ(mine({"get", "/copy/child"}, "").output, "x");
  EXPECT_EQ(zkr({"create", "/copy/other"}).code, 77);
  EXPECT_EQ(mine({"create", "/copy/other"}, "").code, 77);
  EXPECT_EQ(mine({"rm", "-r", "/copy"}, "").code, 0);
}

// Before anything is written.
TEST_F(ZkrNodes, WhatIsNoExportIsRefusedWhole) {
  const std::string heading = R"({"format":"zkr-export","version":1,"root":"/new"})"
                              "\n"
                              R"({"below":"","data":"x"})"
                              "\n";
  for (const char* line : {"nonsense", "7", R"({"below":"/a"})", R"({"data":"x"})", R"({"below":"a","data":""})",
                           R"({"below":"/a","data":"","acl":[{}]})"}) {
    expect_failure({"import"}, 65, "line 3", heading + line);
  }
  expect_failure({"import"}, 65, "line 1", "{}");
  expect_failure({"import"}, 65, "another version", R"({"format":"zkr-export","version":2,"root":"/new"})");
  EXPECT_FALSE(client().exists("/new"));
}

TEST_F(ZkrNodes, CopiesOneNodeOrAll) {
  client().create("/node", "words");
  client().create("/node/child", "more");
  const Called alone = zkr({"cp", "/node", "/alone"});
  EXPECT_EQ(alone.code, 0);
  EXPECT_NE(alone.errors.find("-r copies them"), std::string::npos);
  EXPECT_TRUE(names("/alone").empty());
  expect({"cp", "-r", "/node", "/all/of/it"}, "");
  EXPECT_EQ(client().get("/all/of/it/child").data, "more");
  client().create("/session", "", {.mode = CreateMode::ephemeral});
  expect_failure({"cp", "/session", "/copy"}, 65, "/session is ephemeral");
  expect_failure({"export", "/session"}, 65, "/session is ephemeral");
  expect_failure({"cp", "-r", "/node", "/alone"}, 73, "exists already");
  expect_failure({"cp", "-r", "/node", "/node/child/again"}, 64, "below");
}

}  // namespace
}  // namespace zkr
