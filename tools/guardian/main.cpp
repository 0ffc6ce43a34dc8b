// zkrecipes-guardian: closes a session after the death of its owner. Started by zkrecipes::Guardian (guardian.hpp),
// never by hand. It reads lines from its standard input, a socket (recipes/elections/guardian.cpp says which), and
// waits for its end.
//
// ZooKeeper's protocol: frames of a 4-byte length and a body, numbers big-endian. Two requests are all it takes: the
// handshake that resumes a session, and the one that closes it.

#include <fcntl.h>
#include <netdb.h>
#include <poll.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include "orders.hpp"

namespace {

using Clock = std::chrono::steady_clock;
using namespace std::chrono_literals;
using guardian::Orders;
using guardian::Server;
using guardian::Session;

// --- From the owner -----------------------------------------------------------------------------------------------

/// Until the owner bids farewell or is gone.
Orders listen_to_owner() {
  Orders orders;
  std::string pending;
  std::array<char, 4096> buffer{};
  while (!orders.farewell) {
    const ssize_t count = ::read(STDIN_FILENO, buffer.data(), buffer.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) break;
    pending.append(buffer.data(), static_cast<std::size_t>(count));
    for (std::size_t end = pending.find('\n'); end != std::string::npos; end = pending.find('\n')) {
      guardian::obey(pending.substr(0, end), orders);
      pending.erase(0, end + 1);
    }
  }
  return orders;
}

// --- To a server --------------------------------------------------------------------------------------------------

class Connection {
 public:
  Connection(const addrinfo& address, Clock::time_point deadline)
      : socket_(::socket(address.ai_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0)), deadline_(deadline) {
    const bool begun = ::connect(socket_, address.ai_addr, address.ai_addrlen) == 0 || errno == EINPROGRESS;
    int error = 0;
    socklen_t size = sizeof error;
    good_ = begun && ready(POLLOUT) && ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &size) == 0 && error == 0;
  }
  ~Connection() { ::close(socket_); }
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool good() const { return good_; }
  bool send(std::string_view bytes) {
    while (!bytes.empty() && good_) {
      const ssize_t count = ::send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (count > 0) bytes.remove_prefix(static_cast<std::size_t>(count));
      good_ = count > 0 || (errno == EAGAIN && ready(POLLOUT));
    }
    return good_;
  }
  /// A frame's body; nullopt when none came.
  std::optional<std::string> receive() {
    const std::string head = read(4);
    if (head.size() < 4) return std::nullopt;
    std::uint32_t size = 0;
    for (const char byte : head)
      size = size << 8 | static_cast<unsigned char>(byte);
    if (size > 4096) return std::nullopt;
    std::string body = read(size);
    if (body.size() < size) return std::nullopt;
    return body;
  }

 private:
  bool ready(short what) const {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline_ - Clock::now()).count();
    pollfd poll{socket_, what, 0};
    return left > 0 && ::poll(&poll, 1, static_cast<int>(left)) == 1;
  }
  std::string read(std::size_t size) {
    std::string bytes(size, '\0');
    std::size_t have = 0;
    while (have < size && good_) {
      const ssize_t count = ::recv(socket_, bytes.data() + have, size - have, 0);
      if (count > 0) have += static_cast<std::size_t>(count);
      good_ = count > 0 || (count < 0 && errno == EAGAIN && ready(POLLIN));
    }
    bytes.resize(have);
    return bytes;
  }

  const int socket_;
  const Clock::time_point deadline_;
  bool good_ = false;
};

template <typename T>
void put(std::string& out, T value) {
  for (int shift = static_cast<int>(sizeof(T)) * 8 - 8; shift >= 0; shift -= 8)
    out += static_cast<char>(static_cast<std::uint64_t>(value) >> shift & 0xff);
}

std::string framed(const std::string& body) {
  std::string frame;
  put(frame, static_cast<std::int32_t>(body.size()));
  return frame + body;
}

std::string handshake(const Session& session) {
  std::string body;
  put(body, std::int32_t{0});  // Protocol version.
  put(body, std::int64_t{0});  // Last transaction seen.
  put(body, session.timeout_ms);
  put(body, session.id);
  put(body, static_cast<std::int32_t>(session.password.size()));
  body += session.password;
  put(body, std::int8_t{0});  // Not read-only.
  return framed(body);
}

std::string close_request() {
  std::string body;
  put(body, std::int32_t{1});    // The request's number.
  put(body, std::int32_t{-11});  // Close the session.
  return framed(body);
}

/// True when the session is over.
bool close_session(const addrinfo& address, const Session& session) {
  Connection connection(address, Clock::now() + 1s);
  if (!connection.good() || !connection.send(handshake(session))) return false;
  const std::optional<std::string> answer = connection.receive();
  if (!answer || answer->size() < 16) return false;
  const std::string_view granted_timeout = std::string_view(*answer).substr(4, 4);
  if (granted_timeout == std::string_view("\0\0\0\0", 4)) return true;  // The server does not know it any more.
  return connection.send(close_request()) && connection.receive().has_value();
}

bool close_session(const Server& server, const Session& session) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(server.host.c_str(), server.port.c_str(), &hints, &found) != 0) return false;
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* address = found; address != nullptr; address = address->ai_next) {
    if (close_session(*address, session)) return true;
  }
  return false;
}

}  // namespace

int main() {
  // What the owner had open is none of our business; nor are signals meant for its terminal.
  ::close_range(STDERR_FILENO + 1, ~0U, 0);
  ::setsid();
  // A password lies in our memory.
  ::prctl(PR_SET_DUMPABLE, 0);
  const rlimit no_core{0, 0};
  ::setrlimit(RLIMIT_CORE, &no_core);

  const Orders orders = listen_to_owner();
  if (orders.farewell || !orders.session) return 0;
  const Clock::time_point end = Clock::now() + std::chrono::milliseconds(orders.session->timeout_ms);
  while (Clock::now() < end) {
    const auto closed = [&](const Server& server) { return close_session(server, *orders.session); };
    if (std::any_of(orders.servers.begin(), orders.servers.end(), closed)) return 0;
    std::this_thread::sleep_for(50ms);  // No server answers: a pause before the next round.
  }
  return 1;
}
