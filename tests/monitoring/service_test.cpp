// The service of examples/service, looked at as operators do: by HTTP, by its log, and by a real Prometheus.

#include <gtest/gtest.h>

#include <signal.h>

#include <cctype>
#include <fstream>
#include <functional>
#include <sstream>
#include <stdexcept>
#include <string>
#include <vector>

#include <nlohmann/json.hpp>
#include <zkclient/client.hpp>
#include <zkclient/metrics.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zktesting/proxy.hpp>

#include "tests/monitoring/http.hpp"
#include "tests/monitoring/queries.hpp"
#include "tests/support/program.hpp"
#include "tests/support/temporary_folder.hpp"
#include "tests/support/testkit.hpp"

namespace {

using monitoring::Answer;
using monitoring::get;
using testkit::eventually;
using testkit::patient;
using testkit::Program;

std::string in_url(const std::string& text) {
  std::ostringstream out;
  out << std::hex << std::uppercase;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0)
      out << c;
    else
      out << '%' << (byte < 16 ? "0" : "") << static_cast<int>(byte);
  }
  return out.str();
}

/// A candidate that works.
class Service : public Program {
 public:
  Service(const std::string& servers, const std::string& name)
      : Program("/usr/bin/env", {"ZKRECIPES_SERVER=" + servers, "ZKRECIPES_SESSION_TIMEOUT=12000",
                                 "ZKRECIPES_LISTEN=127.0.0.1:0", SERVICE, name}),
        address_(next_line().substr(std::string("listening on ").size())) {}

  const std::string& address() const { return address_; }
  Answer health() const { return get(address_, "/healthz"); }
  bool eventually_has(int status, const std::string& body) const {
    return eventually([&] {
      const Answer answer = health();
      return answer.status == status && answer.body.find(body) != std::string::npos;
    });
  }
  /// The next span that is like this.
  nlohmann::json span(const std::function<bool(const nlohmann::json& span)>& is_wanted) {
    return nlohmann::json::parse(
        says_one_that([&](const std::string& line) { return is_wanted(nlohmann::json::parse(line)); }));
  }

 private:
  std::string address_;
};

/// A real one, which looks at a service five times a second.
class Prometheus {
 public:
  Prometheus(const testkit::TemporaryFolder& folder, const std::string& target)
      : program_("/bin/sh", {"-c", "exec \"$0\" \"$@\" 2>&1", monitoring::program_file("prometheus"),
                             "--config.file=" + config(folder, target),
                             "--storage.tsdb.path=" + (folder / "data").string(), "--web.listen-address=127.0.0.1:0"}) {
    const std::string line =
        program_.says_one_that([](const std::string& said) { return said.find("Listening on") != std::string::npos; });
    address_ = line.substr(line.find("address=") + std::string("address=").size());
    (void)program_.says_one_that(
        [](const std::string& said) { return said.find("Server is ready") != std::string::npos; });
  }

  nlohmann::json ask(const std::string& target) const {
    const Answer answer = get(address_, "/api/v1/" + target);
    const nlohmann::json reply = nlohmann::json::parse(answer.body);
    if (reply.at("status") != "success") throw std::runtime_error(target + ": " + answer.body);
    return reply.at("data");
  }
  /// The series that it gives now.
  nlohmann::json query(const std::string& expression) const {
    return ask("query?query=" + in_url(expression)).at("result");
  }
  bool eventually_gives(const std::string& expression) const {
    return eventually([&] { return !query(expression).empty(); });
  }
  std::string alert_expression(const std::string& name) const {
    const nlohmann::json rules = ask("rules").at("groups").at(0).at("rules");
    for (const auto& rule : rules)
      if (rule.at("name") == name) return rule.at("query");
    throw std::runtime_error("there is no alert " + name);
  }

 private:
  static std::string config(const testkit::TemporaryFolder& folder, const std::string& target) {
    const nlohmann::json targets{{"targets", {target}}};
    const nlohmann::json job{{"job_name", "services"}, {"static_configs", nlohmann::json::array({targets})}};
    const nlohmann::json all{{"global", {{"scrape_interval", "200ms"}, {"scrape_timeout", "200ms"}}},
                             {"rule_files", nlohmann::json::array({MONITORING "/alerts.yml"})},
                             {"scrape_configs", nlohmann::json::array({job})}};
    const std::string file = folder / "prometheus.yml";
    std::ofstream(file) << all;
    return file;
  }

  Program program_;
  std::string address_;
};

class MonitoredService : public testkit::FaultTest {
 protected:
  bool is_leading(const Service& one) const { return one.eventually_has(200, "leading"); }

  Service service{proxy.connect_string(), "first"};
  testkit::TemporaryFolder folder;
};

TEST_F(MonitoredService, AnswersAndResignsWhenItIsTerminated) {
  ASSERT_TRUE(is_leading(service));
  Service other(server.connect_string(), "second");
  ASSERT_TRUE(other.eventually_has(200, "following"));

  const Answer metrics = get(service.address(), "/metrics");
  EXPECT_EQ(metrics.status, 200);
  EXPECT_EQ(metrics.content_type, zkclient::Metrics::content_type);
  EXPECT_TRUE(metrics.body.ends_with("\n# EOF\n"));
  EXPECT_NE(metrics.body.find("\nzkrecipes_leases_held 1\n"), std::string::npos);
  EXPECT_EQ(get(service.address(), "/").status, 404);

  service.signal(SIGTERM);
  EXPECT_EQ(service.status(), 0);
  EXPECT_TRUE(is_leading(other));
  other.signal(SIGTERM);
  EXPECT_EQ(other.status(), 0);
  const zkclient::Client client = direct();
  const zkrecipes::LeaderElection election(client, "/examples/service/election");
  EXPECT_TRUE(eventually([&] { return election.candidates(patient()).empty(); }));
}

TEST_F(MonitoredService, LogsItsSpans) {
  const auto of = [](const std::string& kind) {
    return [kind](const nlohmann::json& span) { return span.at("kind") == kind; };
  };
  const nlohmann::json campaign = service.span([](const nlohmann::json& span) {
    return span.at("kind") == "call" && span.at("operation").get<std::string>().find("campaign") != std::string::npos;
  });
  EXPECT_EQ(campaign.at("path"), "/examples/service/election");
  EXPECT_FALSE(campaign.contains("error"));
  EXPECT_GT(service.span(of("heartbeat")).at("duration_us"), 0);

  ASSERT_TRUE(is_leading(service));
  proxy.refuse(true);
  proxy.cut();
  const nlohmann::json lost = service.span(of("lease"));
  EXPECT_TRUE(lost.contains("error"));
  EXPECT_TRUE(lost.contains("detail"));
  EXPECT_GT(lost.at("token"), 0);
}

TEST_F(MonitoredService, PrometheusSeesALeaseThatIsLost) {
  if (monitoring::program_file("prometheus").empty()) GTEST_SKIP() << monitoring::no_prometheus;
  const Prometheus prometheus(folder, service.address());
  ASSERT_TRUE(prometheus.eventually_gives("zkrecipes_leases_held == 1"));
  ASSERT_TRUE(is_leading(service));
  EXPECT_TRUE(prometheus.query(prometheus.alert_expression("ZkrecipesLeasesLost")).empty());

  proxy.refuse(true);
  proxy.cut();
  EXPECT_TRUE(service.eventually_has(503, "refused the connection"));
  EXPECT_TRUE(prometheus.eventually_gives("zkrecipes_sessions_connected == 0"));
  EXPECT_TRUE(prometheus.eventually_gives(prometheus.alert_expression("ZkrecipesLeasesLost")));
  proxy.refuse(false);
  ASSERT_TRUE(prometheus.eventually_gives("zkrecipes_leases_held == 1"));

  EXPECT_TRUE(prometheus.eventually_gives("up == 1"));
  EXPECT_TRUE(prometheus.eventually_gives("scrape_samples_scraped > 0"));
  EXPECT_TRUE(prometheus.eventually_gives("service_ticks_total > 0"));
  for (const std::string& query : monitoring::dashboard_queries())
    EXPECT_TRUE(prometheus.eventually_gives(query)) << query;
  EXPECT_TRUE(prometheus.eventually_gives(prometheus.alert_expression("ZkrecipesLeasesLost")));
  EXPECT_TRUE(prometheus.query(prometheus.alert_expression("ZkrecipesNoSession")).empty());
}

}  // namespace
