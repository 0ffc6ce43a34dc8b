#include "storm/simulated/seeds.hpp"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <limits>
#include <sstream>
#include <stdexcept>

#include <fmt/format.h>

namespace storm {

void SeedSet::add(std::uint64_t first, std::uint64_t last) {
  auto next = last_of_.upper_bound(first);
  if (next != last_of_.begin()) {
    const auto before = std::prev(next);
    const bool touches = before->second == std::numeric_limits<std::uint64_t>::max() || before->second + 1 >= first;
    if (touches) {
      first = before->first;
      last = std::max(last, before->second);
      next = last_of_.erase(before);
    }
  }
  while (next != last_of_.end() && (last == std::numeric_limits<std::uint64_t>::max() || next->first <= last + 1)) {
    last = std::max(last, next->second);
    next = last_of_.erase(next);
  }
  last_of_[first] = last;
}

bool SeedSet::contains(std::uint64_t seed) const {
  const auto next = last_of_.upper_bound(seed);
  return next != last_of_.begin() && std::prev(next)->second >= seed;
}

std::uint64_t SeedSet::size() const {
  std::uint64_t sum = 0;
  for (const auto& [first, last] : last_of_)
    sum += last - first + 1;
  return sum;
}

std::string SeedSet::text() const {
  std::string text;
  for (const auto& [first, last] : last_of_) {
    if (!text.empty()) text += ",";
    text += first == last ? fmt::format("{}", first) : fmt::format("{}-{}", first, last);
  }
  return text.empty() ? "-" : text;
}

SeedSet SeedSet::parse(const std::string& text) {
  SeedSet set;
  if (text == "-") return set;
  std::istringstream parts(text);
  std::string part;
  while (std::getline(parts, part, ',')) {
    const auto dash = part.find('-');
    const std::uint64_t first = parse_number(part.substr(0, dash));
    const std::uint64_t last = dash == std::string::npos ? first : parse_number(part.substr(dash + 1));
    if (last < first) throw std::invalid_argument(fmt::format("{} ends before it begins", part));
    set.add(first, last);
  }
  if (set.empty() || text.back() == ',') throw std::invalid_argument(fmt::format("\"{}\" names no seeds", text));
  return set;
}

std::uint64_t parse_number(const std::string& text) {
  std::uint64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (text.empty() || error != std::errc() || end != text.data() + text.size())
    throw std::invalid_argument(fmt::format("\"{}\" is not a number", text));
  return number;
}

}  // namespace storm
