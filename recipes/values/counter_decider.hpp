#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/counter.hpp>

#include "recipes/values/value_write.hpp"

namespace zkrecipes::detail {

/// What one caller wants.
struct CounterRequest {
  enum class Kind { add, set, compare_set };
  Kind kind = Kind::add;
  std::int64_t operand = 0;   ///< The difference, or the number that is desired.
  std::int64_t expected = 0;  ///< For compare_set.
};

/// What the caller gets if the transaction is applied.
struct CounterAnswer {
  std::optional<zkclient::Errc> error = {};
  const char* why = "";
  bool matched = true;  ///< compare_set: the number was the expected one.
  CounterChange change = {};
};

/// The node, as it was read.
struct CounterView {
  bool exists = false;
  std::optional<std::int64_t> value = 0;  ///< nullopt: no number.
  std::int32_t version = 0;
};

/// One transaction for many callers.
struct CounterStep {
  using Write = ValueWrite;
  Write write = Write::nothing;
  std::int64_t value = 0;
  std::vector<CounterAnswer> answers;  ///< In the order of the requests.
};

/// Applies `requests` to `view`, one after the other.
CounterStep decide_counter(const CounterView& view, const std::vector<CounterRequest>& requests,
                           CounterEncoding encoding);

}  // namespace zkrecipes::detail
