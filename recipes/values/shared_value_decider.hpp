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
  enum class Kind { set, compare_set };
  Kind kind = Kind::set;
  std::string data = {};
  ValueVersion expected = {};  ///< For compare_set.
};

/// What the caller gets if the transaction is applied.
struct SharedValueAnswer {
  std::optional<zkclient::Errc> error = {};
  const char* why = "";
  bool matched = true;  ///< compare_set: the version was the expected one.
};

/// The transaction for one caller.
struct SharedValueStep {
  ValueWrite write = ValueWrite::nothing;
  std::string data = {};
  std::vector<SharedValueAnswer> answers = {};  ///< One.
};

/// `present`: the version of the node, as it was read; of a node that is not there, a default one.
SharedValueStep decide_shared_value(const ValueVersion& present, const SharedValueRequest& request);

}  // namespace zkrecipes::detail
