#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "recipes/values/shared_value_decider.hpp"
#include "recipes/values/value_core.hpp"

namespace zkrecipes::detail {

/// The version of the node that was read, or looked at; of a node that is not there, a default one.
inline ValueVersion version_of(const zk::Reply& seen) {
  return seen.ok() ? ValueVersion{seen.stat.czxid, seen.stat.version} : ValueVersion();
}

/// The same, with the data.
inline VersionedValue value_of(const zk::Reply& read) {
  return {read.ok(), read.ok() ? read.data : std::string(), version_of(read)};
}

/// A node that holds bytes, which nobody but the caller understands: see ValueCore. One call has a transaction, since
/// what is too large for one caller must not be the failure of others.
struct SharedValueKind {
  using Request = SharedValueRequest;
  using Answer = SharedValueAnswer;
  using Step = SharedValueStep;
  static constexpr zk::OpType read = zk::OpType::get;
  static constexpr std::size_t most_calls = 1;

  SharedValueStep decide(const ValueLook& seen, const std::vector<SharedValueRequest>& requests) const {
    return is_view(requests.front()) ? view(seen) : decide_shared_value(version_of(seen.reply), requests.front());
  }
  static std::string data(const SharedValueStep& step) { return step.data; }
  static bool is_regardless(const SharedValueRequest& request) noexcept {
    return request.kind == SharedValueRequest::Kind::set;
  }
  static bool needs_a_read(const SharedValueRequest& request) noexcept {
    return request.kind == SharedValueRequest::Kind::view_now;
  }
  static bool has_looked(const SharedValueRequest& request) noexcept {
    return request.kind == SharedValueRequest::Kind::swap;
  }
  static std::optional<SharedValueAnswer> refusal(const SharedValueRequest& request, ValueWrite write, int code) {
    if (request.kind == SharedValueRequest::Kind::set || !tells_of_another_version(write, code)) return std::nullopt;
    SharedValueAnswer answer;
    answer.matched = false;
    return answer;
  }

 private:
  static bool is_view(const SharedValueRequest& request) noexcept {
    return request.kind == SharedValueRequest::Kind::view || request.kind == SharedValueRequest::Kind::view_now;
  }
  static SharedValueStep view(const ValueLook& seen) {
    SharedValueAnswer answer;
    answer.seen = value_of(seen.reply);
    answer.recalled = seen.recalled;
    SharedValueStep step;
    step.answers.push_back(std::move(answer));
    return step;
  }
};

using SharedValueCore = ValueCore<SharedValueKind>;

}  // namespace zkrecipes::detail
