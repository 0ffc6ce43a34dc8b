#include "recipes/kernel/sequence.hpp"

#include <algorithm>
#include <charconv>
#include <utility>

namespace zkrecipes::detail {
namespace {

std::optional<std::int32_t> parse(std::string_view digits) {
  const bool negative = digits.starts_with('-');
  const bool right_length = digits.size() == 10 || (negative && digits.size() == 11);
  if (!right_length) return std::nullopt;
  std::int32_t value = 0;
  const char* end = digits.data() + digits.size();
  const auto [stop, error] = std::from_chars(digits.data(), end, value);
  if (error != std::errc() || stop != end) return std::nullopt;
  return value;
}

}  // namespace

std::optional<std::int32_t> sequence_of(std::string_view name, const std::vector<std::string_view>& infixes) {
  for (const std::string_view infix : infixes) {
    const std::size_t at = name.rfind(infix);
    if (at == std::string_view::npos) continue;
    if (const auto value = parse(name.substr(at + infix.size()))) return value;
  }
  return std::nullopt;
}

std::vector<std::string> in_order(const std::vector<std::string>& names, const std::vector<std::string_view>& infixes) {
  std::vector<std::pair<std::int32_t, const std::string*>> found;
  for (const std::string& name : names) {
    if (const auto sequence = sequence_of(name, infixes)) found.emplace_back(*sequence, &name);
  }
  if (found.empty()) return {};
  // Names made by hand may be so far apart that "precedes" goes round in a circle, which no sort survives: compare the
  // distances from the first one.
  const auto before = [](const auto& a, const auto& b) { return precedes(a.first, b.first); };
  const auto first = static_cast<std::uint32_t>(std::min_element(found.begin(), found.end(), before)->first);
  std::sort(found.begin(), found.end(), [first](const auto& a, const auto& b) {
    const std::uint32_t distance_a = static_cast<std::uint32_t>(a.first) - first;
    const std::uint32_t distance_b = static_cast<std::uint32_t>(b.first) - first;
    return distance_a == distance_b ? *a.second < *b.second : distance_a < distance_b;
  });
  std::vector<std::string> ordered;
  ordered.reserve(found.size());
  for (const auto& entry : found)
    ordered.push_back(*entry.second);
  return ordered;
}

std::vector<std::string> foreign_contenders(const std::vector<std::string>& names,
                                            const std::vector<std::string_view>& infixes) {
  std::vector<std::string> others;
  std::vector<std::string_view> known = {"lock-",  "__lock__", "__WRIT__", "__READ__", "__rlock__",
                                         "latch-", "lease-",   "-read-",   "-write-",  "n_"};
  for (const std::string& name : names) {
    if (sequence_of(name, infixes)) continue;
    // "x-<session>-": what stands before the number is another one in each name.
    const std::size_t dash = name.starts_with("x-") ? name.find('-', 2) : std::string::npos;
    if (dash != std::string::npos && dash > 2) known.push_back(std::string_view(name).substr(0, dash + 1));
    others.push_back(name);
  }
  return in_order(others, known);
}

}  // namespace zkrecipes::detail
