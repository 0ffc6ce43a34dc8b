#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <utility>

#include <zkclient/error.hpp>
#include <zkclient/types.hpp>

#include <zkrecipes/wait_options.hpp>

#include "zkclient/detail/recipe_api.hpp"

/// What all timed forms have in common: a time that is over is no error, and a time that is over already means one try.
namespace zkrecipes::detail {

constexpr auto for_ever = std::chrono::steady_clock::time_point::max();

inline std::chrono::steady_clock::time_point from_now(std::chrono::nanoseconds timeout) {
  const auto now = std::chrono::steady_clock::now();
  return timeout > for_ever - now ? for_ever : now + timeout;
}

inline bool is_over(std::chrono::steady_clock::time_point deadline) {
  return deadline <= std::chrono::steady_clock::now();
}

/// The limits of a call that waits until `deadline`.
inline zkclient::CallOptions timed_call(std::chrono::steady_clock::time_point deadline, const WaitOptions& options) {
  zkclient::CallOptions call;
  call.stop = options.stop;
  if (deadline != for_ever && !is_over(deadline)) call.deadline = deadline;
  return call;
}

inline bool is_connected(const std::shared_ptr<zkclient::detail::ClientCore>& client) {
  return client->session()->state() == zkclient::ConnectionState::connected;
}

/// What WaitOptions::why says after a call that was late, or was not.
template <typename Connected>
void tell_why(Connected connected, const WaitOptions& options, bool late) {
  if (options.why == nullptr) return;
  options.why->clear();
  if (late) *options.why = connected() ? zkclient::Errc::not_available : zkclient::Errc::deadline_exceeded;
}

/// What `call` returns; nothing if it throws because the time was over.
template <typename Connected, typename Call>
auto unless_late(Connected connected, const WaitOptions& options, Call call) -> std::optional<decltype(call())> {
  try {
    std::optional<decltype(call())> result(call());
    tell_why(connected, options, false);
    return result;
  } catch (const zkclient::Error& error) {
    if (error.errc() != zkclient::Errc::deadline_exceeded) throw;
    tell_why(connected, options, true);
    return std::nullopt;
  }
}

/// The same for one that returns nothing when it tried once, in vain.
template <typename Connected, typename Call>
auto unless_late_or_busy(Connected connected, const WaitOptions& options, Call call) -> decltype(call()) {
  auto result = unless_late(connected, options, std::move(call));
  if (!result) return std::nullopt;
  if (!*result) tell_why(connected, options, true);
  return std::move(*result);
}

}  // namespace zkrecipes::detail
