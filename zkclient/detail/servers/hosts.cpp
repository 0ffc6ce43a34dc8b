#include "zkclient/detail/servers/hosts.hpp"

#include <arpa/inet.h>
#include <netdb.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include <fmt/format.h>
#include <zkclient/error.hpp>

namespace zkclient::detail {
namespace {

[[noreturn]] void refuse(std::string_view text, const char* why) {
  throw Error(Errc::invalid_argument, "host list", text, why);
}

std::string_view trim(std::string_view text) {
  const auto is_space = [](char c) { return c == ' ' || c == '\t'; };
  while (!text.empty() && is_space(text.front()))
    text.remove_prefix(1);
  while (!text.empty() && is_space(text.back()))
    text.remove_suffix(1);
  return text;
}

bool is_host_character(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '.' || c == '-' || c == '_';
}

std::uint16_t parse_port(std::string_view list, std::string_view text) {
  unsigned port = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), port);
  if (error != std::errc() || end != text.data() + text.size() || port == 0 || port > 65535) {
    refuse(list, "a port is not a number from 1 to 65535");
  }
  return static_cast<std::uint16_t>(port);
}

bool is_address(int family, const std::string& text) {
  in6_addr storage;
  const bool whole = text.find('\0') == std::string::npos;  // inet_pton() would stop there.
  return whole && ::inet_pton(family, text.c_str(), &storage) == 1;
}

Host parse_host(std::string_view list, std::string_view entry) {
  Host host;
  std::string_view port;
  if (entry.find('/') != std::string_view::npos) {
    refuse(list, "a path cannot stand here: it belongs into ClientOptions::prefix");
  }
  if (is_address(AF_INET6, std::string(entry))) refuse(list, "an IPv6 address has to stand in brackets: [::1]:2181");
  if (entry.starts_with('[')) {
    const std::size_t end = entry.find(']');
    if (end == std::string_view::npos) refuse(list, "a '[' is never closed");
    host.name = entry.substr(1, end - 1);
    if (!is_address(AF_INET6, host.name)) refuse(list, "brackets must hold an IPv6 address");
    port = entry.substr(end + 1);
    if (!port.empty() && port[0] != ':') refuse(list, "only a port may follow a ']'");
    if (!port.empty()) host.port = parse_port(list, port.substr(1));
    return host;
  }
  const std::size_t colon = entry.find(':');
  host.name = entry.substr(0, colon);
  if (host.name.empty()) refuse(list, "a host is missing");
  if (!std::all_of(host.name.begin(), host.name.end(), is_host_character)) {
    refuse(list, "a host name holds a character it cannot have");
  }
  if (colon != std::string_view::npos) host.port = parse_port(list, entry.substr(colon + 1));
  return host;
}

std::string reason_of(int code) {
  if (code == EAI_NONAME || code == EAI_NODATA || code == EAI_ADDRFAMILY) return "has a name that is not known";
  if (code == EAI_AGAIN) return "has a name that could not be looked up: the name service does not answer";
  return fmt::format("has a name that could not be looked up: {}",
                     code == EAI_SYSTEM ? std::strerror(errno) : ::gai_strerror(code));
}

// "", or why there is none.
std::string look_up(const Host& host, std::vector<std::string>& out) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_ADDRCONFIG;
  addrinfo* found = nullptr;
  if (const int code = ::getaddrinfo(host.name.c_str(), nullptr, &hints, &found); code != 0) return reason_of(code);
  const std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)> owner(found, &::freeaddrinfo);
  for (const addrinfo* entry = found; entry != nullptr; entry = entry->ai_next) {
    char text[NI_MAXHOST];
    if (::getnameinfo(entry->ai_addr, entry->ai_addrlen, text, sizeof text, nullptr, 0, NI_NUMERICHOST) == 0) {
      out.emplace_back(text);
    }
  }
  return out.empty() ? "has no address" : "";
}

// As the system writes it: one address has many spellings.
std::string canonical(const std::string& numeric) {
  in6_addr storage;
  const int family = is_address(AF_INET, numeric) ? AF_INET : AF_INET6;
  char text[INET6_ADDRSTRLEN] = "";
  ::inet_pton(family, numeric.c_str(), &storage);
  ::inet_ntop(family, &storage, text, sizeof text);
  return text;
}

// As the C client names an address in its messages: without the interface of a link.
std::string name_in_messages(const std::string& address, std::uint16_t port) {
  return to_string(Host{address.substr(0, address.find('%')), port});
}

bool is_numeric(const Host& host) { return is_address(AF_INET, host.name) || is_address(AF_INET6, host.name); }

std::vector<std::string_view> split(std::string_view list) {
  std::vector<std::string_view> parts;
  for (std::size_t begin = 0; begin <= list.size();) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    parts.push_back(list.substr(begin, end - begin));
    begin = end + 1;
  }
  return parts;
}

}  // namespace

std::vector<Host> parse_hosts(std::string_view text) {
  if (trim(text).empty()) refuse(text, "is empty");
  std::vector<Host> hosts;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    hosts.push_back(parse_host(text, trim(text.substr(begin, end - begin))));
    begin = end + 1;
  }
  return hosts;
}

std::string to_string(const Host& host) {
  const bool v6 = host.name.find(':') != std::string::npos;
  return v6 ? fmt::format("[{}]:{}", host.name, host.port) : fmt::format("{}:{}", host.name, host.port);
}

Resolution resolve(const std::vector<Host>& hosts) {
  Resolution resolution;
  for (const Host& host : hosts) {
    std::vector<std::string> addresses;
    std::string trouble;
    if (is_numeric(host)) {
      addresses.push_back(canonical(host.name));
    } else {
      trouble = look_up(host, addresses);
    }
    if (!trouble.empty()) resolution.unknown.emplace(to_string(host), std::move(trouble));
    for (const std::string& address : addresses) {
      if (!resolution.names.emplace(name_in_messages(address, host.port), to_string(host)).second) continue;
      if (!resolution.addresses.empty()) resolution.addresses += ',';
      resolution.addresses += fmt::format("{}:{}", address, host.port);
    }
  }
  return resolution;
}

bool all_numeric(const std::vector<Host>& hosts) { return std::all_of(hosts.begin(), hosts.end(), is_numeric); }

bool same_addresses(std::string_view left, std::string_view right) {
  const auto sorted = [](std::string_view list) {
    std::vector<std::string_view> parts = split(list);
    std::sort(parts.begin(), parts.end());
    return parts;
  };
  return sorted(left) == sorted(right);
}

std::string odd_list(std::string_view addresses, std::size_t pick) {
  const std::vector<std::string_view> parts = split(addresses);
  std::string list(addresses);
  if (parts.size() % 2 == 0) list.append(",").append(parts[pick % parts.size()]);
  return list;
}

}  // namespace zkclient::detail
