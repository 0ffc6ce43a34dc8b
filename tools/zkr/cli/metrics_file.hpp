#pragma once

#include <condition_variable>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include <zkclient/metrics.hpp>

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// `file` must live as long as `app`.
void add_metrics_option(CLI::App& app, std::string& file);

/// What the clients of this process have counted, as OpenMetrics text. Whoever reads the file finds all of one writing: it
/// is replaced by another one. Errors: Failure (exit_system; also if there is something else than a file).
void write_metrics(const std::string& file, const zkclient::Metrics& metrics);

/// Writes them at once, every 10 s, and at the end, on a thread of its own. A file that cannot be written is tried again.
class MetricsFile {
 public:
  MetricsFile(std::string file, std::shared_ptr<zkclient::Metrics> metrics);
  MetricsFile(const MetricsFile&) = delete;
  MetricsFile& operator=(const MetricsFile&) = delete;
  ~MetricsFile();

 private:
  void work();
  void write() const;

  const std::string file_;
  const std::shared_ptr<zkclient::Metrics> metrics_;
  std::mutex mutex_;
  std::condition_variable ending_changed_;
  bool ending_ = false;
  std::thread thread_;
};

/// Has the clients that are connected from here on counted. Null: `file` is empty. Errors: as write_metrics().
std::unique_ptr<MetricsFile> count_into(const Context& context, const std::string& file);

}  // namespace zkr
