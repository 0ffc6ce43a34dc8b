#pragma once

#include <optional>
#include <string>

#include "zkclient/detail/requests/call.hpp"

namespace zkclient::detail {

class RequestQueue;

/// The path of the operation of `op` that was refused because a quota would be exceeded; "" if that is not what happened.
std::string refused_by_quota(const Op& op);
/// What `done` becomes for such an op: the reply's detail tells which quota that is, and how much of it is used, as soon as that
/// was read; or it stays as it is, if that cannot be read soon.
Op::Done with_quota_report(RequestQueue& queue, const Path& prefix, const std::string& path,
                           std::optional<Op::TimePoint> deadline, Op::Done done);

}  // namespace zkclient::detail
