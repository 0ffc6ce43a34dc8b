#pragma once

#include <string>

#include <zkclient/export.hpp>

namespace zkclient::detail {

/// A random (version 4) UUID in lower case, 36 characters.
ZKRECIPES_INTERNAL_API std::string make_uuid();

}  // namespace zkclient::detail
