#pragma once

#include <atomic>
#include <cstddef>

namespace zkclient::detail {

/// The calls that a client has under way, and their bytes, held against its limits. A call counts from before the loop
/// has looked at it until a handler has taken its reply. Any thread.
class CallBudget {
 public:
  // Documented at Client.
  static constexpr std::size_t max_calls = 200'000;
  static constexpr std::size_t max_bytes = 256 * 1024 * 1024;

  void take(std::size_t bytes) noexcept {
    calls_.fetch_add(1);
    bytes_.fetch_add(bytes);
  }
  void give_back(std::size_t bytes) noexcept {
    calls_.fetch_sub(1);
    bytes_.fetch_sub(bytes);
  }
  bool exceeded() const noexcept { return calls_.load() > max_calls || bytes_.load() > max_bytes; }

 private:
  std::atomic<std::size_t> calls_{0};
  std::atomic<std::size_t> bytes_{0};
};

}  // namespace zkclient::detail
