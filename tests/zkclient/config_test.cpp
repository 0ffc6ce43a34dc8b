#include <future>

#include <zktesting/ensemble.hpp>

#include "tests/support/ensembles.hpp"
#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::EnsembleConfig;
using zkclient::Reconfig;
using zkclient::Watched;

using ConfigTest = testkit::ServerTest;

TEST_F(ConfigTest, IsReadOutsideOfThePrefix) {
  const Client client = make_client();
  const EnsembleConfig config = client.get_config();
  EXPECT_GT(config.stat.czxid, -1);
  EXPECT_EQ(config.stat.data_length, static_cast<std::int32_t>(config.text.size()));
  std::error_code error = zkclient::make_error_code(Errc::closed);
  EXPECT_EQ(client.get_config({}, error).text, config.text);
  EXPECT_FALSE(error);
}

TEST_F(ConfigTest, MalformedChangesAreRefusedBeforeTheyAreSent) {
  const Client client = make_client();
  const Reconfig bad[] = {
      {},
      {.joining = {"server.4=x"}, .members = {"server.1=y"}},
      {.joining = {"x"}},
      {.joining = {"server.4=x,server.5=y"}},
      {.joining = {""}},
      {.leaving = {"1\n2"}},
      {.leaving = {"1"}, .version = -2},
  };
  for (const Reconfig& change : bad)
    EXPECT_EQ(error_of([&] { client.reconfig(change); }), Errc::invalid_argument);
}

// "super:secret", as DigestAuthenticationProvider hashes it.
constexpr const char* super_flag =
    "-Dzookeeper.DigestAuthenticationProvider.superDigest=super:lK75jTNcA+U9vtVEw5vB51mj/w4=";

TEST(ReconfigTest, AServerLeavesAndJoinsAgain) {
  zktesting::EnsembleOptions options;
  options.isolable = false;
  options.sync_limit = 20;  // Nobody loses its leader because a server pauses.
  options.server.jvm_flags = {super_flag};
  zktesting::Ensemble ensemble(options);
  const testkit::Roles roles = testkit::roles_of(ensemble);
  const std::size_t leader = roles.leader;
  const std::size_t leaver = roles.follower;
  const Client client(ensemble.connect_string(leader));
  const zkclient::CallOptions patient{.deadline = testkit::soon()};

  const EnsembleConfig before = client.get_config(patient);
  ASSERT_EQ(before.members.size(), 3u) << before.text;
  EXPECT_GE(before.version, 0);
  const std::string id = std::to_string(leaver + 1);
  EXPECT_EQ(error_of([&] { client.reconfig({.leaving = {id}}, patient); }), Errc::no_auth);
  client.add_auth("digest", "super:secret");

  Box<WatchEvent> events;
  Box<Result<Watched<EnsembleConfig>>> reads;
  client.async_get_config_and_watch([&](const WatchEvent& event) { events.put(event); },
                                    [&](Result<Watched<EnsembleConfig>> read) { reads.put(std::move(read)); });
  const auto watched = reads.take();
  ASSERT_TRUE(watched);
  EXPECT_EQ(error_of([&] { client.reconfig({.leaving = {id}, .version = before.version + 1}, patient); }),
            Errc::bad_version);
  const EnsembleConfig smaller = client.reconfig({.leaving = {id}, .version = before.version}, patient);
  EXPECT_EQ(smaller.members.size(), 2u) << smaller.text;
  EXPECT_GT(smaller.version, before.version);
  const WatchEvent event = events.take();
  EXPECT_EQ(event.type, WatchEventType::data_changed);
  EXPECT_EQ(event.path, "/zookeeper/config");

  std::string line;
  for (const std::string& member : before.members) {
    if (member.starts_with("server." + id + "=")) line = member;
  }
  // Whoever joins has to name its client port, too, which need not be part of the configuration.
  if (line.find(';') == std::string::npos) line += ";" + ensemble.connect_string(leaver);
  // The server that left has to be heard of again before the others take it in.
  Box<Result<EnsembleConfig>> joined;
  ASSERT_TRUE(testkit::eventually([&] {
    client.async_reconfig(
        {.joining = {line}}, [&](Result<EnsembleConfig> result) { joined.put(std::move(result)); }, patient);
    const auto result = joined.take();
    if (result) return true;
    if (result.code() == Errc::new_config_no_quorum || result.code() == Errc::reconfig_in_progress) return false;
    ADD_FAILURE() << result.error().what() << " " << line;
    return true;
  }));
  EXPECT_EQ(client.get_config(patient).members.size(), 3u);
}

TEST(ReconfigTest, AServerThatDoesNotAllowItSaysSo) {
  zktesting::ServerOptions options;
  options.config = {{"reconfigEnabled", "false"}};
  options.jvm_flags = {super_flag};
  const zktesting::Server server(options);
  const Client client(server.connect_string());
  client.add_auth("digest", "super:secret");
  const auto code = error_of([&] { client.reconfig({.leaving = {"1"}}); });
  EXPECT_TRUE(code == Errc::reconfig_disabled || code == Errc::unimplemented) << static_cast<int>(*code);
}

}  // namespace
