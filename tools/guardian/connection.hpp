#pragma once

#include <netdb.h>

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "tools/guardian/orders.hpp"

namespace guardian {

/// To a server, encrypted if `tls` is there. Each call waits, until the deadline at most; from the first failure on all
/// fail.
class Connection {
 public:
  using Clock = std::chrono::steady_clock;

  Connection(const addrinfo& address, const std::optional<Tls>& tls, Clock::time_point deadline);
  ~Connection();
  Connection(const Connection&) = delete;
  Connection& operator=(const Connection&) = delete;

  bool good() const { return good_; }
  bool send(std::string_view bytes);
  /// A frame's body; nullopt when none came.
  std::optional<std::string> receive();

 private:
  class Encryption;

  bool connect(const addrinfo& address);
  bool ready(short what) const;
  /// Once: the number of bytes, or 0 if it has to be tried again, or -1.
  long send_some(std::string_view bytes);
  long receive_some(char* bytes, std::size_t size);
  std::string read(std::size_t size);

  const int socket_;
  const Clock::time_point deadline_;
  std::unique_ptr<Encryption> encryption_;
  bool good_ = false;
};

}  // namespace guardian
