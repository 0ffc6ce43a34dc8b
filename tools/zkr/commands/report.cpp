#include "tools/zkr/commands/report.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <string_view>

#include <fmt/format.h>

#include "tools/zkr/cli/exit_code.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {
namespace {

/// Paths are UTF-8 without control characters.
std::string quoted(const std::string& text) {
  std::string result = "\"";
  for (const char byte : text) {
    if (byte == '"' || byte == '\\') result += '\\';
    result += byte;
  }
  return result + '"';
}

std::string reason_of(const Outcome& outcome) {
  switch (outcome.cause) {
    case Cause::command_ended: return "ended";
    case Cause::lost: return "lost";
    case Cause::revoked: return "revoked";
    case Cause::held_too_long: return "held too long";
    case Cause::hung: return "hung";
    case Cause::stopped: return "stopped";
    case Cause::not_acquired: return outcome.ending.code == exit_no_server ? "no server" : "not acquired";
    case Cause::none:
      if (outcome.keeper_failed) return "failed";
      break;
    case Cause::front_gone: break;
  }
  return "killed";
}

}  // namespace

std::string report_text(const Outcome& outcome, const std::vector<std::string>& paths, bool with_token) {
  std::string listed;
  for (const std::string& path : paths)
    listed += (listed.empty() ? "" : ",") + quoted(path);
  const bool by_signal = outcome.ending.signal != 0;
  const std::string waited = outcome.waited ? std::to_string(*outcome.waited / std::chrono::milliseconds(1)) : "null";
  return fmt::format(R"({{"reason":"{}","code":{},"signal":{},"waited_ms":{},"token":{},"holder":{},"paths":[{}]}})",
                     reason_of(outcome), by_signal ? "null" : std::to_string(outcome.ending.code),
                     by_signal ? std::to_string(outcome.ending.signal) : "null", waited,
                     with_token && outcome.waited ? std::to_string(outcome.token) : "null",
                     outcome.holder.empty() ? "null" : outcome.holder, listed);
}

bool write_report(const char* file, const std::string& text) {
  const Descriptor opened(::open(file, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666));
  return opened && write_report(opened.get(), text);
}

bool write_report(int descriptor, const std::string& text) {
  const std::string line = text + "\n";
  for (std::string_view left = line; !left.empty();) {
    const ssize_t written = ::write(descriptor, left.data(), left.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) return false;
    left.remove_prefix(static_cast<std::size_t>(written));
  }
  return true;
}

}  // namespace zkr
