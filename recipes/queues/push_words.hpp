#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zkclient/result.hpp>

namespace zkrecipes::detail {

// What the pushes of all kinds of queues have in common.

inline constexpr const char* pushing = "queue push";

inline std::vector<std::string> single(std::string_view item) {
  std::vector<std::string> items;
  items.emplace_back(item);
  return items;
}

/// A push that waits is done when it returns.
inline zkclient::Handler<bool> when_pushed(zkclient::Handler<void> handler) {
  if (!handler) return {};
  return [handler = std::move(handler)](zkclient::Result<bool> result) mutable {
    result ? handler(zkclient::Result<void>()) : handler(result.error());
  };
}

}  // namespace zkrecipes::detail
