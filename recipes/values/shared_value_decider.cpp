#include "recipes/values/shared_value_decider.hpp"

#include <zkclient/types.hpp>

namespace zkrecipes::detail {
namespace {

using zkclient::any_version;

constexpr std::int32_t last_before_any = any_version - 1;

ValueWrite decide_replacement(const ValueVersion& present) noexcept {
  if (present == ValueVersion()) return ValueWrite::create;
  if (present.version == any_version) return ValueWrite::set_always;
  return present.version == last_before_any ? ValueWrite::set_twice : ValueWrite::set;
}

}  // namespace

SharedValueStep decide_shared_value(const ValueVersion& present, const SharedValueRequest& request) {
  const bool exists = present != ValueVersion();
  SharedValueStep step;
  SharedValueAnswer answer;
  if (request.kind == SharedValueRequest::Kind::compare_set && exists && present.version == any_version) {
    answer.error = zkclient::Errc::bad_version;
    answer.why = "the version of the node is -1, which means any: set() the value once";
  } else if (request.kind == SharedValueRequest::Kind::compare_set && request.expected != present) {
    answer.matched = false;
    step.write = exists ? ValueWrite::check : ValueWrite::check_absent;
  } else {
    step.write = decide_replacement(present);
    step.data = request.data;
  }
  step.answers.push_back(answer);
  return step;
}

}  // namespace zkrecipes::detail
