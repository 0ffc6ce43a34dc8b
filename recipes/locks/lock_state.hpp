#pragma once

#include <memory>
#include <utility>

#include "recipes/kernel/acquirer.hpp"
#include "recipes/locks/thread_locks.hpp"

namespace zkrecipes::detail {

/// Behind a public lock.
struct LockState {
  explicit LockState(Acquisition acquisition, Relock relock = Relock::refused)
      : acquirer(std::make_shared<const Acquirer>(std::move(acquisition))),
        locked(acquirer->recipe(), acquirer->path(), relock) {}

  const std::shared_ptr<const Acquirer> acquirer;  ///< Shared with the MultiLocks that it was added to.
  ThreadLocks locked;
};

}  // namespace zkrecipes::detail
