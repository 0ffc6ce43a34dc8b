// ServiceDirectory beside Apache Curator's ServiceDiscovery, ServiceCache and JsonInstanceSerializer, on one path: each
// sees what the other one registers.

#include <gtest/gtest.h>

#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <zkrecipes/discovery.hpp>
#include <zktesting/server.hpp>

#include "tests/interop/process.hpp"
#include "tests/support/testkit.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using testkit::soon;
using zkclient::Client;
using Strings = std::vector<std::string>;

std::string jars() {
  const char* given = std::getenv("ZKRECIPES_JARS");
  return given != nullptr ? given : "/usr/share/java";
}

/// The Java program, compiled, and running.
class CuratorsDiscovery {
 public:
  explicit CuratorsDiscovery(const std::string& hosts)
      : process_(compiled(hosts), [this](const std::string& line) { said_.put(line); }) {}
  ~CuratorsDiscovery() { std::filesystem::remove_all(classes()); }
  CuratorsDiscovery(const CuratorsDiscovery&) = delete;
  CuratorsDiscovery& operator=(const CuratorsDiscovery&) = delete;

  static bool installed() { return std::filesystem::exists(jars() + "/curator-x-discovery.jar"); }

  /// What it answers.
  Strings tell(const std::string& command) {
    process_.tell(command);
    Strings answer;
    for (std::string line = said_.take(); line != "done"; line = said_.take())
      answer.push_back(line);
    return answer;
  }

 private:
  static std::string classes() {
    return std::filesystem::temp_directory_path() / ("zkrecipes-discovery-" + std::to_string(::getpid()));
  }
  static Strings compiled(const std::string& hosts) {
    std::string path = classes();
    for (const char* jar : {"curator-x-discovery", "curator-recipes", "curator-framework", "curator-client", "guava",
                            "failureaccess", "zookeeper", "zookeeper-jute", "slf4j-api", "metrics-core", "snappy-java",
                            "jackson-core", "jackson-databind", "jackson-annotations"}) {
      path += ":" + jars() + "/" + jar + ".jar";
    }
    std::filesystem::create_directories(classes());
    const std::string compile = "javac -d '" + classes() + "' -cp '" + path + "' '" CURATOR_DISCOVERY "'";
    EXPECT_EQ(std::system(compile.c_str()), 0) << compile;
    return {"java",
            "-XX:TieredStopAtLevel=1",
            "-XX:+UseSerialGC",
            "-Xshare:auto",
            "-Xmx128m",
            "-cp",
            path,
            "CuratorDiscovery",
            hosts};
  }

  testkit::Box<std::string> said_;
  const testkit::Process process_;
};

class DiscoveryInterop : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (!CuratorsDiscovery::installed()) return;
    server_ = std::make_unique<zktesting::Server>();
    curator_ = std::make_unique<CuratorsDiscovery>(server_->connect_string());
  }
  static void TearDownTestSuite() {
    curator_.reset();
    server_.reset();
  }
  void SetUp() override {
    if (curator_ == nullptr) GTEST_SKIP() << "Apache Curator's discovery is not installed";
    client_.emplace(server_->connect_string(), zkclient::ClientOptions{.session_timeout = 20s});
    directory_.emplace(*client_, "/services");
  }
  void TearDown() override {
    if (client_) client_->remove_tree("/services", {.deadline = soon()});
  }

  static CuratorsDiscovery& curator() { return *curator_; }
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
  static std::unique_ptr<zktesting::Server> server_;
  static std::unique_ptr<CuratorsDiscovery> curator_;
  std::optional<Client> client_;
  std::optional<ServiceDirectory> directory_;
};
std::unique_ptr<zktesting::Server> DiscoveryInterop::server_;
std::unique_ptr<CuratorsDiscovery> DiscoveryInterop::curator_;

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

// Byte for byte: what Curator makes of an instance of ours is what we wrote, but for the key that it adds. (Of a
// character outside of the basic plane Jackson writes the escapes, which mean the same.)
TEST_F(DiscoveryInterop, TheFormatIsTheSame) {
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
