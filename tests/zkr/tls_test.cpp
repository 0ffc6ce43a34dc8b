// `zkr` where connections are encrypted.

#include <gtest/gtest.h>

#include <signal.h>

#include <filesystem>
#include <fstream>
#include <string>

#include <zkclient/features.hpp>
#include <zkrecipes/mutex.hpp>
#include <zktesting/server.hpp>

#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/tls_keys.hpp"
#include "tests/support/words.hpp"
#include "tests/zkr/zkr_call.hpp"

namespace zkr {
namespace {

using namespace testkit::words;

/// A profile "secure", in a folder that is no other profile's.
void write_secure_profile(const std::filesystem::path& folder, const std::string& server,
                          const zkclient::TlsOptions& tls) {
  std::filesystem::create_directory(folder / "zkr");
  std::ofstream(folder / "zkr/config.toml")
      << "[profiles.secure]\nserver = '" << server << "'\n[profiles.secure.tls]\nca_file = '" << tls.ca_file
      << "'\ncertificate_file = '" << tls.certificate_file << "'\nkey_file = '" << tls.key_file << "'\n";
}

// The front ends then, and the guardian finds both gone.
TEST(ZkrTls, SessionOfAKilledKeeperIsClosedAtOnce) {
  if (!zkclient::features().tls)
    GTEST_SKIP() << "this C client has no TLS; to run the test: scripts/test.sh --preset tls";
  const testkit::TlsKeys keys;
  zktesting::Server server(keys.server());
  const testkit::TemporaryFolder folder;
  write_secure_profile(folder.path(), server.secure_connect_string(), keys.client());
  testkit::Program lock("/bin/sh", {"-c", "XDG_CONFIG_HOME=" + (folder.path()).string() + " exec \"$@\"", "sh",
                                    zkr_program(), "--profile", "secure", "--session-timeout", "30s", "lock", "/place",
                                    "--", "/bin/sh", "-c", "echo $PPID; sleep 1000"});
  const pid_t keeper = std::stoi(lock.next_line());
  const Client next(server.connect_string());
  zkrecipes::Mutex mutex(next, "/place");
  EXPECT_FALSE(mutex.try_acquire());
  ::kill(keeper, SIGKILL);
  EXPECT_EQ(lock.status(), 79);
  EXPECT_TRUE(mutex.acquire({.deadline = soon()}).valid());
  EXPECT_EQ(server.log().find("Expiring session"), std::string::npos) << "it was closed";
}

}  // namespace
}  // namespace zkr
