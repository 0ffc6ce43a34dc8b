#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <thread>

#include <zkclient/export.hpp>
#include <zkclient/function.hpp>

/// What a library with threads of its own owes to the program: signals go to the program's threads, and a forked child
/// touches nothing of its parent's.
namespace zkclient::detail {

/// How often this process, and those it descends from, were forked since the library came up: a number that a child
/// does not share with its parent.
class ZKRECIPES_INTERNAL_API ProcessGeneration {
 public:
  ProcessGeneration() noexcept;  ///< The present one.
  /// True in a child of the process in which this was made. Async-signal-safe.
  bool forked() const noexcept;

 private:
  std::uint64_t number_;
};

/// In a forked child: what belongs to its parent is never destroyed.
ZKRECIPES_INTERNAL_API void keep_for_ever(std::shared_ptr<void> owned) noexcept;

/// A thread that blocks all signals, apart from those that report an error of the thread itself: a handler of the
/// program runs on one of the program's own threads. `name`: at most 15 characters. Throws std::system_error.
ZKRECIPES_INTERNAL_API std::thread start_thread(const char* name, UniqueFunction<void()> body);

}  // namespace zkclient::detail
