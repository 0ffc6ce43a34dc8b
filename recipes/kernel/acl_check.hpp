#pragma once

#include <zkclient/error.hpp>
#include <zkclient/path.hpp>
#include <zkclient/types.hpp>

namespace zkrecipes::detail {

/// For the constructor of a recipe. Errors: invalid_acl.
inline void require_acl(const char* recipe, const zkclient::Path& path, const zkclient::AclList& acl) {
  if (const char* why = zkclient::acl_defect(acl)) {
    throw zkclient::Error(zkclient::Errc::invalid_acl, recipe, path.str(), why);
  }
}

}  // namespace zkrecipes::detail
