#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/client.hpp>
#include <zktesting/environment.hpp>
#include <zktesting/server.hpp>

#include "child.hpp"
#include "peers.hpp"
#include "report.hpp"

namespace bench {

std::string beside_this_program(std::string_view name);

/// A run of contenders of several libraries against one server, in turns.
class Comparison {
 public:
  explicit Comparison(const RunOptions& options);
  ~Comparison();
  Comparison(const Comparison&) = delete;
  Comparison& operator=(const Comparison&) = delete;

  const std::string& server() const { return server_; }
  Peers& peers() { return peers_; }
  /// A node for one contender.
  std::string add_parent(const std::string& name);
  /// Nothing for a null contender: its library is not installed.
  void add(const char* name, std::unique_ptr<Contender> contender);
  void measure();
  /// Nothing if either was left out.
  void compare(const char* contender, const char* reference, std::optional<double> target);
  Report report(const std::string& benchmark, const std::string& setting);

 private:
  struct Row {
    std::unique_ptr<Contender> contender;
    Series series;
  };
  const RunOptions options_;
  std::optional<zktesting::Server> own_server_;
  std::string server_;
  std::unique_ptr<zkclient::Client> client_;
  zkclient::Path folder_;
  Peers peers_;
  std::vector<Row> rows_;
  std::vector<Ratio> ratios_;
};

/// The main function of such a benchmark.
int compare_main(const char* name, const char* usage, const std::vector<std::string>& arguments,
                 const std::function<Report(const RunOptions&)>& run);

}  // namespace bench
