#pragma once

#include <memory>
#include <optional>

#include "zkclient/detail/requests/request.hpp"

namespace zkclient::detail {

/// Limits of one call, on the loop thread.
struct Call {
  std::optional<Op::TimePoint> deadline = {};
  std::shared_ptr<CancelScope> cancel = {};
  std::shared_ptr<SessionState> bound = {};  ///< Run on this session or fail with session_lost.
};

}  // namespace zkclient::detail
