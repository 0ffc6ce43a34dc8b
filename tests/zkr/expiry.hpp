#pragma once

#include <string>

#include <zktesting/environment.hpp>

#include "tests/zkr/zkr_process.hpp"

namespace zkr {

/// Of a command that says its environment's ZKR_SESSION.
inline std::string session_of(ZkrProcess& zkr) {
  const std::string name = "ZKR_SESSION=";
  return zkr.lines().await(name).value_or(name + "none").substr(name.size());
}

/// The server has ended that session because it has timed out, as its log says before anything of the session goes. What
/// is gone without that was given back. (A server that is not ours shows no log.)
inline bool has_expired(const std::string& session) {
  auto& shared = zktesting::SharedServer::instance();
  return shared.has_control() && shared.server().log().find("Expiring session " + session + ",") != std::string::npos;
}

}  // namespace zkr
