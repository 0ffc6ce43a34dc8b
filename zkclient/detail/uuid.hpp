#pragma once

#include <string>

namespace zkclient::detail {

/// A random (version 4) UUID in lower case, 36 characters.
std::string make_uuid();

}  // namespace zkclient::detail
