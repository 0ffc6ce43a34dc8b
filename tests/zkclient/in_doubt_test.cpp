// Every write that a Client has, with exactly its reply lost, or exactly its request, or its reply and its session:
// what the caller is told is true, nothing happens twice, and nothing is sent again on another session.

#include <functional>
#include <thread>

#include <zktesting/expire.hpp>

#include "tests/support/testkit.hpp"
#include "tests/support/words.hpp"

namespace {

using namespace testkit::words;
using zkclient::CreateOptions;
using zkclient::ErrorKind;

struct Write {
  std::string name;
  RequestType request;
  /// It finds out by itself what became of a lost request: by looking for a unique name, or because doing it again is
  /// the same as doing it once.
  bool resolves;
  std::function<void(const Client&, const CallOptions&)> run;
  /// How often it happened, as read by another client.
  std::function<int(const Client&)> effects;
};

int new_children(const Client& client) { return client.exists("/w")->children_count - 1; }

struct Mode {
  const char* name;
  CreateMode mode;
  RequestType request;
};

constexpr Mode modes[] = {
    {"persistent", CreateMode::persistent, RequestType::create2},
    {"persistent_sequential", CreateMode::persistent_sequential, RequestType::create2},
    {"ephemeral", CreateMode::ephemeral, RequestType::create2},
    {"ephemeral_sequential", CreateMode::ephemeral_sequential, RequestType::create2},
    {"container", CreateMode::container, RequestType::create_container},
    {"persistent_ttl", CreateMode::persistent_ttl, RequestType::create_ttl},
    {"persistent_sequential_ttl", CreateMode::persistent_sequential_ttl, RequestType::create_ttl},
};

std::vector<Write> creates() {
  std::vector<Write> table;
  for (const Mode& mode : modes) {
    for (const bool protection : {false, true}) {
      CreateOptions options{.mode = mode.mode, .protection = protection};
      if (mode.request == RequestType::create_ttl) options.ttl = 1h;
      table.push_back({std::string(protection ? "protected_create_" : "create_") + mode.name, mode.request, protection,
                       [options](const Client& c, const CallOptions& call) { c.create("/w/new-", "x", options, call); },
                       &new_children});
    }
  }
  table.push_back({"create_parents", RequestType::create_container, true,
                   [](const Client& c, const CallOptions& call) { c.create("/w/p/q", "x", {.parents = true}, call); },
                   [](const Client& c) { return c.exists("/w/p/q") ? 1 : 0; }});
  table.push_back({"ensure", RequestType::create_container, true,
                   [](const Client& c, const CallOptions& call) { c.ensure("/w/e/f", CreateMode::container, call); },
                   [](const Client& c) { return c.exists("/w/e/f") ? 1 : 0; }});
  return table;
}

std::vector<Write> changes() {
  const auto version = [](const Client& c) { return c.exists("/w/node")->version; };
  const auto gone = [](const Client& c) { return c.exists("/w/node") ? 0 : 1; };
  return {
      {"set", RequestType::set_data, false,
       [](const Client& c, const CallOptions& call) { c.set("/w/node", "new", any_version, call); }, version},
      {"set_version", RequestType::set_data, false,
       [](const Client& c, const CallOptions& call) { c.set("/w/node", "new", 0, call); }, version},
      {"set_null", RequestType::set_data, false,
       [](const Client& c, const CallOptions& call) { c.set("/w/node", std::nullopt, 0, call); }, version},
      {"set_resolving", RequestType::set_data, true,
       [](const Client& c, const CallOptions& call) {
         c.set_resolving("/w/node", "unique", c.exists("/w/node", call).value(), call);
       },
       version},
      {"set_acl", RequestType::set_acl, false,
       [](const Client& c, const CallOptions& call) { c.set_acl("/w/node", zkclient::open_acl(), any_version, call); },
       [](const Client& c) { return c.exists("/w/node")->acl_version; }},
      {"remove", RequestType::remove, false,
       [](const Client& c, const CallOptions& call) { c.remove("/w/node", any_version, call); }, gone},
      {"remove_version", RequestType::remove, false,
       [](const Client& c, const CallOptions& call) { c.remove("/w/node", 0, call); }, gone},
      {"remove_tree", RequestType::remove, true,
       [](const Client& c, const CallOptions& call) { c.remove_tree("/w/node", call); }, gone},
      {"remove_in_background", RequestType::remove, true,
       [](const Client& c, const CallOptions& call) {
         c.remove_in_background("/w/node");
         EXPECT_TRUE(eventually([&] { return !c.exists("/w/node", call); }));
       },
       gone},
      {"commit_set", RequestType::multi, false,
       [](const Client& c, const CallOptions& call) {
         c.commit(Transaction().check("/w").set("/w/node", "new"), call);
       },
       version},
      {"commit_create", RequestType::multi, false,
       [](const Client& c, const CallOptions& call) {
         c.commit(Transaction().create("/w/new-", "", {.mode = CreateMode::ephemeral_sequential}), call);
       },
       &new_children},
      {"commit_remove", RequestType::multi, false,
       [](const Client& c, const CallOptions& call) { c.commit(Transaction().remove("/w/node", 0), call); }, gone},
  };
}

std::vector<Write> all_writes() {
  std::vector<Write> table = creates();
  for (Write& write : changes())
    table.push_back(std::move(write));
  return table;
}

class InDoubtFixture : public testkit::ServerTest {
 protected:
  void SetUp() override {
    ServerTest::SetUp();
    observer.emplace(make_client());
    observer->create("/w");
    observer->create("/w/node", "old");
    client.emplace(proxy.connect_string(), zkclient::ClientOptions{.session_timeout = 30s, .prefix = prefix()});
    client->connect(patient());
  }
  void TearDown() override {
    client.reset();
    observer.reset();
    ServerTest::TearDown();
  }

  std::optional<Client> observer;
  zktesting::Proxy proxy{hosts()};
  std::optional<Client> client;
};

class InDoubtTest : public InDoubtFixture, public ::testing::WithParamInterface<Write> {
 protected:
  int effects() { return GetParam().effects(*observer); }
  std::size_t sent() { return proxy.request_count(GetParam().request); }
  /// Nothing for success.
  std::optional<Error> run() {
    try {
      GetParam().run(*client, patient());
      return std::nullopt;
    } catch (const Error& error) {
      return error;
    }
  }
  /// What happened is all that ever happens: not even the reconnection sends it again.
  void expect_no_more_than(int count) {
    const std::size_t before = sent();
    client->sync("/", patient());
    EXPECT_EQ(sent(), before) << "it was sent again after its end was told";
    EXPECT_EQ(effects(), count);
  }
};

TEST_P(InDoubtTest, ALostReply) {
  const Fault fault = proxy.drop_next_reply(GetParam().request);
  const auto error = run();
  ASSERT_TRUE(fault.wait(testkit::patience));
  if (GetParam().resolves) {
    EXPECT_FALSE(error) << error->what();
  } else {
    ASSERT_TRUE(error) << "success was claimed";
    EXPECT_EQ(error->kind(), ErrorKind::in_doubt) << error->what();
    EXPECT_EQ(sent(), 1u);
  }
  expect_no_more_than(1);
}

TEST_P(InDoubtTest, ALostRequest) {
  const Fault fault = proxy.drop_next_request(GetParam().request);
  const auto error = run();
  ASSERT_TRUE(fault.wait(testkit::patience));
  if (GetParam().resolves) {
    EXPECT_FALSE(error) << error->what();
  } else {
    ASSERT_TRUE(error) << "success was claimed";
    EXPECT_EQ(error->kind(), ErrorKind::in_doubt) << error->what();
    EXPECT_EQ(sent(), 1u);
  }
  expect_no_more_than(GetParam().resolves ? 1 : 0);
}

TEST_P(InDoubtTest, ALostReplyAndALostSession) {
  const Session old = client->session();
  auto held = proxy.hold_next_reply(GetParam().request);
  std::optional<Error> error;
  std::thread caller([&] { error = run(); });
  EXPECT_TRUE(held.wait(testkit::patience));
  const auto credentials = old.credentials();
  zktesting::expire(hosts(), credentials.id, credentials.password);
  proxy.cut();
  held.release();
  caller.join();
  ASSERT_TRUE(eventually([&] { return client->session() != old; }));
  const int count = effects();
  EXPECT_LE(count, 1);
  if (!error) {
    EXPECT_TRUE(GetParam().resolves) << "success was claimed";
    EXPECT_EQ(count, 1) << "success was claimed, and it is not there";
  } else {
    // A protected ephemeral node belongs to its session: gone with it, and not made again on the next one.
    const bool bound = GetParam().resolves && error->kind() == ErrorKind::session_lost;
    EXPECT_TRUE(bound || error->kind() == ErrorKind::in_doubt) << error->what();
  }
  if (!GetParam().resolves) {
    EXPECT_EQ(sent(), 1u) << "it was sent on another session";
  }
  expect_no_more_than(count);
}

INSTANTIATE_TEST_SUITE_P(Each, InDoubtTest, ::testing::ValuesIn(all_writes()),
                         [](const auto& param) { return param.param.name; });

using EnsureInDoubtTest = InDoubtFixture;

// A lost reply at every level of a path, one after the other and all together.
TEST_F(EnsureInDoubtTest, SurvivesALossAtEachLevel) {
  std::vector<Fault> faults;
  for (int i = 0; i < 3; ++i) {
    faults.push_back(proxy.drop_next_reply(RequestType::create_container));
    faults.push_back(proxy.drop_next_request(RequestType::create_container));
  }
  client->ensure("/w/a/b/c", CreateMode::container, patient());
  for (const Fault& fault : faults)
    EXPECT_TRUE(fault.wait(testkit::patience));
  EXPECT_TRUE(observer->exists("/w/a/b/c"));
}

}  // namespace
