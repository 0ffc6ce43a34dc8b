#include "tools/zkr/cli/output.hpp"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"

namespace zkr {
namespace {

[[noreturn]] void fail(const char* what) {
  throw Failure(exit_system, fmt::format("{}: {}", what, std::strerror(errno)));
}

// Letters beyond ASCII take one column, whatever their number of bytes.
std::size_t width(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80; }));
}

// U+0080 to U+009F: terminals obey them as they obey an escape.
bool is_late_control(std::string_view utf8) {
  return utf8.size() > 1 && utf8[0] == '\xC2' && static_cast<unsigned char>(utf8[1]) < 0xA0;
}

}  // namespace

void write_bytes(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) fail("standard output");
    bytes.remove_prefix(static_cast<std::size_t>(written));
  }
}

void write_line(std::string_view line) { write_bytes(std::string(line) + "\n"); }
void write_line(const json::value& value) { write_line(std::string_view(json_text(value))); }

void say(std::string_view text) { fmt::print(stderr, "zkr: {}\n", text); }

std::string read_input() {
  std::string bytes;
  char buffer[1 << 16];
  for (;;) {
    const ssize_t size = ::read(STDIN_FILENO, buffer, sizeof buffer);
    if (size < 0 && errno == EINTR) continue;
    if (size < 0) fail("standard input");
    if (size == 0) return bytes;
    bytes.append(buffer, static_cast<std::size_t>(size));
  }
}

std::string table(const std::vector<std::vector<std::string>>& rows) {
  std::vector<std::size_t> widths;
  for (const auto& row : rows) {
    widths.resize(std::max(widths.size(), row.size()));
    for (std::size_t i = 0; i < row.size(); ++i)
      widths[i] = std::max(widths[i], width(row[i]));
  }
  std::string text;
  for (const auto& row : rows) {
    std::string line;
    for (std::size_t i = 0; i < row.size(); ++i) {
      line += row[i];
      if (i + 1 < row.size()) line.append(widths[i] - width(row[i]) + 2, ' ');
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += line + "\n";
  }
  return text;
}

std::string printable(std::string_view bytes) {
  std::string text;
  json::object probe;
  add_data(probe, bytes);
  const bool utf8 = probe.contains("data");
  while (!bytes.empty()) {
    const auto code = static_cast<unsigned char>(bytes.front());
    const std::size_t size = utf8 && is_late_control(bytes) ? 2 : 1;
    const bool plain = size == 1 && code >= 0x20 && code != 0x7F && (utf8 || code < 0x80);
    for (const char byte : bytes.substr(0, size))
      text += plain ? std::string(1, byte) : fmt::format("\\x{:02X}", static_cast<unsigned char>(byte));
    bytes.remove_prefix(size);
  }
  return text;
}

}  // namespace zkr
