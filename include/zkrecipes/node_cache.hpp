#pragma once

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/cache.hpp>

namespace zkrecipes {

/// One node: its data and Stat. See Cache for what is guaranteed, and cache.hpp for what goes wrong.
///
///   path   watched; if it is missing, its appearance
///
///   zkrecipes::NodeCache config(client, "/service/config");
///   const zkrecipes::Snapshot now = config.wait_ready();
///   if (const auto* node = now.root()) use(node->data);
class ZKRECIPES_API NodeCache : public Cache {
 public:
  /// Begins to read; returns at once. Errors: invalid_argument (an option is negative), closed.
  explicit NodeCache(zkclient::Client client, zkclient::Path path, CacheOptions options = {});
};

}  // namespace zkrecipes
