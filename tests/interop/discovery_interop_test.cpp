// ServiceDirectory beside Apache Curator's ServiceDiscovery, ServiceCache and JsonInstanceSerializer, on one path: each
// sees what the other one registers, also while our side loses replies.

#include <gtest/gtest.h>

#include <unistd.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/discovery.hpp>
#include <zktesting/environment.hpp>

#include "tests/interop/lossy_line.hpp"
#include "tests/interop/peer.hpp"
#include "tests/support/testkit.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::CuratorProgram;
using testkit::eventually;
using testkit::LossyLine;
using testkit::patience;
using testkit::Peer;
using testkit::soon;
using zkclient::Client;
using zktesting::RequestType;
using Strings = std::vector<std::string>;

class DiscoveryInterop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!CuratorProgram::installed("curator-x-discovery")) return;
    const Client client(server());
    client.ensure(root(), zkclient::CreateMode::persistent, {.deadline = soon()});
    program_ = std::make_unique<CuratorProgram>(ZKR_INTEROP_SOURCES "/CuratorDiscovery.java");
    curator_ = std::make_unique<Peer>(program_->command({server() + root().str()}));
  }
  static void TearDownTestSuite() {
    if (curator_ == nullptr) return;
    curator_.reset();
    program_.reset();
    const Client client(server());
    client.remove_tree(root(), {.deadline = soon()});
  }
  void SetUp() override {
    if (curator_ == nullptr) GTEST_SKIP() << "not installed: libcurator-discovery-java, default-jdk-headless";
    client_.emplace(server(), zkclient::ClientOptions{.session_timeout = 20s, .prefix = root()});
    directory_.emplace(*client_, "/services");
  }
  void TearDown() override {
    if (client_) client_->remove_tree("/services", {.deadline = soon()});
  }

  /// Below it is everything.
  static zkclient::Path root() { return zkclient::Path("/zkrecipes-discovery-" + std::to_string(::getpid())); }
  static Peer& curator() { return *curator_; }
  ServiceDirectory& directory() { return *directory_; }
  Client& client() { return *client_; }
  ServiceInstance found(const std::string& id) {
    for (const ListedInstancePtr& listed : directory().instances("web", {.deadline = soon()}).instances) {
      if (listed->instance.id == id) return listed->instance;
    }
    ADD_FAILURE() << id << " is not listed";
    return {};
  }

 private:
  static const std::string& server() { return zktesting::SharedServer::instance().connect_string(); }

  static inline std::unique_ptr<CuratorProgram> program_;
  static inline std::unique_ptr<Peer> curator_;
  std::optional<Client> client_;
  std::optional<ServiceDirectory> directory_;
};

// Of each type one, one of them disabled, with payloads of each kind.
TEST_F(DiscoveryInterop, CuratorSeesOurs) {
  struct Case {
    ServiceType type;
    std::string payload, seen;
  };
  std::vector<Registration> all;
  for (const Case& made :
       {Case{ServiceType::dynamic, R"({"@class":"CuratorDiscovery$Details","zone":"us","weight":1})", "us/1"},
        Case{ServiceType::dynamic_sequential, R"("text")", "text"},
        Case{ServiceType::fixed, R"({"a":1,"b":"x"})", "{a=1, b=x}"}, Case{ServiceType::permanent, "", "null"}}) {
    ServiceInstance instance{.name = "web", .id = to_string(made.type), .address = "10.0.0.1", .port = 80};
    instance.payload = made.payload;
    instance.type = made.type;
    instance.enabled = made.type != ServiceType::fixed;
    instance.uri_spec = UriSpec::parse("{scheme}://{address}:{port}/{name}/ä");
    all.push_back(directory().register_instance(instance, {.deadline = soon()}));
    // Ours and Curator's are one text.
    EXPECT_EQ(all.back().instance().uri(), "http://10.0.0.1:80/web/ä");
  }
  const Strings expected = {"DYNAMIC DYNAMIC true 10.0.0.1 80 us/1 http://10.0.0.1:80/web/ä",
                            "DYNAMIC_SEQUENTIAL DYNAMIC_SEQUENTIAL true 10.0.0.1 80 text http://10.0.0.1:80/web/ä",
                            "PERMANENT PERMANENT true 10.0.0.1 80 null http://10.0.0.1:80/web/ä",
                            "STATIC STATIC false 10.0.0.1 80 {a=1, b=x} http://10.0.0.1:80/web/ä"};
  EXPECT_EQ(curator().tell("names"), Strings{"web"}) << "what keeps our nodes apart is no service";
  EXPECT_EQ(curator().tell("list web"), expected);
  EXPECT_EQ(curator().tell("cache web 4"), expected);
  // A change reaches its cache, as does the end of one.
  all.back().unregister({.deadline = soon()});
  EXPECT_EQ(curator().tell("cache web 3").size(), 3u);
  for (Registration& registration : all)
    registration.unregister({.deadline = soon()});
  EXPECT_TRUE(curator().tell("cache web 0").empty());
}

TEST_F(DiscoveryInterop, WeSeeCurators) {
  const ServiceProvider provider = directory().provider("web");
  EXPECT_EQ(curator().tell("register web a DYNAMIC true object"), Strings{});
  EXPECT_EQ(curator().tell("register web b DYNAMIC_SEQUENTIAL true text"), Strings{});
  EXPECT_EQ(curator().tell("register web c STATIC false none"), Strings{});
  EXPECT_EQ(curator().tell("register web d PERMANENT true text"), Strings{});
  EXPECT_TRUE(eventually([&] { return provider.instances().instances.size() == 4; }));
  EXPECT_FALSE(provider.problem());
  EXPECT_EQ(directory().services({.deadline = soon()}), Strings{"web"});
  const ServiceInstance a = found("a");
  EXPECT_EQ(a.payload, R"({"@class":"CuratorDiscovery$Details","zone":"eu","weight":3})");
  EXPECT_EQ(a.uri(), "http://10.0.0.2:8080/web");
  EXPECT_EQ(a.type, ServiceType::dynamic);
  EXPECT_EQ(a.port, 8080);
  EXPECT_TRUE(a.enabled);
  EXPECT_LT(std::chrono::abs(a.registered - std::chrono::system_clock::now()), 10min);
  EXPECT_EQ(found("b").type, ServiceType::dynamic_sequential);
  EXPECT_EQ(found("b").payload, "\"text\"");
  EXPECT_EQ(found("c").type, ServiceType::fixed);
  EXPECT_FALSE(found("c").enabled);
  EXPECT_EQ(found("c").payload, "");
  EXPECT_EQ(found("d").type, ServiceType::permanent);
  for (int i = 0; i < 8; ++i)
    EXPECT_NE(provider.pick()->instance.id, "c");

  EXPECT_EQ(curator().tell("update web a other"), Strings{});
  EXPECT_TRUE(eventually([&] { return provider.instances().instances.front()->instance.payload == "\"other\""; }));
  for (const char* id : {"a", "c", "d"})
    EXPECT_EQ(curator().tell(std::string("unregister web ") + id), Strings{});
  EXPECT_TRUE(eventually([&] { return provider.instances().instances.size() == 1; }));
}

// Each change that we make loses its reply. Curator lists each instance once, as it is, and none that has gone.
TEST_F(DiscoveryInterop, CuratorSeesOursWhileRepliesAreLost) {
  LossyLine line(root());
  ServiceDirectory lossy(line.client(), "/services");
  for (const char* folder : {"/services/web", "/services-presence"})  // To stay: the first request registers.
    client().ensure(folder, zkclient::CreateMode::persistent, {.deadline = soon()});
  for (const ServiceType type : {ServiceType::dynamic, ServiceType::fixed}) {  // Of each kind of node one.
    const bool ephemeral = type == ServiceType::dynamic;
    ServiceInstance instance{.name = "web", .id = "a", .address = "10.0.0.1", .port = 80, .payload = R"("1")"};
    instance.type = type;
    const std::string before = std::string("a ") + to_string(type) + " true 10.0.0.1 80 ";
    EXPECT_TRUE(curator().tell("cache web 0").empty());
    Registration ours =
        line.lose_reply(RequestType::multi, [&] { return lossy.register_instance(instance, {.deadline = soon()}); });
    EXPECT_EQ(curator().tell("cache web 1"), Strings{before + "1 none"});
    EXPECT_EQ(curator().tell("list web"), Strings{before + "1 none"});
    instance.payload = R"("2")";
    line.lose_reply(ephemeral ? RequestType::set_data : RequestType::multi,
                    [&] { ours.update(instance, {.deadline = soon()}); });
    EXPECT_EQ(curator().tell("list web"), Strings{before + "2 none"});
    line.lose_reply(ephemeral ? RequestType::multi : RequestType::remove,
                    [&] { ours.unregister({.deadline = soon()}); });
    EXPECT_TRUE(curator().tell("list web").empty());
  }
}

TEST_F(DiscoveryInterop, WeSeeCuratorsWhileRepliesAndEventsAreLost) {
  LossyLine line(root());
  const ServiceDirectory lossy(line.client(), "/services");
  EXPECT_EQ(curator().tell("register web a DYNAMIC true text"), Strings{});
  const auto listed = line.lose_reply(RequestType::get_data,
                                      [&] { return lossy.instances("web", {.deadline = soon()}).instances.size(); });
  EXPECT_EQ(listed, 1u);
  const ServiceProvider provider = lossy.provider("web");
  const auto seen = [&] {
    Strings all;
    for (const ListedInstancePtr& one : provider.instances().instances)
      all.push_back(one->instance.id + "=" + one->instance.payload);
    return all;
  };
  EXPECT_TRUE(eventually([&] { return seen() == Strings{"a=\"text\""}; }));
  struct Step {
    std::string command;
    Strings seen;
  };
  for (const Step& step : {Step{"register web b STATIC true text", {"a=\"text\"", "b=\"text\""}},
                           Step{"update web a other", {"a=\"other\"", "b=\"text\""}},
                           Step{"unregister web b", {"a=\"other\""}}, Step{"unregister web a", {}}}) {
    const zktesting::Fault lost = line.lose_event();
    EXPECT_EQ(curator().tell(step.command), Strings{});
    EXPECT_TRUE(lost.wait(patience));
    EXPECT_TRUE(eventually([&] { return seen() == step.seen; })) << step.command;
  }
}

// Byte for byte: what Curator makes of an instance of ours is what we wrote, but for the key that it adds. (Of a
// character outside of the basic plane Jackson writes the escapes, which mean the same.)
TEST_F(DiscoveryInterop, TheFormatIsTheSame) {
  client().ensure("/services/web", zkclient::CreateMode::persistent);  // The server removes containers that are empty.
  for (int bits = 0; bits < 16; ++bits) {
    ServiceInstance instance{.name = "web", .id = "a"};
    if (bits != 3) instance.address = "::1";
    if ((bits & 1) != 0) instance.port = 80;
    if ((bits & 2) != 0) instance.ssl_port = 443;
    if ((bits & 4) != 0) instance.payload = R"("\u0001 ä € \" \\ /")";
    if ((bits & 8) != 0) instance.uri_spec = UriSpec::parse("{scheme}:");
    Registration a = directory().register_instance(instance, {.deadline = soon()});
    std::string expected = client().get(a.node()).data;
    expected.insert(expected.size() - 1, R"(,"enabled":true)");
    // Written into a node that is not kept, or it would be put right.
    a.unregister({.deadline = soon()});
    client().create(a.node(), expected.substr(0, expected.size() - 16) + "}");
    EXPECT_EQ(curator().tell("rewrite web a"), Strings{});
    EXPECT_EQ(client().get(a.node()).data, expected);
    client().remove(a.node());
  }
  client().create("/services/web/b", R"({"name":"web","id":"b","payload":"😀"})");
  EXPECT_EQ(curator().tell("rewrite web b"), Strings{});
  EXPECT_NE(client().get("/services/web/b").data.find("\\uD83D\\uDE00"), std::string::npos);
  EXPECT_EQ(found("b").payload, "\"😀\"");
}

}  // namespace
}  // namespace zkrecipes
