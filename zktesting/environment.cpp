#include "zktesting/environment.hpp"

#include <cstdlib>

namespace zktesting {

std::optional<std::string> external_server() {
  const char* value = std::getenv("ZKRECIPES_SERVER");
  if (value == nullptr || *value == '\0') {
    return std::nullopt;
  }
  return value;
}

SharedServer& SharedServer::instance() {
  static SharedServer shared;
  return shared;
}

SharedServer::SharedServer() {
  if (const auto external = external_server()) {
    connect_string_ = *external;
  } else {
    server_.emplace();
    connect_string_ = server_->connect_string();
  }
}

Server& SharedServer::server() {
  if (!server_) {
    throw Error("the server " + connect_string_ + " is an external one (ZKRECIPES_SERVER): it cannot be controlled");
  }
  return *server_;
}

}  // namespace zktesting
