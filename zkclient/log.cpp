#include <zkclient/log.hpp>

#include <atomic>
#include <condition_variable>
#include <cstdio>
#include <memory>
#include <mutex>
#include <utility>

#include <fmt/format.h>

#include "zkclient/detail/connection/handle.hpp"
#include "zkclient/detail/log.hpp"
#include "zkclient/detail/session/loop.hpp"

namespace zkclient {
namespace {

std::atomic<LogLevel> current_level{LogLevel::error};

// A handler, and how many threads are inside it.
struct Sink {
  LogHandler handler;
  int running = 0;
};

// Never destroyed: somebody may have something to say until the very end.
struct Sinks {
  std::mutex mutex;
  std::condition_variable idle;
  std::shared_ptr<Sink> current = std::make_shared<Sink>();
};

Sinks& sinks() {
  static auto* const all = new Sinks;
  return *all;
}

thread_local const Sink* running_sink = nullptr;

void write_to_standard_error(LogLevel level, std::string_view message) {
  if (level != LogLevel::error) return;
  const std::string line = fmt::format("zkclient: error: {}\n", message);
  std::fwrite(line.data(), 1, line.size(), stderr);
}

}  // namespace

const char* to_string(LogLevel level) noexcept {
  switch (level) {
    case LogLevel::off: return "off";
    case LogLevel::error: return "error";
    case LogLevel::warning: return "warning";
    case LogLevel::info: return "info";
    case LogLevel::debug: return "debug";
  }
  return "unknown";
}

void set_log_handler(LogHandler handler) {
  auto next = std::make_shared<Sink>();
  next->handler = std::move(handler);
  Sinks& all = sinks();
  std::unique_lock lock(all.mutex);
  const auto former = std::exchange(all.current, std::move(next));
  const int own = running_sink == former.get() ? 1 : 0;
  all.idle.wait(lock, [&] { return former->running <= own; });
}

void set_log_level(LogLevel level) noexcept {
  current_level = level;
  detail::Handle::set_library_log_level(level);
}

LogLevel log_level() noexcept { return current_level; }

namespace detail {

bool log_enabled(LogLevel level) noexcept { return level <= current_level.load(std::memory_order_relaxed); }

void log(LogLevel level, std::string message) {
  if (!log_enabled(level)) return;
  if (Loop* loop = Loop::current()) {
    loop->log(level, std::move(message));
  } else {
    deliver_log(level, message);
  }
}

void deliver_log(LogLevel level, std::string_view message) noexcept {
  Sinks& all = sinks();
  std::unique_lock lock(all.mutex);
  const auto sink = all.current;
  ++sink->running;
  lock.unlock();
  const Sink* const outer = std::exchange(running_sink, sink.get());
  try {
    sink->handler ? sink->handler(level, message) : write_to_standard_error(level, message);
  } catch (...) {  // NOLINT(bugprone-empty-catch): there is nobody to tell.
  }
  running_sink = outer;
  lock.lock();
  --sink->running;
  all.idle.notify_all();
}

void log_library_line(std::string_view line) {
  // "2026-01-01 10:00:00,000:123(0x7f00):ZOO_INFO@function@1452: text". What it calls an error is an attempt to connect
  // that failed; whether that matters we say ourselves.
  LogLevel level = LogLevel::debug;
  if (line.find(":ZOO_ERROR@") != std::string_view::npos) level = LogLevel::info;
  if (line.find(":ZOO_WARN@") != std::string_view::npos) level = LogLevel::info;
  if (!log_enabled(level)) return;
  if (const auto place = line.find(":ZOO_"); place != std::string_view::npos) {
    if (const auto text = line.find(": ", place); text != std::string_view::npos) line.remove_prefix(text + 2);
  }
  while (!line.empty() && line.back() == '\n')
    line.remove_suffix(1);
  log(level, fmt::format("C client: {}", line));
}

std::string session_name(std::int64_t id) {
  return id == 0 ? "new session" : fmt::format("session 0x{:x}", static_cast<std::uint64_t>(id));
}

}  // namespace detail
}  // namespace zkclient
