#pragma once

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/cache.hpp>

namespace zkrecipes {

/// The children of a node, with their data. The node itself is not read, but for the fact that it exists; what is below
/// the children is not looked at. See Cache for what is guaranteed, and cache.hpp for what goes wrong. Curator's
/// PathChildrenCache tells the nodes of recipes as well. It takes the folders that begin with `_c_` for children.
///
///   path          its list of children is watched; if it is missing, its appearance
///    |-- <name>   watched, unless only names are asked for
///    '-- <name>
///
/// Cost: one request for the list and one per child, then one per change. A directory whose list takes long (10,000
/// names) is listed again after twice that time at the earliest.
class ZKRECIPES_API ChildrenCache : public Cache {
 public:
  /// Begins to read; returns at once. Errors: invalid_argument (an option is negative), closed.
  explicit ChildrenCache(zkclient::Client client, zkclient::Path path, CacheOptions options = {});
};

}  // namespace zkrecipes
