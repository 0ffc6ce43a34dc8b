#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace zkrecipes::detail {

/// The next step of a waiter that has read the list of permits.
enum class PermitStep { acquired, wait, vanished };

/// Curator's rule: every child counts, our own nodes included. `own`: names of our nodes.
PermitStep decide_permits(const std::vector<std::string>& children, const std::vector<std::string>& own, int limit);

/// The server could not list the nodes of more permits: a larger limit is a mistake.
inline constexpr int most_leases = 1'000'000;

/// Curator's SharedCount; nullopt for anything else, or for a number that is not from 0 to most_leases (digits, say).
std::optional<int> decode_limit(std::string_view data);
std::string encode_limit(int limit);

}  // namespace zkrecipes::detail
