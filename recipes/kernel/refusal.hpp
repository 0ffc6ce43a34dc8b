#pragma once

#include "zkclient/detail/recipe_api.hpp"

namespace zkrecipes::detail {

/// Why the server has refused a transaction: what is wrong with the operation that failed. What `reply` says otherwise.
inline zkclient::Errc refusal_of(const zkclient::detail::Reply& reply) {
  namespace rc = zkclient::detail::rc;
  for (const int code : reply.codes) {
    if (code != rc::ok && code != rc::runtime_inconsistency) return rc::to_errc(code);
  }
  return zkclient::Errc::transaction_failed;
}

}  // namespace zkrecipes::detail
