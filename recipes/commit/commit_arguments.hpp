#pragma once

#include <memory>
#include <string>

#include <zkclient/client.hpp>
#include <zkclient/error.hpp>

#include "recipes/commit/commit_tree.hpp"
#include "recipes/kernel/acl_check.hpp"

/// For the constructors and calls of coordinators and participants.
namespace zkrecipes::detail {

inline void require_argument(bool right, const char* operation, const std::string& path, const char* otherwise) {
  if (!right) throw zkclient::Error(zkclient::Errc::invalid_argument, operation, path, otherwise);
}

/// Errors: invalid_acl.
inline TreePtr make_tree(const zkclient::Client& client, const zkclient::Path& path, const zkclient::AclList& acl,
                         const char* operation) {
  require_acl(operation, path, acl);
  return std::make_shared<const CommitTree>(client.impl(), path, acl);
}

}  // namespace zkrecipes::detail
