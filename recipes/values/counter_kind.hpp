#pragma once

#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include <zkrecipes/counter.hpp>

#include "recipes/values/counter_decider.hpp"
#include "recipes/values/counter_format.hpp"
#include "recipes/values/value_core.hpp"

namespace zkrecipes::detail {

/// A node that holds a number: see ValueCore.
struct CounterKind {
  using Request = CounterRequest;
  using Answer = CounterAnswer;
  using Step = CounterStep;
  static constexpr zk::OpType read = zk::OpType::get;
  static constexpr std::size_t most_calls = std::numeric_limits<std::size_t>::max();

  CounterEncoding encoding;

  CounterStep decide(const ValueLook& seen, const std::vector<CounterRequest>& requests) const {
    return decide_counter(view(seen.reply), requests, encoding);
  }
  std::string data(const CounterStep& step) const { return encode_counter(step.value, encoding); }
  static bool is_regardless(const CounterRequest&) noexcept { return false; }
  static bool needs_a_read(const CounterRequest&) noexcept { return false; }
  static bool has_looked(const CounterRequest&) noexcept { return false; }
  static std::optional<CounterAnswer> refusal(const CounterRequest&, ValueWrite, int) { return std::nullopt; }

  CounterView view(const zk::Reply& seen) const {
    CounterView view;
    view.exists = seen.ok();
    if (!view.exists) return view;
    view.value = decode_counter(seen.data, encoding);
    view.version = seen.stat.version;
    return view;
  }
};

using CounterCore = ValueCore<CounterKind>;

}  // namespace zkrecipes::detail
