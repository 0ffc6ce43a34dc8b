#include <zkclient/log.hpp>

#include <pthread.h>

#include <atomic>
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
  LogRecordHandler handler;
  std::atomic<int> running{0};
};

// Never destroyed: a thread may have something to say until the very end. A fork waits for the lock, under which no
// code of the user ever runs, so that a child, which may have clients of its own, finds it free.
struct Sinks {
  std::mutex mutex;
  std::shared_ptr<Sink> current = std::make_shared<Sink>();
};

thread_local const Sink* running_sink = nullptr;

Sinks& sinks();

// Of those inside the handler a child has only the thread that forked.
void begin_in_child() {
  const Sinks& all = sinks();
  all.current->running = running_sink == all.current.get() ? 1 : 0;
}

Sinks& sinks() {
  static auto* const all = [] {
    auto* const made = new Sinks;
    ::pthread_atfork([] { sinks().mutex.lock(); }, [] { sinks().mutex.unlock(); },
                     [] {
                       begin_in_child();
                       sinks().mutex.unlock();
                     });
    return made;
  }();
  return *all;
}

// Made while the program is loaded: no fork finds it half made.
[[maybe_unused]] const Sinks& made_at_once = sinks();

void write_to_standard_error(const LogRecord& record) {
  if (record.level != LogLevel::error) return;
  const std::string line = fmt::format("zkclient: error: {}\n", record.message);
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
  if (!handler) return set_log_record_handler({});
  set_log_record_handler(
      [handler = std::move(handler)](const LogRecord& record) { handler(record.level, record.message); });
}

void set_log_record_handler(LogRecordHandler handler) {
  auto next = std::make_shared<Sink>();
  next->handler = std::move(handler);
  Sinks& all = sinks();
  {
    const std::lock_guard lock(all.mutex);
    all.current.swap(next);
  }
  const Sink& former = *next;
  const int own = running_sink == &former ? 1 : 0;
  for (int running = former.running; running > own; running = former.running)
    former.running.wait(running);
}

void set_log_level(LogLevel level) noexcept {
  current_level = level;
  detail::Handle::set_library_log_level(level);
}

LogLevel log_level() noexcept { return current_level; }

namespace detail {

bool log_enabled(LogLevel level) noexcept { return level <= current_level.load(std::memory_order_relaxed); }

void log(LogLevel level, std::string message, LogFields fields) {
  if (!log_enabled(level)) return;
  LogEntry entry{level, std::move(message), std::move(fields)};
  if (Loop* loop = Loop::current()) {
    loop->log(std::move(entry));
  } else {
    deliver_log(entry);
  }
}

void deliver_log(const LogEntry& entry) noexcept {
  const LogRecord record{entry.level,          entry.message,       entry.time,       entry.fields.source,
                         entry.fields.session, entry.fields.server, entry.fields.path};
  std::shared_ptr<Sink> sink;
  {
    Sinks& all = sinks();
    const std::lock_guard lock(all.mutex);
    sink = all.current;
    ++sink->running;
  }
  const Sink* const outer = std::exchange(running_sink, sink.get());
  try {
    sink->handler ? sink->handler(record) : write_to_standard_error(record);
  } catch (...) {  // NOLINT(bugprone-empty-catch): no listener is left.
  }
  running_sink = outer;
  --sink->running;
  sink->running.notify_all();
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
  log(level, fmt::format("C client: {}", line), {.source = "C client"});
}

std::string session_name(std::int64_t id) {
  return id == 0 ? "new session" : fmt::format("session 0x{:x}", static_cast<std::uint64_t>(id));
}

}  // namespace detail
}  // namespace zkclient
