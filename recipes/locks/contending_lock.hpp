#pragma once

#include <string>

#include <zkrecipes/mutex.hpp>

#include "recipes/kernel/acquirer.hpp"

namespace zkrecipes::detail {

/// For error texts; not copied.
struct LockNames {
  const char* recipe;
  const char* operation;
  const char* listing;
};

/// Completes `spec` (its layout, names and options are the lock's) for one path.
ContendSpecPtr contend_spec(const LockNames& names, const zkclient::Client& client, const zkclient::Path& path,
                            ContendSpec spec);
/// A lock with a wait order. Errors: invalid_acl.
Acquisition contending_lock(const LockNames& names, zkclient::Client client, zkclient::Path path, ContendSpec spec,
                            std::string id);

/// Mutex and RecursiveMutex exclude each other: their nodes are the same.
ContendSpec mutex_spec(const MutexOptions& options);

}  // namespace zkrecipes::detail
