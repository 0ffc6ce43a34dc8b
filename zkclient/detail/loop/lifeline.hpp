#pragma once

#include <memory>

namespace zkclient::detail {

/// The whole that an object is a part of. Work that a part has under way holds the whole, or asks when it comes back
/// whether the whole still exists.
using Lifeline = std::weak_ptr<void>;

}  // namespace zkclient::detail
