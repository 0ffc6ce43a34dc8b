#pragma once

#include <cerrno>
#include <chrono>
#include <string>
#include <string_view>
#include <utility>

namespace zktesting::detail {

using Clock = std::chrono::steady_clock;
using Deadline = Clock::time_point;

/// The time left until `deadline` in milliseconds, rounded up, for poll(): 0 if it has passed.
int poll_timeout(Deadline deadline);

/// "<what>: <text of errno value>".
std::string errno_text(std::string_view what, int error = errno);

/// Owns a file descriptor.
class UniqueFd {
 public:
  UniqueFd() = default;
  explicit UniqueFd(int fd) : fd_(fd) {}
  UniqueFd(UniqueFd&& other) noexcept : fd_(std::exchange(other.fd_, -1)) {}
  UniqueFd& operator=(UniqueFd&& other) noexcept {
    reset(std::exchange(other.fd_, -1));
    return *this;
  }
  ~UniqueFd() { reset(); }

  [[nodiscard]] int get() const { return fd_; }
  [[nodiscard]] int release() { return std::exchange(fd_, -1); }
  explicit operator bool() const { return fd_ >= 0; }
  void reset(int fd = -1);

 private:
  int fd_ = -1;
};

}  // namespace zktesting::detail
