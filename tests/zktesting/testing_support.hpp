#pragma once

#include <chrono>
#include <functional>

#include "tests/support/eventually.hpp"
#include "zktesting/detail/wire_client.hpp"
#include "zktesting/environment.hpp"
#include "zktesting/error.hpp"

namespace zktesting {

using detail::Clock;
using detail::WireClient;
using testkit::eventually;
using namespace std::chrono_literals;

inline WireClient connect_to(std::string_view connect_string, std::chrono::milliseconds session_timeout = 20s,
                             const detail::SessionId& resume = {}) {
  return {detail::parse_endpoint(connect_string), session_timeout, 20s, resume};
}

/// The shared server; of an external ensemble the first one.
inline std::string one_server() {
  const std::string& all = SharedServer::instance().connect_string();
  return all.substr(0, all.find(','));
}

/// The text of the `Error` that `action` throws; empty if none.
inline std::string error_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.what();
  }
  return "";
}

}  // namespace zktesting
