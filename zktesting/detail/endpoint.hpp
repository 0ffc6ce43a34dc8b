#pragma once

#include <netinet/in.h>

#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "zktesting/detail/posix.hpp"

namespace zktesting::detail {

/// An IPv4 address in text form, and a port.
struct Endpoint {
  std::string address;
  std::uint16_t port = 0;

  [[nodiscard]] std::string text() const;
  [[nodiscard]] sockaddr_in to_sockaddr() const;
  auto operator<=>(const Endpoint&) const = default;
};

/// Reads "host:port" and looks the host up (blocking). Throws `Error` naming the text.
Endpoint parse_endpoint(std::string_view text);
/// The same for "host:port,host:port,..."; at least one.
std::vector<Endpoint> parse_endpoints(std::string_view text);

/// A random address 127.64.0.1 to 127.126.255.254.
std::string random_loopback_address();

/// A listening, non-blocking socket with close-on-exec; port 0 lets the kernel choose. Throws
/// `Error`.
UniqueFd listen_on(const Endpoint& endpoint);
/// A socket that does not listen. Throws `Error`.
UniqueFd bind_to_any_port(const std::string& address);
/// The address to which a socket is bound.
Endpoint local_endpoint(int fd);
/// Ports of `address`, all different, on which no process listens at this moment.
template <std::size_t count>
std::array<std::uint16_t, count> free_ports(const std::string& address) {
  // Each is held until all are found: the kernel may give a port out again as soon as it is free.
  std::array<UniqueFd, count> held;
  std::array<std::uint16_t, count> ports{};
  for (std::size_t i = 0; i < count; ++i) {
    held[i] = bind_to_any_port(address);
    ports[i] = local_endpoint(held[i].get()).port;
  }
  return ports;
}
/// Whether a process has bound this address and port.
bool is_taken(const Endpoint& endpoint);

}  // namespace zktesting::detail
