#include <zkrecipes/node_cache.hpp>

#include <utility>

#include "recipes/views/mirror.hpp"

namespace zkrecipes {
namespace {

detail::MirrorScope scope_of_node(const CacheOptions& options) {
  detail::MirrorScope scope;
  scope.options = options;
  return scope;
}

}  // namespace

NodeCache::NodeCache(zkclient::Client client, zkclient::Path path, CacheOptions options)
    : Cache(std::move(client), std::move(path), scope_of_node(options)) {}

}  // namespace zkrecipes
