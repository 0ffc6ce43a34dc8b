#pragma once

#include <cstdint>
#include <memory>
#include <optional>

#include "zkclient/detail/requests/request.hpp"

namespace zkclient::detail {

/// Limits of one call, on the loop thread.
struct Call {
  std::optional<Op::TimePoint> deadline = {};
  std::shared_ptr<CancelScope> cancel = {};
  std::shared_ptr<SessionState> bound = {};  ///< Run on this session or fail with session_lost.
  /// What rests on a look is sent on the connection that the look was answered on (SessionState::connections() of `bound`),
  /// or it fails with connection_loss.
  std::optional<std::uint32_t> only_on = {};
};

}  // namespace zkclient::detail
