#include "recipes/locks/permit_decider.hpp"

#include <algorithm>
#include <cstdint>

namespace zkrecipes::detail {

PermitStep decide_permits(const std::vector<std::string>& children, const std::vector<std::string>& own, int limit) {
  const auto present = [&](const std::string& name) {
    return std::find(children.begin(), children.end(), name) != children.end();
  };
  if (own.empty() || !std::all_of(own.begin(), own.end(), present)) return PermitStep::vanished;
  const bool fits = limit > 0 && children.size() <= static_cast<std::size_t>(limit);
  return fits ? PermitStep::acquired : PermitStep::wait;
}

std::optional<int> decode_limit(std::string_view data) {
  if (data.size() != 4) return std::nullopt;
  std::uint32_t value = 0;
  for (const char c : data)
    value = value << 8U | static_cast<unsigned char>(c);
  const auto limit = static_cast<std::int32_t>(value);
  if (limit < 0 || limit > most_leases) return std::nullopt;
  return limit;
}

std::string encode_limit(int limit) {
  std::string data;
  for (int shift = 24; shift >= 0; shift -= 8)
    data += static_cast<char>(static_cast<std::uint32_t>(limit) >> static_cast<unsigned>(shift) & 0xFFU);
  return data;
}

}  // namespace zkrecipes::detail
