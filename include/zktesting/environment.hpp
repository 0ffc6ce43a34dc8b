#pragma once

#include <optional>
#include <string>

#include <zkclient/export.hpp>
#include <zktesting/server.hpp>

namespace zktesting {

/// The value of ZKRECIPES_SERVER ("host:port[,...]"): a ZooKeeper that another party runs and that
/// tests shall use. Nothing if it is unset or empty. Not to be called while another thread changes
/// the environment.
[[nodiscard]] ZKRECIPES_API std::optional<std::string> external_server();

/// The server that the tests of one process share: the external one if there is one, else a
/// `Server` of our own, started at the first use. Tests that share it keep below a root node of
/// their own.
///
/// Thread-safe.
class ZKRECIPES_API SharedServer {
 public:
  /// The one of this process; it ends with the process. Throws `Error` if the server does not
  /// start; the next call tries again.
  static SharedServer& instance();

  /// Its address, to be passed to a client.
  [[nodiscard]] const std::string& connect_string() const { return connect_string_; }
  /// Whether it is ours to stop, pause and ask: false for an external one.
  [[nodiscard]] bool has_control() const { return server_.has_value(); }
  /// Throws `Error` if there is no control.
  [[nodiscard]] Server& server();

 private:
  SharedServer();
  std::optional<Server> server_;
  std::string connect_string_;
};

}  // namespace zktesting
