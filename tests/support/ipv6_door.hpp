#pragma once

#include <arpa/inet.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace testkit {

/// Leads from a port of ::1 to one of an IPv4 address, which is all that servers and proxies of tests have.
class Ipv6Door {
 public:
  /// `target`: "127.a.b.c:port".
  explicit Ipv6Door(const std::string& target) : listener_(::socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const std::size_t colon = target.rfind(':');
    target_.sin_family = AF_INET;
    target_.sin_port = htons(static_cast<std::uint16_t>(std::stoi(target.substr(colon + 1))));
    ::inet_pton(AF_INET, target.substr(0, colon).c_str(), &target_.sin_addr);
    sockaddr_in6 own{};
    own.sin6_family = AF_INET6;
    own.sin6_addr = in6addr_loopback;
    socklen_t size = sizeof own;
    auto* const generic = reinterpret_cast<sockaddr*>(&own);
    open_ = listener_ != -1 && ::bind(listener_, generic, size) == 0 && ::listen(listener_, 16) == 0 &&
            ::getsockname(listener_, generic, &size) == 0;
    port_ = ntohs(own.sin6_port);
    if (open_) accepting_ = std::thread([this] { accept_all(); });
  }
  ~Ipv6Door() {
    ::shutdown(listener_, SHUT_RDWR);
    if (open_) accepting_.join();
    for (const int socket : sockets_)
      ::shutdown(socket, SHUT_RDWR);
    for (std::thread& thread : carrying_)
      thread.join();
    for (const int socket : sockets_)
      ::close(socket);
    ::close(listener_);
  }
  Ipv6Door(const Ipv6Door&) = delete;
  Ipv6Door& operator=(const Ipv6Door&) = delete;

  /// False: this machine has no IPv6.
  bool open() const noexcept { return open_; }
  std::string connect_string() const { return "[::1]:" + std::to_string(port_); }

 private:
  void accept_all() {
    for (;;) {
      const int client = ::accept4(listener_, nullptr, nullptr, SOCK_CLOEXEC);
      if (client == -1) return;
      const int server = ::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
      sockets_.insert(sockets_.end(), {client, server});
      if (::connect(server, reinterpret_cast<const sockaddr*>(&target_), sizeof target_) == 0) {
        carrying_.emplace_back([client, server] { carry(client, server); });
      } else {
        ::shutdown(client, SHUT_RDWR);
      }
    }
  }
  static void carry(int client, int server) {
    std::array<pollfd, 2> ends = {pollfd{client, POLLIN, 0}, pollfd{server, POLLIN, 0}};
    std::array<char, 4096> buffer;
    while (::poll(ends.data(), ends.size(), -1) > 0) {
      for (std::size_t i = 0; i < ends.size(); ++i) {
        if (ends[i].revents == 0) continue;
        const ssize_t count = ::recv(ends[i].fd, buffer.data(), buffer.size(), 0);
        if (count <= 0 ||
            ::send(ends[1 - i].fd, buffer.data(), static_cast<std::size_t>(count), MSG_NOSIGNAL) != count) {
          ::shutdown(client, SHUT_RDWR);
          ::shutdown(server, SHUT_RDWR);
          return;
        }
      }
    }
  }

  const int listener_;
  sockaddr_in target_{};
  std::uint16_t port_ = 0;
  bool open_ = false;
  std::vector<int> sockets_;           // Of the accepting thread, until that has ended.
  std::vector<std::thread> carrying_;  // Likewise.
  std::thread accepting_;
};

}  // namespace testkit
