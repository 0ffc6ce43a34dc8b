#include "tools/zkr/run/error_lines.hpp"

#include <fcntl.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>

namespace zkr {
namespace {

/// Standard error itself is shared with the caller and the command, which do not expect it not to block. A file is left
/// as it is: it has room always, and opened again it would be written from its beginning.
Descriptor opened_again() {
  struct stat file {};
  const bool may_be_full = ::fstat(STDERR_FILENO, &file) == 0 && (S_ISFIFO(file.st_mode) || ::isatty(STDERR_FILENO));
  if (!may_be_full) return Descriptor();
  return Descriptor(::open("/proc/self/fd/2", O_WRONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY));
}

/// To one that cannot be opened again: a socket, or that of another user.
ssize_t write_if_there_is_room(std::string_view bytes) {
  const ssize_t sent = ::send(STDERR_FILENO, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL);
  if (sent >= 0 || errno != ENOTSOCK) return sent;
  pollfd polled{.fd = STDERR_FILENO, .events = POLLOUT, .revents = 0};
  if (::poll(&polled, 1, 0) == 1) return ::write(STDERR_FILENO, bytes.data(), bytes.size());
  errno = EAGAIN;
  return -1;
}

}  // namespace

ErrorLines::ErrorLines() : again_(opened_again()) {}

void ErrorLines::write(const std::string& text, int dropped_before) {
  dropped_ += dropped_before;
  if (!finish() || !begin_line("zkr: " + text + "\n")) ++dropped_;
}

bool ErrorLines::finish() {
  rest_.erase(0, write_some(rest_));
  if (!rest_.empty()) return false;
  if (dropped_ == 0) return true;
  const std::string lines = dropped_ == 1 ? "1 message is" : std::to_string(dropped_) + " messages are";
  if (!begin_line("zkr: " + lines + " missing here: standard error had no room\n")) return false;
  dropped_ = 0;
  return rest_.empty();
}

bool ErrorLines::begin_line(const std::string& line) {
  const std::size_t written = write_some(line);
  if (written > 0) rest_ = line.substr(written);
  return written > 0;
}

std::size_t ErrorLines::write_some(std::string_view bytes) const {
  if (bytes.empty()) return 0;
  const ssize_t written = again_ ? ::write(again_.get(), bytes.data(), bytes.size()) : write_if_there_is_room(bytes);
  if (written >= 0) return static_cast<std::size_t>(written);
  return errno == EAGAIN ? 0 : bytes.size();  // Otherwise nobody will ever read it.
}

}  // namespace zkr
