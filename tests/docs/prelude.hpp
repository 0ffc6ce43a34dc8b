#pragma once

// What the cpp blocks of README.md and docs/*.md take for granted: see blocks.py.

#include <chrono>
#include <cstdint>
#include <cstdio>
#include <memory>
#include <optional>
#include <stdexcept>
#include <stop_token>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include <zkclient/asio.hpp>
#include <zkclient/client.hpp>
#include <zkclient/log.hpp>
#include <zkclient/metrics.hpp>
#include <zkclient/observer.hpp>
#include <zkrecipes/asio.hpp>
#include <zkrecipes/guardian.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/placement.hpp>
#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/tree_cache.hpp>
#include <zkrecipes/typed.hpp>
#include <zktesting/expire.hpp>
#include <zktesting/proxy.hpp>
#include <zktesting/server.hpp>

#include <boost/asio/awaitable.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "examples/tracing/otlp_spans.hpp"

using namespace std::chrono_literals;

namespace docs {

// On all pages.
extern zkclient::Client client;

namespace readme_md {
void stop_work();
}

namespace client_md {
extern std::string text;
extern std::int32_t version;
}  // namespace client_md

namespace configuration_md {
struct Limits {};
Limits parse_limits(const zkrecipes::ConfigurationValues& values);
void use(const Limits& limits);
extern zkrecipes::Configuration config;
extern zkrecipes::ConfigurationUpdate update;
extern std::int64_t newest;
}  // namespace configuration_md

namespace connection_md {
extern std::string passphrase;
extern std::string password;
}  // namespace connection_md

namespace elections_md {
extern zkrecipes::LeaderElection election;
void work(const zkrecipes::FencingToken& token);
bool send(const std::optional<std::string>& address);
}  // namespace elections_md

namespace index_md {
struct Resource {
  void write(const zkrecipes::FencingToken& token, const std::string& text);
};
extern Resource resource;
extern std::string report;
}  // namespace index_md

namespace jobs_md {
void tell(const std::exception_ptr& error);
void make_report(zkrecipes::JobTime time, const std::stop_token& stop, const zkrecipes::FencingToken& token);
extern const zkrecipes::JobFiring& firing;
extern std::string report;
}  // namespace jobs_md

namespace metrics_md {
extern std::shared_ptr<zkclient::Metrics> metrics;
void answer(const std::string& text, const char* content_type);
template <typename... T>
void report(const T&... of_span);
template <typename... T>
void write_log(const T&... fields);
extern std::FILE* file;
class SlowCalls : public zkclient::Observer {
 public:
  void on_span(const zkclient::Span& span, const std::shared_ptr<const void>& context) override;
};
}  // namespace metrics_md

namespace migrations_md {
extern zkrecipes::MigrationSet users;
extern zkrecipes::Migrations migrations;
}  // namespace migrations_md

namespace partitions_md {
struct Workers {
  void start(zkrecipes::Partition partition);
};
extern Workers workers;
extern zkclient::Path path;
extern std::string name;
extern std::string order_id;
extern std::string request;
bool send(const std::string& address, const std::string& request);
void serve(zkrecipes::Primary primary);
}  // namespace partitions_md

namespace recovery_md {
extern zkclient::SessionCredentials kept;
}

namespace replication_md {
struct Log {
  std::string storage_id() const;
  template <typename... T>
  void make_equal(const T&... of_term);
  template <typename... T>
  void follow(const T&... of_term);
  void append(const std::string& entry);
  template <typename Members>
  void send_and_await(const std::string& entry, const Members& members);
};
struct Caller {
  void acknowledge();
};
extern Log log;
struct Logs {
  void open(const std::string& partition, const zkclient::Path& group);
  void close(const std::string& partition);
  void erase(const std::string& partition);
};
extern Logs logs;
bool send(const std::string& address);
extern Caller caller;
extern std::string id;
extern std::string address;
extern std::string entry;
}  // namespace replication_md

namespace simulation_md {
extern std::uint64_t seed;
void run_my_service(const std::string& servers);
bool a_leads();
bool b_leads();
void expect(bool condition);
}  // namespace simulation_md

namespace testing_md {
extern zktesting::Server server;
}

namespace two_phase_commit_md {
zkrecipes::CommitVote reserve(const zkrecipes::CommitTransaction& transaction);
void pay(const zkrecipes::CommitTransaction& transaction);
void give_back(const zkrecipes::CommitTransaction& transaction);
extern std::stop_token stop_token;
}  // namespace two_phase_commit_md

namespace values_md {
std::string raise(const std::string& number);
struct Limits {
  int connections;
};
}  // namespace values_md

}  // namespace docs

template <>
struct zkrecipes::Codec<docs::values_md::Limits> {
  static std::string encode(const docs::values_md::Limits& limits);
  static docs::values_md::Limits decode(std::string_view bytes);
};
