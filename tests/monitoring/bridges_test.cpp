// The examples that hand spans and numbers on to other systems.

#include <gtest/gtest.h>

#include <signal.h>

#include <fstream>
#include <regex>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <zkclient/client.hpp>
#include <zkrecipes/mutex.hpp>

#include "tests/monitoring/http.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/testkit.hpp"

namespace {

class Bridge : public testkit::FaultTest {
 protected:
  /// For /usr/bin/env: a program with an argument, and the server of the test.
  std::vector<std::string> command(const std::string& program, const std::string& argument) const {
    return {"ZKRECIPES_SERVER=" + server.connect_string(), program, argument};
  }
};

// --- OpenTelemetry ---------------------------------------------------------------------------------------------------

class Tracing : public Bridge {
 protected:
  void SetUp() override {
    Bridge::SetUp();
    const std::string file = folder / "spans.jsonl";
    testkit::Program program("/usr/bin/env", command(TRACING, file));
    ASSERT_EQ(program.status(), 0);
    std::ifstream lines(file);
    for (std::string line; std::getline(lines, line);)
      spans.push_back(span_in(nlohmann::json::parse(line)));
  }

  const nlohmann::json& named(const std::string& name) const {
    for (const nlohmann::json& span : spans)
      if (span.at("name") == name) return span;
    throw std::runtime_error("no span " + name);
  }
  static nlohmann::json attribute(const nlohmann::json& span, const std::string& key) {
    for (const nlohmann::json& one : span.at("attributes"))
      if (one.at("key") == key) return one.at("value");
    return {};
  }

  std::vector<nlohmann::json> spans;

 private:
  // Of a line, which has one.
  static nlohmann::json span_in(const nlohmann::json& line) {
    const nlohmann::json& resource_spans = line.at("resourceSpans");
    EXPECT_EQ(resource_spans.size(), 1U);
    EXPECT_EQ(attribute(resource_spans.at(0).at("resource"), "service.name").at("stringValue"), "tracing example");
    const nlohmann::json& scope_spans = resource_spans.at(0).at("scopeSpans");
    EXPECT_EQ(scope_spans.size(), 1U);
    EXPECT_EQ(scope_spans.at(0).at("scope").at("name"), "zkrecipes");
    EXPECT_EQ(scope_spans.at(0).at("spans").size(), 1U);
    return scope_spans.at(0).at("spans").at(0);
  }

  testkit::TemporaryFolder folder;
};

TEST_F(Tracing, SpansHaveTheShapeOfTheProtocol) {
  const std::regex trace_id("[0-9a-f]{32}");
  const std::regex span_id("[0-9a-f]{16}");
  const std::regex decimal("[1-9][0-9]{18}");  // Nanoseconds since 1970, in our times.
  std::set<std::string> ids;
  for (const nlohmann::json& span : spans) {
    EXPECT_TRUE(std::regex_match(span.at("traceId").get<std::string>(), trace_id)) << span;
    EXPECT_TRUE(std::regex_match(span.at("spanId").get<std::string>(), span_id)) << span;
    EXPECT_TRUE(ids.insert(span.at("spanId").get<std::string>()).second) << span;
    const auto begin = span.at("startTimeUnixNano").get<std::string>();
    const auto end = span.at("endTimeUnixNano").get<std::string>();
    EXPECT_TRUE(std::regex_match(begin, decimal) && std::regex_match(end, decimal)) << span;
    EXPECT_LE(std::stoll(begin), std::stoll(end)) << span;
    EXPECT_TRUE(span.at("kind").is_number_integer()) << span;
    EXPECT_TRUE(span.at("attributes").is_array()) << span;
  }
  EXPECT_GE(ids.size(), 4U);
}

TEST_F(Tracing, CallsAreChildrenOfTheWorkThatMadeThem) {
  const nlohmann::json& work = named("handle order");
  EXPECT_FALSE(work.contains("parentSpanId"));
  for (const char* name : {"mutex acquire", "get"}) {
    const nlohmann::json& call = named(name);
    EXPECT_EQ(call.at("traceId"), work.at("traceId")) << name;
    EXPECT_EQ(call.at("parentSpanId"), work.at("spanId")) << name;
  }
  EXPECT_FALSE(named("lease").contains("parentSpanId"));
}

TEST_F(Tracing, SpansSayWhatTheyAreOf) {
  const nlohmann::json& acquire = named("mutex acquire");
  EXPECT_EQ(attribute(acquire, "zkrecipes.path").at("stringValue"), "/examples/tracing/stock");
  EXPECT_FALSE(acquire.contains("status"));
  const nlohmann::json& lease = named("lease");
  EXPECT_TRUE(attribute(lease, "zkrecipes.token").at("intValue").is_string());
  EXPECT_FALSE(lease.contains("status")) << "it was given back";
  const nlohmann::json& failed = named("get");
  EXPECT_EQ(failed.at("status").at("code"), 2);
  EXPECT_NE(failed.at("status").at("message"), "");
}

// --- prometheus-cpp --------------------------------------------------------------------------------------------------

#ifdef PROMETHEUS_EXAMPLE
TEST_F(Bridge, PrometheusCppServesTheLibrarysNumbersBesideOthers) {
  testkit::Program program("/usr/bin/env", command(PROMETHEUS_EXAMPLE, "127.0.0.1:0"));
  const std::string line = program.says("listening on ");
  const monitoring::Answer answer = monitoring::get(line.substr(std::string("listening on ").size()), "/metrics");
  EXPECT_EQ(answer.status, 200);
  for (const char* name : {"service_rounds_total", "zkrecipes_sessions_connected", "zkrecipes_leases_granted_total"})
    EXPECT_TRUE(std::regex_search(answer.body, std::regex(std::string("\n") + name + " [1-9]"))) << name;
  program.signal(SIGTERM);
  EXPECT_EQ(program.status(), 0);
}

TEST_F(Bridge, PrometheusCppExampleEndsWhileItWaitsForTheLock) {
  const zkclient::Client client(server.connect_string());
  zkrecipes::Mutex mutex(client, "/examples/prometheus/lock");
  const zkrecipes::Lease lease = mutex.acquire();
  testkit::Program program("/usr/bin/env", command(PROMETHEUS_EXAMPLE, "127.0.0.1:0"));
  EXPECT_TRUE(testkit::eventually([&] { return mutex.contenders().size() == 2; }));
  program.signal(SIGTERM);
  EXPECT_EQ(program.status(), 0);
}
#endif

}  // namespace
