#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <zkrecipes/counter.hpp>

namespace zkrecipes::detail {

/// Whether the encoding has this number.
bool fits(std::int64_t value, CounterEncoding encoding) noexcept;
/// Of a number that fits.
std::string encode_counter(std::int64_t value, CounterEncoding encoding);
/// nullopt: it is no number. No data is 0, as for Curator and kazoo.
std::optional<std::int64_t> decode_counter(std::string_view data, CounterEncoding encoding) noexcept;

}  // namespace zkrecipes::detail
