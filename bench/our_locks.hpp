#pragma once

#include <memory>
#include <string>

#include "lock_peer.hpp"

namespace bench {

/// This library, with or without MutexOptions::look_ahead.
std::unique_ptr<LockPeer> make_our_locks(const std::string& server, const std::string& folder, bool look_ahead);

}  // namespace bench
