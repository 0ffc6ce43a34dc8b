#include <zkrecipes/recursive_mutex.hpp>

#include "recipes/locks/contending_lock.hpp"
#include "recipes/locks/lock_state.hpp"

namespace zkrecipes {

RecursiveMutex::RecursiveMutex(zkclient::Client client, zkclient::Path path, MutexOptions options)
    : Lock(std::make_unique<detail::LockState>(
          detail::contending_lock({"recursive mutex", "recursive mutex acquire", "recursive mutex contenders"},
                                  std::move(client), std::move(path), detail::mutex_spec(options),
                                  std::move(options.id)),
          detail::Relock::counted)) {}

int RecursiveMutex::depth() const { return state().locked.depth(); }

}  // namespace zkrecipes
