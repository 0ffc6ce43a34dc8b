#pragma once

#include <memory>
#include <string>

#include "lock_peer.hpp"

namespace bench {

/// How the contenders of this library ask for the lock. The waiters of a drain are asynchronous in any case.
enum class Form {
  asynchronous,  ///< A handler that got it asks again.
  look_ahead,    ///< The same, with MutexOptions::look_ahead.
  blocking,      ///< A thread for each.
};

std::unique_ptr<LockPeer> make_our_locks(const std::string& server, const std::string& folder, Form form);

}  // namespace bench
