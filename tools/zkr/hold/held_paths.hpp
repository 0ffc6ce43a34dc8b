#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/cli/connection_options.hpp"
#include "tools/zkr/hold/contest.hpp"

namespace zkr {

/// A path that a caller of this process holds: "MODE SOCKET PLACE", a line of ZKR_HELD.
struct HeldPath {
  std::string mode;    // As what it is wanted, or was held at first: "exclusive", "writer", "kazoo-shared", ...
  std::string socket;  // Where its keeper answers.
  std::string place;   // Servers and path, the same from whichever process.

  std::string line() const { return mode + " " + socket + " " + place; }
};

/// As what the paths of a stake are held. Those of two modes that do not see each other's nodes differ.
std::string mode_word(const Stake& stake);
/// What ZKR_HELD says once the stake is held, and its keeper answers there.
std::vector<HeldPath> held_paths(const Connection& connection, const Stake& stake, const std::string& socket);
/// Lines in another form are left out.
std::vector<HeldPath> parse_held_paths(const std::vector<std::string>& lines);

/// What a call has to do about paths that its callers hold.
enum class Nesting {
  none,    // None of those that it wants is held by a caller.
  within,  // All are, in modes that are strong enough: its command may run at once.
  partly,  // Some are, or in a mode that is not enough. It would wait for its own caller.
};

/// `wanted` as held_paths() says it. `mode_now` asks the keeper as what its paths are held now: a writer may have become a
/// reader since ZKR_HELD was written. Nothing: the lease is over, and counts for nothing; this process has outlived it,
/// or has its environment from elsewhere.
Nesting nesting(const std::vector<HeldPath>& wanted, const std::vector<HeldPath>& held,
                const std::function<std::optional<std::string>(const std::string& socket)>& mode_now);

}  // namespace zkr
