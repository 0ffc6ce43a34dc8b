#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zkrecipes::detail {

/// The sequence number that the server appended to a name made of anything, one of `infixes`, and the number; nullopt
/// for any other name. The last occurrence of an infix counts.
///
/// The server prints a signed 32-bit counter with "%010d": ten characters, or eleven when it has wrapped to less than
/// -999999999. What stands before the number must be known: "lock-1000000005" is +1000000005 after "lock-".
std::optional<std::int32_t> sequence_of(std::string_view name, const std::vector<std::string_view>& infixes);

/// True when `a` was created before `b`. The counter wraps, so what counts is the difference: right for any two nodes
/// that were created within 2^31 creates of each other.
constexpr bool precedes(std::int32_t a, std::int32_t b) noexcept {
  const auto difference = static_cast<std::uint32_t>(a) - static_cast<std::uint32_t>(b);
  return static_cast<std::int32_t>(difference) < 0;
}

/// The names that have a sequence number, in the order of their creation; the others left out.
std::vector<std::string> in_order(const std::vector<std::string>& names, const std::vector<std::string_view>& infixes);

/// Those of `names` that look like contenders of other libraries, in the order of their creation; without those that
/// `infixes` account for. Known are ZooKeeper's own locks ("x-<session in hex or decimal>-<n>"), its election
/// ("n_<n>"), and what its documentation describes ("<id>-read-<n>", "<id>-write-<n>", "<id>-n_<n>"), besides the names
/// of the other recipes of Curator and kazoo.
std::vector<std::string> foreign_contenders(const std::vector<std::string>& names,
                                            const std::vector<std::string_view>& infixes);

}  // namespace zkrecipes::detail
