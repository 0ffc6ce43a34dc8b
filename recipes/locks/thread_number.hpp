#pragma once

#include <atomic>
#include <cstdint>

namespace zkrecipes::detail {

/// The number of the calling thread. Unlike a std::thread::id, which a later thread may get, it is never used again:
/// what a thread that has ended did not unlock belongs to no thread.
inline std::uint64_t this_thread_number() noexcept {
  static std::atomic<std::uint64_t> last{0};
  thread_local const std::uint64_t number = ++last;
  return number;
}

}  // namespace zkrecipes::detail
