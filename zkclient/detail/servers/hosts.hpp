#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/export.hpp>

namespace zkclient::detail {

struct Host {
  std::string name;  ///< A name, an IPv4 address, or an IPv6 address without brackets.
  std::uint16_t port = 2181;

  friend bool operator==(const Host&, const Host&) = default;
};

/// Parses "host[:port],..."; IPv6 addresses stand in brackets. Throws Error (invalid_argument).
ZKRECIPES_INTERNAL_API std::vector<Host> parse_hosts(std::string_view text);

/// "name:port", with brackets around an IPv6 address.
std::string to_string(const Host& host);

/// The addresses behind hosts.
struct Resolution {
  std::string addresses;  ///< As the C client wants them: "ip:port,ip:port". "" when no host could be resolved.
  std::map<std::string, std::string, std::less<>> names = {};    ///< Of the hosts, as to_string() has them, by address.
  std::map<std::string, std::string, std::less<>> unknown = {};  ///< The hosts that have none, and why.
};

/// Blocks while it looks up names (numeric addresses need no look-up).
Resolution resolve(const std::vector<Host>& hosts);

/// True when resolve() will not block.
bool all_numeric(const std::vector<Host>& hosts);

/// True when two results of resolve() differ at most in their order, as they do with a name of several addresses.
bool same_addresses(std::string_view left, std::string_view right);

/// The addresses with one of them (chosen by `pick`) listed twice where their number is even. After an attempt that
/// failed the C client steps on by two, so that in an even list it would never come to every second server
/// (ZOOKEEPER-2466).
std::string odd_list(std::string_view addresses, std::size_t pick);

}  // namespace zkclient::detail
