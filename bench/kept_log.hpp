#pragma once

#include <cstddef>
#include <cstdio>
#include <deque>
#include <exception>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>

#include <zkclient/log.hpp>

namespace bench {

/// Keeps the library's warnings and errors for as long as it lives, so that a report is not mixed with them: what a
/// benchmark does to servers is meant. The last ones are shown if an exception ends that.
class KeptLog {
 public:
  KeptLog() {
    zkclient::set_log_handler([lines = lines_](zkclient::LogLevel level, std::string_view message) {
      const std::lock_guard lock(lines->mutex);
      lines->last.push_back(std::string(zkclient::to_string(level)) + ": " + std::string(message));
      if (lines->last.size() > most_lines) lines->last.pop_front();
    });
    zkclient::set_log_level(zkclient::LogLevel::warning);
  }
  ~KeptLog() {
    zkclient::set_log_level(zkclient::LogLevel::error);
    zkclient::set_log_handler({});
    if (std::uncaught_exceptions() == 0) return;
    for (const std::string& line : lines_->last)
      std::fprintf(stderr, "%s\n", line.c_str());
  }
  KeptLog(const KeptLog&) = delete;
  KeptLog& operator=(const KeptLog&) = delete;

 private:
  static constexpr std::size_t most_lines = 50;
  struct Lines {
    std::mutex mutex;
    std::deque<std::string> last;
  };
  const std::shared_ptr<Lines> lines_ = std::make_shared<Lines>();
};

}  // namespace bench
