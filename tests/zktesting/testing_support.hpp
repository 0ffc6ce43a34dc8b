#pragma once

#include <chrono>
#include <functional>
#include <thread>

#include "zktesting/detail/wire_client.hpp"
#include "zktesting/error.hpp"

namespace zktesting {

using detail::Clock;
using detail::WireClient;
using namespace std::chrono_literals;

/// Waits for something that another process does, and of which we are not told.
inline bool eventually(const std::function<bool()>& predicate, std::chrono::milliseconds timeout = 20s) {
  const auto deadline = Clock::now() + timeout;
  while (!predicate()) {
    if (Clock::now() > deadline) {
      return false;
    }
    std::this_thread::sleep_for(5ms);
  }
  return true;
}

inline WireClient connect_to(std::string_view connect_string, std::chrono::milliseconds session_timeout = 20s,
                             const detail::SessionId& resume = {}) {
  return {detail::parse_endpoint(connect_string), session_timeout, 20s, resume};
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
