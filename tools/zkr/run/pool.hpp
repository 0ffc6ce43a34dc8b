#pragma once

#include <functional>

namespace zkr {

/// Runs `work` in so many processes at a time, children of this one, which must have one thread. It may not return. Passes
/// on the signals that this process gets, and ends when all have ended: of the signal to end that it got, or as the
/// first one that did not end with 0, for whose sake it tells the others to end. If it is killed, so are they.
[[noreturn]] void run_pool(int processes, const std::function<void()>& work);

}  // namespace zkr
