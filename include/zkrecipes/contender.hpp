#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include <zkrecipes/lease.hpp>

namespace zkrecipes {

/// A holder or a waiter, as other clients see it.
struct Contender {
  std::string node;                             ///< Name of its node.
  std::string data;                             ///< Its own text there: its name.
  std::int64_t session_id = 0;                  ///< 0: a persistent node, which goes only when an operator deletes it.
  std::chrono::system_clock::time_point since;  ///< When it queued, by the server's clock.
  FencingToken token;                           ///< The token it has, or will have.
  bool holds = false;                           ///< Has no predecessor.
  bool shared = false;                          ///< Shares with others of this kind (a reader).
  /// Made by a library that does not share a path with this one: listed after the others, in its own order, for
  /// operators. It is not waited for, and does not wait for us, so whether it holds is not known.
  bool foreign = false;
};

}  // namespace zkrecipes
