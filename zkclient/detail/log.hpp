#pragma once

#include <chrono>
#include <cstdint>
#include <string>
#include <string_view>

#include <zkclient/export.hpp>
#include <zkclient/log.hpp>

namespace zkclient::detail {

/// Whether a message of this level is wanted; ask before you compose it.
ZKRECIPES_INTERNAL_API bool log_enabled(LogLevel level) noexcept;

/// What a message is about; see LogRecord.
struct LogFields {
  std::int64_t session = 0;
  std::string server = {};
  std::string path = {};
  const char* source = "zkclient";
};

/// A message on its way to the handler.
struct LogEntry {
  LogLevel level;
  std::string message;
  LogFields fields = {};
  std::chrono::system_clock::time_point time = std::chrono::system_clock::now();
};

/// Hands a message to the handler; from the loop thread by way of the callback executor, else at once.
ZKRECIPES_INTERNAL_API void log(LogLevel level, std::string message, LogFields fields = {});

/// Calls the handler, here and now.
void deliver_log(const LogEntry& entry) noexcept;

/// One line of the C client: the text without date and process, at our level for it.
void log_library_line(std::string_view line);

/// For messages: how a session is called.
std::string session_name(std::int64_t id);

}  // namespace zkclient::detail
