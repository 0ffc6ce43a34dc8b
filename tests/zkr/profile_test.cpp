// What `zkr` reads of the configuration and of credentials, without a server.

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/support/temporary_folder.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/identities.hpp"
#include "tools/zkr/cli/profile.hpp"

namespace zkr {
namespace {

namespace fs = std::filesystem;
using namespace std::chrono_literals;

class ZkrProfile : public testing::Test {
 protected:
  fs::path write(const std::string& name, const std::string& text, fs::perms mode = fs::perms::owner_read) {
    const fs::path file = folder_ / name;
    std::ofstream(file) << text;
    fs::permissions(file, mode);
    return file;
  }
  Profile load(const std::string& text, const std::string& name = "") {
    fs::remove(folder_ / "config.toml");
    return load_profile(name, {folder_ / "missing.toml", write("config.toml", text)});
  }
  /// It is refused, and this is in the text.
  template <typename Action>
  void expect_refusal(const std::string& why, Action action) {
    try {
      action();
      ADD_FAILURE() << "not refused: " << why;
    } catch (const Failure& failure) {
      EXPECT_EQ(failure.code(), exit_configuration);
      EXPECT_NE(std::string(failure.what()).find(why), std::string::npos) << failure.what();
      EXPECT_EQ(std::string(failure.what()).find("secret"), std::string::npos) << failure.what();
    }
  }
  void expect_refusal_of(const std::string& text, const std::string& why) {
    expect_refusal(why, [&] { load(text, "a"); });
  }

  const testkit::TemporaryFolder folder_;
};

TEST_F(ZkrProfile, SaysEverything) {
  write("password", "secret\n");
  const Profile profile = load(R"([profiles.a]
server = "zk1:2181,zk2:2181/chroot"
prefix = "/team"
session_timeout = "40s"
connect_timeout = "1.5s"
server_tick = "2000ms"
auth_file = "a.auth"
[profiles.a.tls]
ca_file = "ca.pem"
certificate_file = "/etc/own.pem"
key_file = "own.key"
[profiles.a.sasl]
mechanisms = "DIGEST-MD5"
user = "alice"
password_file = "password"
)",
                               "a");
  EXPECT_EQ(profile.server, "zk1:2181,zk2:2181/chroot");
  EXPECT_EQ(profile.prefix, "/team");
  EXPECT_EQ(profile.session_timeout, 40s);
  EXPECT_EQ(profile.connect_timeout, 1500ms);
  EXPECT_EQ(profile.server_tick, 2s);
  EXPECT_EQ(profile.auth_file, folder_ / "a.auth");
  EXPECT_EQ(profile.tls->ca_file, folder_ / "ca.pem");
  EXPECT_EQ(profile.tls->certificate_file, "/etc/own.pem");
  EXPECT_EQ(profile.sasl->password, "secret");
  EXPECT_EQ(profile.sasl->service, "zookeeper");
}

TEST_F(ZkrProfile, WhichOneIsUsed) {
  const std::string two = "[profiles.default]\nserver = \"d\"\n[profiles.b]\nserver = \"b\"\n";
  EXPECT_EQ(load(two).server, "d");
  EXPECT_EQ(load(two, "b").server, "b");
  EXPECT_EQ(load("profile = \"b\"\n" + two).server, "b");
  EXPECT_EQ(load("profile = \"b\"\n" + two, "default").server, "d");
  EXPECT_EQ(load("").server, "");
  EXPECT_EQ(load("[profiles.b]\nserver = \"b\"").server, "");
  const fs::path user = write("user.toml", "[profiles.b]\nserver = \"mine\"");
  const fs::path system = write("system.toml", two);
  EXPECT_EQ(load_profile("b", {user, system}).server, "mine");
  EXPECT_EQ(load_profile("", {user, system}).server, "d");
  expect_refusal("no profile \"c\" in", [&] { load_profile("c", {user, system}); });
  expect_refusal("no profile \"c\" in", [&] { load("profile = \"c\"\n" + two); });
}

TEST_F(ZkrProfile, MistakesAreNamedWithTheirLine) {
  expect_refusal_of("[profiles.a]\nserver = zk1", "config.toml:2: ");
  expect_refusal_of("[profiles.a]\nserver = 7", "config.toml:2: server is no text");
  expect_refusal_of("[profiles.a]\n\nsrever = \"x\"", "config.toml:3: srever is not known");
  expect_refusal_of("[profiles.a]\nsession_timeout = \"long\"", "config.toml:2: session_timeout is no duration");
  expect_refusal_of("[profiles.a]\ntls = 1", "config.toml:2: tls is no table");
  expect_refusal_of("[profiles.a.tls]\nca_file = \"x\"", "certificate_file is missing");
  expect_refusal_of("profiles = 1", "profiles is no table");
  expect_refusal_of("server = \"x\"\n[profiles.a]", "config.toml:1: server is not known");
}

TEST_F(ZkrProfile, CredentialsAreReadLineByLine) {
  const auto file = write("auth", "# ours\n\ndigest alice:secret word:x\nip 10.0.0.8",
                          fs::perms::owner_read | fs::perms::owner_write);
  const auto identities = read_identities(file);
  ASSERT_EQ(identities.size(), 2U);
  EXPECT_EQ(identities[0].credentials, "alice:secret word:x");
  EXPECT_EQ(identities[0].shown(), "digest:alice");
  EXPECT_EQ(identities[1].shown(), "ip");
  EXPECT_EQ(find_identities({}, file).size(), 2U);
  EXPECT_TRUE(find_identities({}, {}).empty());
}

TEST_F(ZkrProfile, CredentialsThatOthersMayReadAreRefused) {
  for (const fs::perms mode : {fs::perms::group_read, fs::perms::others_read, fs::perms::group_write}) {
    const auto file = write("auth", "digest alice:secret", mode | fs::perms::owner_all);
    expect_refusal("chmod 600", [&] { read_identities(file); });
    expect_refusal("chmod 600", [&] { read_secret(file); });
    fs::remove(file);
  }
  expect_refusal("No such file", [&] { read_identities(folder_ / "missing"); });
  expect_refusal("it is no file", [&] { read_identities(folder_.path()); });
  for (const char* line : {"secret", " secret", "digest ", "digest"})
    expect_refusal("line 1 is not", [&] { read_identities(write(std::string("x") + std::to_string(*line), line)); });
}

}  // namespace
}  // namespace zkr
