#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "recipes/values/shared_value_decider.hpp"
#include "recipes/values/value_core.hpp"

namespace zkrecipes::detail {

/// The version of the node that was read, or looked at; of a node that is not there, a default one.
inline ValueVersion version_of(const zk::Reply& seen) {
  return seen.ok() ? ValueVersion{seen.stat.czxid, seen.stat.version} : ValueVersion();
}

/// A node that holds bytes, which nobody but the caller understands: see ValueCore. One call has a transaction, since
/// what is too large for one caller must not be the failure of others.
struct SharedValueKind {
  using Request = SharedValueRequest;
  using Answer = SharedValueAnswer;
  using Step = SharedValueStep;
  static constexpr zk::OpType read = zk::OpType::exists;
  static constexpr std::size_t most_calls = 1;

  SharedValueStep decide(const zk::Reply& seen, const std::vector<SharedValueRequest>& requests) const {
    return decide_shared_value(version_of(seen), requests.front());
  }
  static std::string data(const SharedValueStep& step) { return step.data; }
  static bool is_regardless(const SharedValueRequest& request) noexcept {
    return request.kind == SharedValueRequest::Kind::set;
  }
};

using SharedValueCore = ValueCore<SharedValueKind>;

}  // namespace zkrecipes::detail
