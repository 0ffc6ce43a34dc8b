#include "recipes/values/counter_format.hpp"

#include <charconv>
#include <limits>

namespace zkrecipes::detail {
namespace {

constexpr std::size_t size_of(CounterEncoding encoding) noexcept {
  return encoding == CounterEncoding::curator_int32 ? sizeof(std::int32_t) : sizeof(std::int64_t);
}

std::optional<std::int64_t> decode_decimal(std::string_view digits) noexcept {
  std::int64_t value = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), value);
  if (error != std::errc() || end != digits.data() + digits.size()) return std::nullopt;
  return value;
}

}  // namespace

bool fits(std::int64_t value, CounterEncoding encoding) noexcept {
  using Narrow = std::numeric_limits<std::int32_t>;
  return encoding != CounterEncoding::curator_int32 || (value >= Narrow::min() && value <= Narrow::max());
}

std::string encode_counter(std::int64_t value, CounterEncoding encoding) {
  if (encoding == CounterEncoding::kazoo) return std::to_string(value);
  const std::size_t size = size_of(encoding);
  std::string data(size, '\0');
  for (std::size_t i = 0; i < size; ++i)
    data[i] = static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * (size - 1 - i)) & 0xff);
  return data;
}

std::optional<std::int64_t> decode_counter(std::string_view data, CounterEncoding encoding) noexcept {
  if (data.empty()) return 0;
  if (encoding == CounterEncoding::kazoo) return decode_decimal(data);
  if (data.size() != size_of(encoding)) return std::nullopt;
  std::uint64_t bits = 0;
  for (const char byte : data)
    bits = bits << 8 | static_cast<unsigned char>(byte);
  if (encoding == CounterEncoding::curator_int32) return static_cast<std::int32_t>(static_cast<std::uint32_t>(bits));
  return static_cast<std::int64_t>(bits);
}

}  // namespace zkrecipes::detail
