#pragma once

#include <string>

#include <zkclient/types.hpp>

namespace zkclient::detail {

/// The outcome of a versioned set whose reply was lost, told from the node as it is now.
enum class SetOutcome {
  applied,      ///< It is what the node holds.
  not_applied,  ///< The node is as it was: it may be sent again, since only one of the two can succeed.
  superseded,   ///< Another write took the version that it was to make: it has failed and will.
  unknown,      ///< The node was replaced, or written again.
};

/// `expected`: the node before the set. `data`: what was to be written, and what no other client writes. `null`: the
/// node has null data now.
SetOutcome decide_set(const Stat& expected, const std::string& data, const Stat& now, const std::string& now_data,
                      bool now_null);

}  // namespace zkclient::detail
