#include "storm/history.hpp"

#include <fmt/format.h>

namespace storm {

std::string to_string(const Entry& entry) {
  const double seconds = std::chrono::duration<double>(entry.at).count();
  return fmt::format("{:10.6f} {:<4} {:<12} {} {} {}", seconds, entry.who, entry.what, entry.a, entry.b, entry.text);
}

}  // namespace storm
