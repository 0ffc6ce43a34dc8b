#pragma once

#include <string_view>

/// The text that is written into a holder's node to ask for its lease.
namespace zkrecipes::detail {

/// As Curator writes it, and understands it.
inline constexpr std::string_view curator_revocation = "__REVOKE__";
/// As ZooKeeper's documentation has it ("Revocable Shared Locks").
inline constexpr std::string_view documented_revocation = "unlock";

inline bool is_revocation(std::string_view data) { return data == curator_revocation || data == documented_revocation; }

}  // namespace zkrecipes::detail
