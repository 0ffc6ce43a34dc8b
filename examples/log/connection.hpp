#pragma once

// Lines over TCP, as the programs with logs send them.

#include <chrono>
#include <cstddef>
#include <exception>
#include <iterator>
#include <memory>
#include <sstream>
#include <string>
#include <thread>
#include <utility>

#include <boost/asio.hpp>

namespace logs {

using boost::asio::ip::tcp;

constexpr auto reply_time = std::chrono::seconds(1);  // Who needs longer has failed.
constexpr std::size_t longest_text = 4000;

/// A line to be read with >>. What is missing, or of another kind, throws.
struct Words : std::istringstream {
  explicit Words(const std::string& line) : std::istringstream(line) { exceptions(failbit | badbit); }
  std::string rest() { return std::string(std::istreambuf_iterator<char>(ignore()), {}); }
};

/// "HOST:PORT", as host and port.
inline std::pair<std::string, std::string> split(const std::string& address) {
  return {address.substr(0, address.rfind(':')), address.substr(address.rfind(':') + 1)};
}

/// It throws when it breaks, or when something takes too long.
struct Connection : tcp::iostream {
  Connection() {
    exceptions(failbit | badbit | eofbit);
    unsetf(std::ios::unitbuf);  // Otherwise the destructor of a sentry flushes: it must not throw.
  }
  explicit Connection(const std::string& address) : Connection() {
    expires_after(reply_time);
    const auto [host, port] = split(address);
    connect(host, port);
    socket().set_option(tcp::no_delay(true));
  }
  std::string line(std::chrono::seconds limit) {
    char text[longest_text + 200];
    expires_after(limit);
    getline(text, sizeof text);
    return {text, static_cast<std::size_t>(gcount() - 1)};
  }
  void send(const std::string& text) {
    expires_after(reply_time);
    *this << text << std::flush;
  }
};

/// Each connection gets a thread of its own, which sends `answer(words, connection)` to each line, until the connection
/// ends. What throws ends it as well: bad bytes, say. Never returns.
template <typename Answer>
[[noreturn]] void serve_all(tcp::acceptor& acceptor, Answer answer) noexcept {
  for (;;) {
    auto connection = std::make_shared<Connection>();
    acceptor.accept(connection->socket());
    std::thread([answer, connection] {
      try {
        for (;;) {
          Words words(connection->line(std::chrono::seconds(30)));
          connection->send(answer(words, *connection) + "\n");
        }
      } catch (const std::exception&) {
      }
    }).detach();
  }
}

}  // namespace logs
