#pragma once

#include <sys/socket.h>
#include <sys/un.h>

#include <cstddef>
#include <string>

namespace zkr {

/// Where a local socket is.
struct UnixAddress {
  const sockaddr* get() const { return reinterpret_cast<const sockaddr*>(&address); }

  sockaddr_un address{};
  socklen_t size = 0;
};

/// Its name begins with a zero: it is no file.
inline UnixAddress abstract_address(const std::string& name) {
  UnixAddress made;
  made.address.sun_family = AF_UNIX;
  const std::size_t length = name.copy(&made.address.sun_path[1], sizeof made.address.sun_path - 1);
  made.size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return made;
}

inline UnixAddress file_address(const std::string& path) {
  UnixAddress made;
  made.address.sun_family = AF_UNIX;
  path.copy(made.address.sun_path, sizeof made.address.sun_path - 1);
  made.size = sizeof made.address;
  return made;
}

}  // namespace zkr
