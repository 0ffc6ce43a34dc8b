#include "storm/history.hpp"

#include <fmt/format.h>

namespace storm {

std::string to_string(const Entry& entry) {
  std::string text =
      fmt::format("{:10.6f} {:<4} {}", std::chrono::duration<double>(entry.at).count(), entry.who, entry.what);
  if (entry.a != 0 || entry.b != 0) text += fmt::format(" {}", entry.a);
  if (entry.b != 0) text += fmt::format(" {}", entry.b);
  if (!entry.text.empty()) text += " " + entry.text;
  return text;
}

}  // namespace storm
