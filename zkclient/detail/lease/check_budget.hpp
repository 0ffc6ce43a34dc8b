#pragma once

#include <algorithm>
#include <cstddef>

namespace zkclient::detail {

/// How many bytes of checks a heartbeat carries. A server whose limit (jute.maxbuffer) is lower drops the connection
/// without a word, and a network that fails does the same. So one loss says nothing; after the second one in a row the
/// next heartbeat is half as large, and answers make it grow again: at first the next one does, and each time that went
/// wrong it takes twice as many.
class CheckBudget {
 public:
  static constexpr std::size_t most = std::size_t{256} * 1024;
  static constexpr std::size_t least = std::size_t{8} * 1024;  // Any server takes that, whatever its jute.maxbuffer.

  std::size_t bytes() const noexcept { return bytes_; }

  /// A heartbeat of that size was lost.
  void lost(std::size_t sent) noexcept {
    if (sent <= least) return;
    answers_ = 0;
    if (++losses_ < 2) return;
    if (losses_ == 2) patience_ = std::min(patience_ * 2, longest_patience);
    bytes_ = std::max(least, sent / 2);
  }
  /// A heartbeat of that size was answered, with whatever.
  void answered(std::size_t sent) noexcept {
    losses_ = 0;
    if (sent < bytes_) return;  // There was no more to be checked.
    if (bytes_ == most) {
      patience_ = 1;
    } else if (++answers_ >= patience_) {
      answers_ = 0;
      bytes_ = std::min(bytes_ * 2, most);
    }
  }

 private:
  static constexpr int longest_patience = 1 << 16;  // A few days.

  std::size_t bytes_ = most;
  int losses_ = 0;    // In a row.
  int answers_ = 0;   // Since the last loss or growth.
  int patience_ = 1;  // Answers before the next growth.
};

}  // namespace zkclient::detail
