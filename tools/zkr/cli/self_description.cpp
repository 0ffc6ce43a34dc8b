#include "tools/zkr/cli/self_description.hpp"

#include <algorithm>
#include <optional>

namespace zkr {
namespace {

bool is_number(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) { return c >= '0' && c <= '9'; });
}

// Names may hold anything, so the end of the text is read first.
std::optional<SelfDescription> parse_words(std::string_view data) {
  const std::size_t since = data.rfind(" since=");
  if (since == std::string_view::npos) return std::nullopt;
  const std::size_t pid = data.rfind(" pid=", since);
  if (pid == std::string_view::npos) return std::nullopt;
  const std::size_t host = data.rfind("host=", pid);
  if (host == std::string_view::npos || (host != 0 && data[host - 1] != ' ')) return std::nullopt;
  SelfDescription self;
  self.host = data.substr(host + 5, pid - host - 5);
  self.pid = data.substr(pid + 5, since - pid - 5);
  if (!is_number(self.pid)) return std::nullopt;
  if (host > 0) {
    if (!data.starts_with("id=")) return std::nullopt;
    self.who = data.substr(3, host - 1 - 3);
  }
  return self;
}

std::optional<SelfDescription> parse_process_name(std::string_view data) {
  const std::size_t colon = data.rfind(':');
  if (colon == 0 || colon == std::string_view::npos || !is_number(data.substr(colon + 1))) return std::nullopt;
  if (data.substr(0, colon).find_first_of(": ") != std::string_view::npos) return std::nullopt;  // An address.
  SelfDescription self;
  self.host = data.substr(0, colon);
  self.pid = data.substr(colon + 1);
  return self;
}

}  // namespace

SelfDescription parse_self_description(std::string_view data) {
  if (auto words = parse_words(data)) return *words;
  if (auto name = parse_process_name(data)) return *name;
  return {.who = std::string(data)};
}

}  // namespace zkr
