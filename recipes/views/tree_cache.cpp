#include <zkrecipes/tree_cache.hpp>

#include <limits>
#include <utility>

#include "recipes/views/mirror.hpp"

namespace zkrecipes {
namespace {

detail::MirrorScope scope_of_tree(const TreeCacheOptions& options, const zkclient::Path& path) {
  if (options.max_depth && *options.max_depth < 0) {
    throw zkclient::Error(zkclient::Errc::invalid_argument, "cache", path.str(), "max_depth is negative");
  }
  detail::MirrorScope scope;
  scope.depth = options.max_depth.value_or(std::numeric_limits<int>::max());
  // A root that is listed needs no other watch for names alone.
  scope.root_data = options.data || scope.depth == 0;
  scope.options = {.data = options.data,
                   .max_bytes = options.max_bytes,
                   .max_delay = options.max_delay,
                   .quiet = options.quiet,
                   .max_age = options.max_age,
                   .include = options.include};
  return scope;
}

}  // namespace

TreeCache::TreeCache(zkclient::Client client, zkclient::Path path, TreeCacheOptions options)
    : Cache(std::move(client), path, scope_of_tree(options, path)) {}

}  // namespace zkrecipes
