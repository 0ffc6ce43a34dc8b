#include "zktesting/detail/endpoint.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <netdb.h>
#include <sys/socket.h>

#include <charconv>
#include <memory>
#include <random>

#include "zktesting/error.hpp"

namespace zktesting::detail {
namespace {

sockaddr* as_sockaddr(sockaddr_in& address) { return reinterpret_cast<sockaddr*>(&address); }

std::string look_up(const std::string& host, std::string_view text) {
  addrinfo hints{};
  hints.ai_family = AF_INET;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (const int rc = ::getaddrinfo(host.c_str(), nullptr, &hints, &found); rc != 0) {
    throw Error(fmt::format("\"{}\": cannot look up \"{}\": {}", text, host, ::gai_strerror(rc)));
  }
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  char buffer[INET_ADDRSTRLEN] = {};
  const auto* address = reinterpret_cast<const sockaddr_in*>(found->ai_addr);
  ::inet_ntop(AF_INET, &address->sin_addr, buffer, sizeof buffer);
  return buffer;
}

/// Bound, or invalid with errno set.
UniqueFd bind_to(const Endpoint& endpoint) {
  UniqueFd fd(::socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd) {
    throw Error(errno_text("socket"));
  }
  // Old connections in TIME_WAIT must not keep a restarted listener from its port.
  const int on = 1;
  ::setsockopt(fd.get(), SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address = endpoint.to_sockaddr();
  if (::bind(fd.get(), as_sockaddr(address), sizeof address) != 0) {
    fd.reset();
  }
  return fd;
}

}  // namespace

std::string Endpoint::text() const { return fmt::format("{}:{}", address, port); }

sockaddr_in Endpoint::to_sockaddr() const {
  sockaddr_in result{};
  result.sin_family = AF_INET;
  result.sin_port = htons(port);
  if (::inet_pton(AF_INET, address.c_str(), &result.sin_addr) != 1) {
    throw Error(fmt::format("\"{}\" is not an IPv4 address", address));
  }
  return result;
}

Endpoint parse_endpoint(std::string_view text) {
  const auto colon = text.rfind(':');
  unsigned port = 0;
  if (colon != std::string_view::npos && colon > 0) {
    const char* end = text.data() + text.size();
    const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, port);
    if (error != std::errc() || stop != end) {
      port = 0;
    }
  }
  if (port == 0 || port > 65535) {
    throw Error(fmt::format("\"{}\" is not of the form host:port", text));
  }
  return {look_up(std::string(text.substr(0, colon)), text), static_cast<std::uint16_t>(port)};
}

std::vector<Endpoint> parse_endpoints(std::string_view text) {
  std::vector<Endpoint> result;
  for (;;) {
    const auto comma = text.find(',');
    result.push_back(parse_endpoint(text.substr(0, comma)));
    if (comma == std::string_view::npos) {
      return result;
    }
    text.remove_prefix(comma + 1);
  }
}

std::string random_loopback_address() {
  std::random_device device;
  const auto up_to = [&](unsigned low, unsigned high) {
    return std::uniform_int_distribution<unsigned>(low, high)(device);
  };
  return fmt::format("127.{}.{}.{}", up_to(64, 126), up_to(0, 255), up_to(1, 254));
}

UniqueFd listen_on(const Endpoint& endpoint) {
  UniqueFd fd = bind_to(endpoint);
  if (!fd || ::listen(fd.get(), 128) != 0) {
    throw Error(errno_text("cannot listen on " + endpoint.text()));
  }
  return fd;
}

Endpoint local_endpoint(int fd) {
  sockaddr_in address{};
  socklen_t size = sizeof address;
  if (::getsockname(fd, as_sockaddr(address), &size) != 0) {
    throw Error(errno_text("getsockname"));
  }
  char buffer[INET_ADDRSTRLEN] = {};
  ::inet_ntop(AF_INET, &address.sin_addr, buffer, sizeof buffer);
  return {buffer, ntohs(address.sin_port)};
}

UniqueFd bind_to_any_port(const std::string& address) {
  UniqueFd fd = bind_to({address, 0});
  if (!fd) {
    throw Error(errno_text("cannot bind to " + address));
  }
  return fd;
}

bool is_taken(const Endpoint& endpoint) { return !bind_to(endpoint); }

}  // namespace zktesting::detail
