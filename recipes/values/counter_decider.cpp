#include "recipes/values/counter_decider.hpp"

#include <zkclient/types.hpp>

#include "recipes/values/counter_format.hpp"

namespace zkrecipes::detail {
namespace {

using zkclient::any_version;
using zkclient::Errc;
using Write = CounterStep::Write;

constexpr std::int32_t before_any = any_version - 1;

CounterAnswer refuse(Errc error, const char* why) {
  CounterAnswer answer;
  answer.error = error;
  answer.why = why;
  return answer;
}

/// The number, as the requests change it.
struct Tally {
  std::optional<std::int64_t> value;
  bool conditional;
  CounterEncoding encoding;
  bool written = false;

  CounterAnswer write(std::int64_t next) {
    CounterAnswer answer;
    answer.change = CounterChange{value.value_or(0), next};
    value = next;
    written = true;
    return answer;
  }
  CounterAnswer keep(bool matched) const {
    CounterAnswer answer;
    answer.matched = matched;
    answer.change = CounterChange{*value, *value};
    return answer;
  }
  CounterAnswer apply(const CounterRequest& request) {
    // Behind an unconditional write of the same transaction the number is known.
    if (request.kind == CounterRequest::Kind::set) return write(request.operand);
    if (!conditional && !written) {
      return refuse(Errc::bad_version, "the version of the node is -1, which means any: set() the number once");
    }
    if (!value) return refuse(Errc::foreign_node, "the data of the node is no number of this encoding");
    if (request.kind == CounterRequest::Kind::compare_set) {
      if (*value != request.expected) return keep(false);
      return request.operand == *value ? keep(true) : write(request.operand);
    }
    std::int64_t sum = 0;
    if (__builtin_add_overflow(*value, request.operand, &sum) || !fits(sum, encoding)) {
      return refuse(Errc::invalid_argument, "the sum is beyond the numbers of the encoding; nothing was changed");
    }
    return sum == *value ? keep(true) : write(sum);
  }
};

Write decide_write(const CounterView& view, const Tally& tally) {
  if (!view.exists) return Write::create;  // That nothing is there is confirmed by making it, too.
  if (!tally.conditional) return tally.written ? Write::set_always : Write::nothing;
  if (!tally.written) return Write::check;
  return view.version == before_any ? Write::set_twice : Write::set;
}

}  // namespace

CounterStep decide_counter(const CounterView& view, const std::vector<CounterRequest>& requests,
                           CounterEncoding encoding) {
  CounterStep step;
  Tally tally{view.exists ? view.value : 0, !view.exists || view.version != any_version, encoding};
  step.answers.reserve(requests.size());
  for (const CounterRequest& request : requests)
    step.answers.push_back(tally.apply(request));
  step.value = tally.value.value_or(0);
  step.write = decide_write(view, tally);
  return step;
}

}  // namespace zkrecipes::detail
