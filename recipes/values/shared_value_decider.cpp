#include "recipes/values/shared_value_decider.hpp"

#include <zkclient/types.hpp>

#include "recipes/kernel/words.hpp"

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
  const bool conditional = request.kind != SharedValueRequest::Kind::set;
  if (conditional && exists && present.version == any_version) {
    answer.error = zkclient::Errc::bad_version;
    answer.why = "the version of the node is -1, which means any: set() the value once";
  } else if (conditional && request.expected != present) {
    answer.matched = false;
    // A swap that fails without reason costs its caller a look. A compare_set is answered by the word of the leader.
    if (request.kind == SharedValueRequest::Kind::compare_set) {
      step.write = exists ? ValueWrite::check : ValueWrite::check_absent;
    }
  } else {
    step.write = decide_replacement(present);
    step.data = request.data;
  }
  step.answers.push_back(answer);
  return step;
}

bool tells_of_another_version(ValueWrite write, int code) noexcept {
  if (write == ValueWrite::create) return code == zk::rc::node_exists;
  return changes(write) && (code == zk::rc::bad_version || code == zk::rc::no_node);
}

}  // namespace zkrecipes::detail
