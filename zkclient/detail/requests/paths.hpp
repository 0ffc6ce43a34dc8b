#pragma once

#include <string>
#include <string_view>

#include <zkclient/export.hpp>
#include <zkclient/path.hpp>

/// Full paths, put together and taken apart. Nothing here checks them.
namespace zkclient::detail {

ZKRECIPES_INTERNAL_API std::string parent_of(const std::string& path);
ZKRECIPES_INTERNAL_API std::string child_path(const std::string& directory, std::string_view name);
/// The last component. Points into `path`.
ZKRECIPES_INTERNAL_API std::string_view name_of(std::string_view path) noexcept;

/// `path` below the prefix. Throws Error (invalid_path: too long).
std::string with_prefix(const Path& prefix, const Path& path);
std::string without_prefix(const Path& prefix, const std::string& path);

}  // namespace zkclient::detail
