#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <zkrecipes/lease.hpp>

namespace zkrecipes {

/// One who holds or waits, as seen by anybody.
struct Contender {
  std::string node;                             ///< Name of its node.
  std::string data;                             ///< What it wrote there: who it is.
  std::int64_t session_id = 0;                  ///< 0: a persistent node, which goes only when somebody deletes it.
  std::chrono::system_clock::time_point since;  ///< When it queued, by the server's clock.
  FencingToken token;                           ///< The token it has, or will have.
  bool holds = false;                           ///< Has nobody to wait for.
  bool shared = false;                          ///< Shares with others of this kind (a reader).
  /// Made by a library that does not share a path with this one: listed after the others, in its own order, for
  /// operators. It is not waited for, and does not wait for us, so whether it holds is not known.
  bool foreign = false;
};

}  // namespace zkrecipes
