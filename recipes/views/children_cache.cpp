#include <zkrecipes/children_cache.hpp>

#include <utility>

#include "recipes/views/mirror.hpp"

namespace zkrecipes {
namespace {

detail::MirrorScope scope_of_children(const CacheOptions& options) {
  detail::MirrorScope scope;
  scope.root_data = false;
  scope.depth = 1;
  scope.options = options;
  return scope;
}

}  // namespace

ChildrenCache::ChildrenCache(zkclient::Client client, zkclient::Path path, CacheOptions options)
    : Cache(std::move(client), std::move(path), scope_of_children(options)) {}

}  // namespace zkrecipes
