#include <arpa/inet.h>
#include <dlfcn.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <functional>
#include <iostream>
#include <memory>

#include <zkclient/features.hpp>
#include <zkclient/log.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/tls_keys.hpp"
#include "tests/support/words.hpp"

// zookeeper_init_ssl() forgets a copy of its argument.
extern "C" const char* __lsan_default_suppressions() { return "leak:zookeeper_init_ssl\n"; }  // NOLINT

namespace {

using namespace testkit::words;
using testkit::TlsKeys;
using zkclient::StateChange;

constexpr const char* how_to_get_it = "this C client has none; to run the test: scripts/test.sh --preset tls";

// The text of the Error that `action` throws.
template <typename Action>
std::string text_of_error(Errc code, Action&& action) {
  try {
    action();
  } catch (const Error& error) {
    EXPECT_EQ(error.errc(), code) << error.what();
    return error.what();
  }
  ADD_FAILURE() << "no error was thrown";
  return {};
}

TEST(FeaturesTest, TellWhatTheCClientExports) {
  // A C client that is linked statically is not to be seen here.
  if (dlsym(RTLD_DEFAULT, "zookeeper_init2") == nullptr) GTEST_SKIP() << "the C client is not a shared library";
  EXPECT_EQ(zkclient::features().tls, dlsym(RTLD_DEFAULT, "zookeeper_init_ssl") != nullptr);
  EXPECT_EQ(zkclient::features().sasl, dlsym(RTLD_DEFAULT, "zookeeper_init_sasl") != nullptr);
}

// --- TLS ----------------------------------------------------------------------------------------------------------

class TlsTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!zkclient::features().tls) return;
    keys_ = std::make_unique<TlsKeys>();
    server_ = std::make_unique<zktesting::Server>(keys_->server());
  }
  static void TearDownTestSuite() {
    server_.reset();
    keys_.reset();
  }
  void SetUp() override {
    if (!zkclient::features().tls) GTEST_SKIP() << "TLS: " << how_to_get_it;
  }
  void TearDown() override {
    if (HasFailure() && server_ != nullptr) std::cerr << "--- log of the server ---\n" << server_->log() << "\n";
  }

  static TlsKeys& keys() { return *keys_; }
  static zktesting::Server& server() { return *server_; }
  static std::string secure() { return server_->secure_connect_string(); }
  static ClientOptions options() {
    return {.session_timeout = 10s, .operation_timeout = testkit::patience, .tls = keys_->client()};
  }
  // For a session, and a connection, that outlives a pause or a restart of the server on a busy machine.
  static ClientOptions lasting() {
    ClientOptions lasting = options();
    lasting.session_timeout = 60s;
    return lasting;
  }
  // The option is refused, and nothing in the text is secret.
  static std::string refusal(const zkclient::TlsOptions& tls) {
    const std::string text =
        text_of_error(Errc::invalid_argument, [&] { const Client client(secure(), {.tls = tls}); });
    EXPECT_EQ(text.find(TlsKeys::passphrase), std::string::npos) << text;
    return text;
  }

 private:
  static inline std::unique_ptr<TlsKeys> keys_;
  static inline std::unique_ptr<zktesting::Server> server_;
};

TEST_F(TlsTest, CreatesReadsAndWatches) {
  const Client client(secure(), options());
  EXPECT_EQ(client.create("/a", "x").path, "/a");
  Box<WatchEvent> events;
  const auto watched = client.get_and_watch("/a", [&](const WatchEvent& event) { events.put(event); });
  EXPECT_EQ(watched.value().data, "x");
  client.set("/a", "y");
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
  EXPECT_EQ(client.server(), secure());
  client.remove("/a");
}

TEST_F(TlsTest, AKeyWithAPassphraseWorks) {
  ClientOptions with = options();
  with.tls = keys().client_with_passphrase();
  const Client client(secure(), with);
  EXPECT_TRUE(client.exists("/"));
}

TEST_F(TlsTest, ManyRepliesAtOnceAndLargeOnes) {
  const Client client(secure(), options());
  const std::string large(900'000, 'l');
  client.create("/large", large);
  constexpr int reads = 1000;
  Box<bool> done;
  for (int i = 0; i < reads; ++i) {
    client.async_get("/zookeeper", [&](const Result<zkclient::NodeData>& result) { done.put(result.has_value()); });
  }
  EXPECT_EQ(client.get("/large").data, large);
  for (int i = 0; i < reads; ++i)
    ASSERT_TRUE(done.take());
  client.remove("/large");
}

// Without room in the socket's buffer nothing is begun: see Handle::has_room().
TEST_F(TlsTest, WritesThatAServerDoesNotTakeYetDoNotCostTheConnection) {
  const Client client(secure(), lasting());
  client.create("/busy", "");
  Box<ConnectionState> states;
  const auto listener = client.on_state_change([&](const StateChange& change) { states.put(change.state); });
  ASSERT_EQ(states.take(), ConnectionState::connected);
  constexpr int writes = 400;
  Box<bool> done;
  server().pause();
  for (int i = 0; i < writes; ++i) {
    const std::string data(static_cast<std::size_t>(i % 2 == 0 ? 100'000 : 500), 'x');
    client.async_set("/busy", data, -1, [&](const Result<Stat>& result) { done.put(result.has_value()); });
  }
  // The loop has tried to send all it can when it comes to this.
  EXPECT_FALSE(eventually([&] { return !done.empty(); }, 300ms));
  server().resume();
  for (int i = 0; i < writes; ++i)
    EXPECT_TRUE(done.take());
  EXPECT_TRUE(states.empty());
  client.remove("/busy");
}

TEST_F(TlsTest, TheSessionSurvivesARestartOfTheServer) {
  const Client client(secure(), lasting());
  const std::int64_t id = client.connect().id();
  client.create("/mine", "", {.mode = CreateMode::ephemeral});
  Box<WatchEvent> events;
  const auto watched = client.get_and_watch("/mine", [&](const WatchEvent& event) { events.put(event); });
  server().restart();
  client.sync("/");  // A set that left on the old connection would be in doubt.
  client.set("/mine", "again");
  EXPECT_EQ(client.session().id(), id);
  EXPECT_EQ(events.take().type, WatchEventType::data_changed);
}

TEST_F(TlsTest, CredentialsResumeTheSession) {
  zktesting::Proxy proxy(secure(), {.parse = false, .listen_address = {}});
  Client first(proxy.connect_string(), options());
  first.create("/resumed", "", {.mode = CreateMode::ephemeral});
  ClientOptions resuming = options();
  resuming.resume = first.session().credentials();
  proxy.refuse(true);  // So that the first client cannot end the session when it is closed.
  proxy.cut();
  first.close();
  const Client second(secure(), resuming);
  EXPECT_EQ(second.connect().id(), resuming.resume->id);
  EXPECT_EQ(second.exists("/resumed")->ephemeral_owner, resuming.resume->id);
}

TEST_F(TlsTest, ANewListOfServersKeepsTheSession) {
  const zktesting::Proxy proxy(secure(), {.parse = false, .listen_address = {}});
  const Client client(secure(), options());
  const std::int64_t id = client.connect().id();
  client.update_servers(proxy.connect_string());
  EXPECT_EQ(client.session().id(), id);
  EXPECT_EQ(client.server(), proxy.connect_string());
  EXPECT_TRUE(client.exists("/"));
}

TEST_F(TlsTest, ClosingEndsTheSessionAtTheServer) {
  Client client(secure(), lasting());
  client.create("/fleeting", "", {.mode = CreateMode::ephemeral});
  client.close();
  // Long before the session expires. A server that pauses is not waited for.
  const Client observer(server().connect_string());
  EXPECT_TRUE(eventually([&] { return !observer.exists("/fleeting"); }, 20s));
}

TEST_F(TlsTest, ACertificateOfAnotherCaIsRefusedAndSaysSo) {
  Box<std::string> errors;
  zkclient::set_log_handler([&](zkclient::LogLevel, std::string_view line) { errors.put(std::string(line)); });
  ClientOptions wrong = options();
  wrong.tls->ca_file = keys().file("other-ca.pem");
  {
    const Client client(secure(), wrong);
    ASSERT_TRUE(eventually([&] { return client.trouble().find("certificate verify failed") != std::string::npos; }));
    const std::string text =
        text_of_error(Errc::deadline_exceeded, [&] { client.connect({.deadline = testkit::SteadyClock::now() + 2s}); });
    EXPECT_NE(text.find("certificate verify failed"), std::string::npos) << text;
    EXPECT_EQ(client.session().id(), 0);
  }
  zkclient::set_log_handler({});
  ASSERT_EQ(errors.size(), 1u);  // Once, however many attempts there were.
  EXPECT_NE(errors.take().find("certificate verify failed"), std::string::npos);
}

TEST_F(TlsTest, APortWithoutTlsIsNotSpokenToInTheClear) {
  const Client client(server().connect_string(), options());
  EXPECT_EQ(error_of([&] { client.connect({.deadline = testkit::SteadyClock::now() + 1s}); }), Errc::deadline_exceeded);
  const Client plain(secure(), {.session_timeout = 10s});
  EXPECT_EQ(error_of([&] { plain.connect({.deadline = testkit::SteadyClock::now() + 1s}); }), Errc::deadline_exceeded);
}

// Accepts connections (the kernel does) and never says a word.
class MuteServer {
 public:
  MuteServer() : socket_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof address;
    auto* const generic = reinterpret_cast<sockaddr*>(&address);
    if (::bind(socket_, generic, size) != 0 || ::listen(socket_, 16) != 0 ||
        ::getsockname(socket_, generic, &size) != 0) {
      throw std::runtime_error("cannot listen");
    }
    port_ = ntohs(address.sin_port);
  }
  ~MuteServer() { ::close(socket_); }
  MuteServer(const MuteServer&) = delete;
  MuteServer& operator=(const MuteServer&) = delete;
  std::string connect_string() const { return "127.0.0.1:" + std::to_string(port_); }

 private:
  int socket_;
  std::uint16_t port_ = 0;
};

TEST_F(TlsTest, AServerThatHangsInTheHandshakeStopsNobodyElse) {
  const MuteServer mute;
  zkclient::Runtime runtime;
  ClientOptions patient = options();
  patient.session_timeout = 60s;  // So that the attempt is not given up meanwhile.
  Client hanging(runtime, mute.connect_string(), patient);
  EXPECT_EQ(error_of([&] { hanging.connect({.deadline = testkit::SteadyClock::now() + 300ms}); }),
            Errc::deadline_exceeded);
  const Client other(runtime, secure(), options());
  EXPECT_TRUE(other.exists("/"));
  hanging.update_servers(secure());  // Leaves a handshake behind.
  EXPECT_TRUE(hanging.exists("/"));
  const Client closed(runtime, mute.connect_string(), patient);
  EXPECT_EQ(error_of([&] { closed.connect({.deadline = testkit::SteadyClock::now() + 300ms}); }),
            Errc::deadline_exceeded);
  const auto begun = testkit::SteadyClock::now();
  Client(closed).close();
  EXPECT_LT(testkit::SteadyClock::now() - begun, 10s);
}

TEST_F(TlsTest, AServerThatHangsIsGivenUpForTheNext) {
  const MuteServer mute[2];
  const Client client(mute[0].connect_string() + "," + mute[1].connect_string() + "," + secure(),
                      {.session_timeout = 2s, .operation_timeout = testkit::patience, .tls = keys().client()});
  EXPECT_TRUE(client.exists("/"));
}

TEST_F(TlsTest, OptionsThatCannotWorkAreRefused) {
  const auto with = [](const std::function<void(zkclient::TlsOptions&)>& change) {
    zkclient::TlsOptions tls = keys().client_with_passphrase();
    change(tls);
    return refusal(tls);
  };
  EXPECT_NE(with([](auto& tls) { tls.ca_file = ""; }).find("ca_file is missing"), std::string::npos);
  EXPECT_NE(with([](auto& tls) { tls.ca_file = "/nowhere/ca.pem"; }).find("/nowhere/ca.pem: No such"),
            std::string::npos);
  EXPECT_NE(with([](auto& tls) { tls.certificate_file += ",x"; }).find("comma"), std::string::npos);
  EXPECT_NE(with([](auto& tls) { tls.key_file = keys().file("server.key"); }).find("mismatch"), std::string::npos);
  EXPECT_NE(with([](auto& tls) { tls.key_file = tls.ca_file; }).find("key_file cannot be used"), std::string::npos);
  EXPECT_NE(with([](auto& tls) { tls.key_passphrase += ","; }).find("comma"), std::string::npos);
  EXPECT_NE(with([](auto& tls) { tls.key_passphrase = "x"; }).find("key_file cannot be used"), std::string::npos);
  EXPECT_NE(with([](auto& tls) { tls.key_passphrase = ""; }).find("key_file cannot be used"), std::string::npos);
}

TEST_F(TlsTest, FilesThatVanishAreTriedAgainUntilTheyAreBack) {
  const std::string ca = keys().file("vanishing.pem");
  std::filesystem::copy_file(keys().file("ca.pem"), ca);
  ClientOptions vanishing = options();
  vanishing.tls->ca_file = ca;
  const MuteServer nobody;
  Client client(nobody.connect_string(), vanishing);
  std::filesystem::remove(ca);
  client.async_update_servers(secure(), [](const Result<void>&) {});
  EXPECT_EQ(error_of([&] { client.connect({.deadline = testkit::SteadyClock::now() + 1s}); }), Errc::deadline_exceeded);
  std::filesystem::copy_file(keys().file("ca.pem"), ca);
  EXPECT_TRUE(client.exists("/"));
}

// --- SASL ---------------------------------------------------------------------------------------------------------

class SaslTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!zkclient::features().sasl) return;
    std::string pattern = std::filesystem::temp_directory_path() / "zkrecipes-jaas-XXXXXX";
    if (::mkdtemp(pattern.data()) == nullptr) throw std::runtime_error("no temporary folder");
    directory_ = pattern;
    demand("swordfish");
    zktesting::ServerOptions options;
    options.jvm_flags = {"-Djava.security.auth.login.config=" + password_file().string()};
    options.config = {{"authProvider.1", "org.apache.zookeeper.server.auth.SASLAuthenticationProvider"}};
    server_ = std::make_unique<zktesting::Server>(options);
  }
  static void TearDownTestSuite() {
    server_.reset();
    std::error_code ignored;
    std::filesystem::remove_all(directory_, ignored);
  }
  void SetUp() override {
    if (!zkclient::features().sasl) GTEST_SKIP() << "SASL: " << how_to_get_it;
  }

  static zktesting::Server& server() { return *server_; }
  // Of bob, from the next start of the server on.
  static void demand(const std::string& password) {
    std::ofstream(password_file()) << "Server {\n  org.apache.zookeeper.server.auth.DigestLoginModule required\n"
                                   << "  user_bob=\"" << password << "\";\n};\n";
  }
  static ClientOptions options(const std::string& password = "swordfish") {
    return {.session_timeout = 10s,
            .operation_timeout = testkit::patience,
            .sasl = zkclient::SaslOptions{.mechanisms = "DIGEST-MD5", .user = "bob", .password = password}};
  }
  static zkclient::AclList only_bob() { return {{zkclient::Acl::all, "sasl", "bob"}}; }

 private:
  static std::filesystem::path password_file() { return directory_ / "jaas.conf"; }

  static inline std::filesystem::path directory_;
  static inline std::unique_ptr<zktesting::Server> server_;
};

TEST_F(SaslTest, TheLoginIsAnIdentityForAccessControl) {
  const Client bob(server().connect_string(), options());
  const Client anybody(server().connect_string());
  bob.create("/secret", "x", {.acl = only_bob()});
  EXPECT_EQ(bob.get("/secret").data, "x");
  EXPECT_EQ(error_of([&] { anybody.get("/secret"); }), Errc::no_auth);
  bob.remove("/secret");
}

TEST_F(SaslTest, TheLoginIsRepeatedAfterAReconnection) {
  ClientOptions lasting = options();
  lasting.session_timeout = 60s;  // It outlives a restart on a busy machine.
  const Client bob(server().connect_string(), lasting);
  const std::int64_t id = bob.connect().id();
  bob.create("/kept", "x", {.acl = only_bob()});
  server().restart();
  EXPECT_EQ(bob.get("/kept").data, "x");
  EXPECT_EQ(bob.session().id(), id);
  bob.remove("/kept");
}

TEST_F(SaslTest, AWrongPasswordIsAnErrorAndNoLoopOfAttempts) {
  Box<std::string> lines;
  zkclient::set_log_handler([&](zkclient::LogLevel, std::string_view line) { lines.put(std::string(line)); });
  zkclient::set_log_level(zkclient::LogLevel::debug);
  const auto begin = testkit::SteadyClock::now();
  {
    const Client bob(server().connect_string(), options("guesswork"));
    const std::string text = text_of_error(Errc::auth_failed, [&] { bob.connect(); });
    EXPECT_EQ(text.find("guesswork"), std::string::npos) << text;
    EXPECT_EQ(error_of([&] { bob.exists("/"); }), Errc::auth_failed);
  }
  zkclient::set_log_level(zkclient::LogLevel::error);
  zkclient::set_log_handler({});
  std::size_t refusals = 0;
  while (!lines.empty()) {
    const std::string line = lines.take();
    if (line.starts_with("SASL: ")) ++refusals;
    EXPECT_EQ(line.find("guesswork"), std::string::npos) << line;
  }
  EXPECT_GE(refusals, 2u);
  const auto seconds = std::chrono::ceil<std::chrono::seconds>(testkit::SteadyClock::now() - begin).count();
  EXPECT_LE(refusals, 2u + static_cast<std::size_t>(seconds)) << "one in a second";
}

TEST_F(SaslTest, ARefusedLoginEndsTheSessionThatConnectsOrIsSuspended) {
  Box<StateChange> states;
  const auto listen = [&](const Client& client) {
    return client.on_state_change([&](const StateChange& change) { states.put(change); });
  };
  {
    server().pause();  // Until a server listens.
    const Client bob(server().connect_string(), options("guesswork"));
    const auto listener = listen(bob);
    const StateChange first = states.take();
    EXPECT_EQ(first.state, ConnectionState::connecting);
    server().resume();
    const StateChange next = states.take();
    EXPECT_EQ(next.state, ConnectionState::lost);
    EXPECT_EQ(next.session, first.session);
  }
  while (!states.empty())
    states.take();
  const Client bob(server().connect_string(), options());
  const Session session = bob.connect();
  const auto listener = listen(bob);
  EXPECT_EQ(states.take().state, ConnectionState::connected);
  demand("another one");
  server().restart();
  EXPECT_EQ(states.take().state, ConnectionState::suspended);
  EXPECT_EQ(states.take().state, ConnectionState::lost);
  EXPECT_EQ(session.state(), ConnectionState::lost);
  demand("swordfish");
  server().restart();
  // A call that meets a refusal ends with it; the next session does better.
  EXPECT_NE(
      states.take_until([](const StateChange& change) { return change.state == ConnectionState::connected; }).session,
      session);
}

TEST_F(SaslTest, OptionsThatCannotWorkAreRefused) {
  const auto with = [](const std::function<void(zkclient::SaslOptions&)>& change) {
    ClientOptions wrong = options();
    change(*wrong.sasl);
    return error_of([&] { const Client client(server().connect_string(), wrong); });
  };
  EXPECT_EQ(with([](auto& sasl) { sasl.mechanisms = "NO-SUCH"; }), Errc::unsupported);
  EXPECT_EQ(with([](auto& sasl) { sasl.mechanisms = " "; }), Errc::invalid_argument);
  EXPECT_EQ(with([](auto& sasl) { sasl.user = ""; }), Errc::invalid_argument);
  EXPECT_EQ(with([](auto& sasl) { sasl.service = ""; }), Errc::invalid_argument);
  EXPECT_EQ(with([](auto& sasl) { sasl.password = std::string("a\0b", 3); }), Errc::invalid_argument);
}

TEST_F(SaslTest, IsNotOfferedTogetherWithTls) {
  if (!zkclient::features().tls) GTEST_SKIP() << "TLS: " << how_to_get_it;
  const TlsKeys keys;
  ClientOptions both = options();
  both.tls = keys.client();
  EXPECT_EQ(error_of([&] { const Client client(server().connect_string(), both); }), Errc::unsupported);
}

}  // namespace
