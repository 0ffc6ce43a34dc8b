#pragma once

#include <system_error>
#include <utility>

#include <zkclient/stop.hpp>

namespace zkrecipes {

/// What a timed form (`..._for`, `..._until`) takes besides the time: a stop token, or an error code, or both in
/// braces.
///
///   std::error_code why;
///   if (!mutex.try_acquire_for(5s, why) && why == zkclient::Errc::deadline_exceeded) complain(client.trouble());
class WaitOptions {
 public:
  WaitOptions() noexcept = default;
  WaitOptions(zkclient::AnyStop token) noexcept : stop(std::move(token)) {}
  WaitOptions(const std::stop_token& token) noexcept : stop(token) {}
  /// Set when the time was over: Errc::not_available if what was waited for did not come (others held the lock, the
  /// queue was empty, the barrier stayed up), Errc::deadline_exceeded if there was no connection to a server in the
  /// end; then Client::trouble() says more. Cleared otherwise. Must stay until the call returns.
  WaitOptions(std::error_code& reason, zkclient::AnyStop token = {}) noexcept : stop(std::move(token)), why(&reason) {}

  /// What the constructors have taken.
  zkclient::AnyStop stop = {};
  std::error_code* why = nullptr;  ///< Null: the reason is not asked for.
};

}  // namespace zkrecipes
