#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/cache.hpp>

namespace zkrecipes {

/// As CacheOptions, and how deep.
struct TreeCacheOptions {
  bool data = CacheOptions().data;                                 ///< See CacheOptions.
  std::size_t max_bytes = CacheOptions().max_bytes;                ///< See CacheOptions.
  std::chrono::milliseconds max_delay = CacheOptions().max_delay;  ///< See CacheOptions.
  std::chrono::milliseconds quiet = CacheOptions().quiet;          ///< See CacheOptions.
  std::chrono::milliseconds max_age = CacheOptions().max_age;      ///< See CacheOptions.
  std::function<bool(const std::string& path)> include = {};       ///< See CacheOptions.
  /// Nodes that are deeper below the path than this are not looked at: 1 is the children. Without a limit: nullopt.
  std::optional<int> max_depth = {};
};

/// A node and all that is below it. See Cache for what is guaranteed, and cache.hpp for what goes wrong.
///
///   path               its data and its list of children are watched; if it is missing, its appearance
///    |-- <ephemeral>   its data is watched
///    '-- <other>       its data and its list of children are watched
///         '-- ...
///
/// Cost: one request per ephemeral node and two per other node, then one per change. What a transaction changes in
/// several directories shows together, in one exact snapshot.
class ZKRECIPES_API TreeCache : public Cache {
 public:
  /// Begins to read; returns at once. Errors: invalid_argument (an option is negative), closed.
  explicit TreeCache(zkclient::Client client, zkclient::Path path, TreeCacheOptions options = {});
};

}  // namespace zkrecipes
