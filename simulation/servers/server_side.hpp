#pragma once

#include <functional>
#include <string>
#include <string_view>

namespace zktesting::simulated {

/// What a server does to a connection: called from events of the queue. The caller puts the latency of the network
/// between.
struct Output {
  std::function<void(std::string)> bytes;
  std::function<void()> close;
  /// The client's, as the server sees it: for ACLs of the scheme "ip", and for the four-letter words.
  std::string ip = "127.0.0.1";
  int port = 40000;
  std::string client{};  ///< For whoever reads what the server tells.
};

/// The server's end of a client's connection.
class ServerSide {
 public:
  virtual ~ServerSide() = default;
  /// A stream: frames may come in pieces.
  virtual void receive(std::string_view bytes) = 0;
  /// The client has closed, or its connection broke.
  virtual void closed() = 0;
};

}  // namespace zktesting::simulated
