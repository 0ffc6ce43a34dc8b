#pragma once

#include <utility>

#include <zkclient/client.hpp>
#include <zkrecipes/discovery.hpp>

#include "recipes/discovery/own_providers.hpp"

namespace zkrecipes::detail {

/// What a directory is. Shared, because every call needs it until its end.
struct DirectorySpec {
  DirectorySpec(zkclient::Client owner, zkclient::Path where, DirectoryOptions chosen)
      : client(std::move(owner)), base(std::move(where)), options(std::move(chosen)) {}

  const zkclient::Client client;  // Stays open for as long as it is used here.
  const zkclient::Path base;
  const DirectoryOptions options;
  const OwnProviders providers = {};
};

}  // namespace zkrecipes::detail
