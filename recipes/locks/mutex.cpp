#include <zkrecipes/mutex.hpp>

#include "recipes/locks/contending_lock.hpp"
#include "recipes/locks/lock_state.hpp"

namespace zkrecipes {

using detail::ContendSpec;
using detail::LockState;

ContendSpec detail::mutex_spec(const MutexOptions& options) {
  ContendSpec spec;
  spec.layout = options.layout;
  spec.kind = "lock";
  spec.names.exclusive = {"lock-", "__lock__"};
  spec.acl = options.acl;
  spec.lists_foreign = true;
  spec.look_ahead = options.look_ahead;
  spec.hands_over = true;
  return spec;
}

Mutex::Mutex(zkclient::Client client, zkclient::Path path, MutexOptions options)
    : Lock(std::make_unique<LockState>(detail::contending_lock({"mutex", "mutex acquire", "mutex contenders"},
                                                               std::move(client), std::move(path),
                                                               detail::mutex_spec(options), std::move(options.id)))) {}

}  // namespace zkrecipes
