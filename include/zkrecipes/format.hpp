#pragma once

#include <zkclient/format.hpp>

#include <zkrecipes/lease.hpp>

/// Formatters for {fmt}; see <zkclient/format.hpp>.

/// The number, which takes the format specification of integers; before it "<epoch>." if there is one.
template <>
struct fmt::formatter<zkrecipes::FencingToken> : fmt::formatter<std::int64_t> {
  template <typename Context>
  auto format(zkrecipes::FencingToken token, Context& context) const {
    if (token.epoch != 0) context.advance_to(fmt::format_to(context.out(), "{}.", token.epoch));
    return fmt::formatter<std::int64_t>::format(token.value, context);
  }
};

template <>
struct fmt::formatter<zkrecipes::LeaseState> : zkclient::detail::FormatAsText {
  template <typename Context>
  auto format(zkrecipes::LeaseState state, Context& context) const {
    return text(to_string(state), context);
  }
};
