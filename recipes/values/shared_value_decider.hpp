#pragma once

#include <optional>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/shared_value.hpp>

#include "recipes/values/value_write.hpp"

namespace zkrecipes::detail {

/// What one caller wants.
struct SharedValueRequest {
  enum class Kind {
    set,
    compare_set,
    view,      ///< What the node holds: the first half of an update.
    view_now,  ///< The same, by a read for this call.
    swap,      ///< The second half: as compare_set, whose caller looks again if the version is another one.
  };
  Kind kind = Kind::set;
  std::string data = {};
  ValueVersion expected = {};  ///< For compare_set and swap.
};

/// What the caller gets if the transaction is applied.
struct SharedValueAnswer {
  std::optional<zkclient::Errc> error = {};
  const char* why = "";
  bool matched = true;       ///< compare_set, swap: the version was the expected one.
  VersionedValue seen = {};  ///< Of a view.
  bool recalled = false;     ///< It was remembered, so it may be old.
};

/// The transaction for one caller.
struct SharedValueStep {
  ValueWrite write = ValueWrite::nothing;
  std::string data = {};
  std::vector<SharedValueAnswer> answers = {};  ///< One.
};

/// For all but a view. `present`: the version of the node, as it was read; of a node that is not there, a default one.
SharedValueStep decide_shared_value(const ValueVersion& present, const SharedValueRequest& request);

/// Of a transaction that would `write`, and was refused with `code`: the version is not the expected one, by the word of
/// the leader.
bool tells_of_another_version(ValueWrite write, int code) noexcept;

}  // namespace zkrecipes::detail
