#include "tests/support/packets.hpp"

#include <dirent.h>
#include <linux/tcp.h>  // Not <netinet/tcp.h>, whose tcp_info is an older one; both cannot be in one file.
#include <netdb.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstdlib>

#include <fmt/format.h>

namespace testkit {
namespace {

std::string peer_of(int fd) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  char host[NI_MAXHOST];
  char port[NI_MAXSERV];
  auto* const generic = reinterpret_cast<sockaddr*>(&address);
  if (::getpeername(fd, generic, &length) != 0) return "";
  const int flags = NI_NUMERICHOST | NI_NUMERICSERV;
  if (::getnameinfo(generic, length, host, sizeof host, port, sizeof port, flags) != 0) return "";
  return fmt::format("{}:{}", host, port);
}

}  // namespace

std::optional<std::uint32_t> packets_sent(const std::string& server) {
  DIR* const folder = ::opendir("/proc/self/fd");
  if (folder == nullptr) return std::nullopt;
  std::optional<std::uint32_t> packets;
  while (const dirent* const entry = ::readdir(folder)) {
    const int fd = std::atoi(entry->d_name);
    if (fd <= 2 || peer_of(fd) != server) continue;
    tcp_info info{};
    socklen_t length = sizeof info;
    if (::getsockopt(fd, IPPROTO_TCP, TCP_INFO, &info, &length) == 0) packets = info.tcpi_data_segs_out;
  }
  ::closedir(folder);
  return packets;
}

}  // namespace testkit
