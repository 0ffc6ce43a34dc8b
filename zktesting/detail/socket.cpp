#include "zktesting/detail/socket.hpp"

#include <fmt/format.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

#include "zktesting/error.hpp"

namespace zktesting::detail {
namespace {

bool again(ssize_t result) { return result < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR); }

}  // namespace

Socket::Socket(const Endpoint& endpoint, Deadline deadline)
    : peer_(endpoint.text()), fd_(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)) {
  if (!fd_) {
    throw Error(errno_text("socket"));
  }
  const int on = 1;
  ::setsockopt(fd_.get(), IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  sockaddr_in address = endpoint.to_sockaddr();
  int error = 0;
  if (::connect(fd_.get(), reinterpret_cast<sockaddr*>(&address), sizeof address) != 0) {
    error = errno;
    if (error == EINPROGRESS) {
      wait(POLLOUT, deadline);
      socklen_t size = sizeof error;
      ::getsockopt(fd_.get(), SOL_SOCKET, SO_ERROR, &error, &size);
    }
  }
  if (error != 0) {
    throw Error(errno_text("cannot connect to " + peer_, error));
  }
}

void Socket::wait(short events, Deadline deadline) {
  for (;;) {
    pollfd poll{fd_.get(), events, 0};
    const int rc = ::poll(&poll, 1, poll_timeout(deadline));
    if (rc > 0) {
      return;
    }
    if (rc == 0) {
      throw TimedOut(fmt::format("{} did not answer in time", peer_));
    }
    if (errno != EINTR) {
      throw Error(errno_text("poll"));
    }
  }
}

void Socket::write(std::string_view bytes, Deadline deadline) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd_.get(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (again(n)) {
      wait(POLLOUT, deadline);
    } else if (n < 0) {
      throw ConnectionClosed(errno_text("cannot send to " + peer_));
    } else {
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
  }
}

std::size_t Socket::read_some(std::span<char> buffer, Deadline deadline) {
  for (;;) {
    wait(POLLIN, deadline);
    const ssize_t n = ::recv(fd_.get(), buffer.data(), buffer.size(), 0);
    if (n >= 0) {
      return static_cast<std::size_t>(n);
    }
    if (!again(n)) {
      throw ConnectionClosed(errno_text("connection with " + peer_));
    }
  }
}

std::string Socket::read(std::size_t size, Deadline deadline) {
  std::string result(size, '\0');
  for (std::size_t done = 0; done < size;) {
    const auto n = read_some(std::span(result).subspan(done), deadline);
    if (n == 0) {
      throw ConnectionClosed(fmt::format("{} closed the connection", peer_));
    }
    done += n;
  }
  return result;
}

std::string Socket::read_all(Deadline deadline) {
  std::string result;
  char buffer[16384];
  while (const auto n = read_some(buffer, deadline)) {
    result.append(buffer, n);
  }
  return result;
}

}  // namespace zktesting::detail
