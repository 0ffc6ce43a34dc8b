#include "zkclient/detail/requests/paths.hpp"

#include <zkclient/error.hpp>

namespace zkclient::detail {

std::string parent_of(const std::string& path) {
  const std::size_t slash = path.rfind('/');
  return slash == 0 ? "/" : path.substr(0, slash);
}

std::string child_path(const std::string& directory, std::string_view name) {
  std::string path = directory == "/" ? std::string() : directory;
  path += '/';
  path += name;
  return path;
}

std::string_view name_of(std::string_view path) noexcept { return path.substr(path.rfind('/') + 1); }

std::string with_prefix(const Path& prefix, const Path& path) {
  if (prefix.is_root()) return path.str();
  if (path.is_root()) return prefix.str();
  if (prefix.str().size() + path.str().size() > Path::max_size) {
    constexpr std::size_t shown = 200;
    const std::string start = path.str().substr(0, shown) + (path.str().size() > shown ? "..." : "");
    throw Error(Errc::invalid_path, "path", start, "is longer than 64 KiB with the client's prefix in front");
  }
  return prefix.str() + path.str();
}

std::string without_prefix(const Path& prefix, const std::string& path) {
  const std::string& front = prefix.str();
  if (prefix.is_root() || !path.starts_with(front)) return path;
  if (path.size() == front.size()) return "/";
  return path[front.size()] == '/' ? path.substr(front.size()) : path;  // A node beside the prefix has its whole path.
}

}  // namespace zkclient::detail
