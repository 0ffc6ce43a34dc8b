#pragma once

#include <zkrecipes/cache.hpp>

namespace zkrecipes::detail {

/// Whether a child that is not in this snapshot of a directory certainly is not there. Children are missing while the
/// directory cannot be listed, and when it can be again, until they have been read.
inline bool names_are_known(const Snapshot& nodes) {
  if (nodes.complete() || nodes.root() == nullptr) return true;
  return nodes.exact() && !nodes.root()->unreadable;
}

}  // namespace zkrecipes::detail
