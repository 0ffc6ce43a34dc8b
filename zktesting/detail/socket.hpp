#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <string_view>

#include "zktesting/detail/endpoint.hpp"
#include "zktesting/error.hpp"

namespace zktesting::detail {

/// The other side has ended the connection.
class ConnectionClosed : public Error {
 public:
  using Error::Error;
};

/// The deadline has passed.
class TimedOut : public Error {
 public:
  using Error::Error;
};

/// A TCP connection whose calls block until a deadline. Every failure is an `Error`.
class Socket {
 public:
  Socket(const Endpoint& endpoint, Deadline deadline);

  void write(std::string_view bytes, Deadline deadline);
  /// At least one byte, or 0 at the end of the stream.
  std::size_t read_some(std::span<char> buffer, Deadline deadline);
  /// Exactly `size` bytes.
  std::string read(std::size_t size, Deadline deadline);
  /// Until the end of the stream.
  std::string read_all(Deadline deadline);

  [[nodiscard]] int fd() const { return fd_.get(); }

 private:
  void wait(short events, Deadline deadline);

  std::string peer_;
  UniqueFd fd_;
};

}  // namespace zktesting::detail
