#pragma once

#include <zkclient/types.hpp>

namespace zkclient::detail {

/// The server gives such a node the rest of its name.
inline bool is_sequential(CreateMode mode) noexcept {
  return mode == CreateMode::persistent_sequential || mode == CreateMode::ephemeral_sequential ||
         mode == CreateMode::persistent_sequential_ttl;
}

}  // namespace zkclient::detail
