#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <string_view>

#include <zkclient/export.hpp>

namespace zkclient {

/// From silent to talkative.
enum class LogLevel {
  off,
  /// Something that an operator has to put right: refused credentials, no descriptors left, no server for a whole session
  /// timeout.
  error,
  warning,  ///< A connection or session or lease lost, names that cannot be resolved.
  info,     ///< Sessions opened, resumed, closed, moved to other servers; the C client's errors and warnings.
  debug,    ///< The C client's informational messages.
};

ZKRECIPES_API const char* to_string(LogLevel level) noexcept;

/// One message, without a line end. The text is only good during the call.
using LogHandler = std::function<void(LogLevel level, std::string_view message)>;

/// What becomes of the library's messages and of the C client's, in the whole process. By default errors go to
/// standard error, and nothing else is written anywhere; an empty handler restores that.
///
/// Handlers run on the callback executor of the Runtime whose client has something to say, one message of a Runtime at
/// a time and in order, never inside its event loop: a slow one delays other messages, and nothing else for long. Up to
/// 1000 of them wait; of what comes then, only the number is told. A Runtime that is closed has delivered its
/// messages. Handlers may call the library, and may throw: that is ignored.
///
/// Messages name sessions (ids), servers and paths; never data, passwords or credentials.
///
/// Thread safety: any thread, at any time. The former handler is not called any more once this has returned, unless
/// it is itself the caller.
ZKRECIPES_API void set_log_handler(LogHandler handler);

/// A message with what it is about, for logs that are searched by field. The texts are only good during the call.
struct LogRecord {
  LogLevel level;                              ///< How serious it is.
  std::string_view message;                    ///< Complete: it names what the fields below repeat.
  std::chrono::system_clock::time_point time;  ///< When it was logged, by the wall clock.
  std::string_view source;                     ///< "zkclient", "zkrecipes", or "C client".
  std::int64_t session = 0;  ///< The session's id; 0 if the message is not about one, or it has none yet.
  std::string_view server;   ///< "ip:port", where the message is about one server; else "".
  std::string_view path;     ///< Where the message is about one node, or one recipe; else "".
};
using LogRecordHandler = std::function<void(const LogRecord& record)>;

/// The same as set_log_handler(), with fields. There is one handler: the one that was set last.
ZKRECIPES_API void set_log_record_handler(LogRecordHandler handler);

/// Messages above `level` are not made at all. Default: LogLevel::error.
ZKRECIPES_API void set_log_level(LogLevel level) noexcept;
ZKRECIPES_API LogLevel log_level() noexcept;

}  // namespace zkclient
