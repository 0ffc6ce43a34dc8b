#include "zkclient/detail/requests/usable_names.hpp"

#include <algorithm>

#include <zkclient/error.hpp>
#include <zkclient/path.hpp>

namespace zkclient::detail {

bool is_usable_name(const std::string& directory, std::string_view name, std::size_t room) {
  if (directory.size() + 1 + name.size() + room > Path::max_size) return false;
  const auto is_plain = [](char c) { return c > ' ' && c <= '~' && c != '.' && c != '/'; };
  const bool plain = !name.empty() && std::all_of(name.begin(), name.end(), is_plain);
  if (plain) return true;  // As nearly all are.
  if (name.find('/') != std::string_view::npos) return false;
  try {
    (void)(Path() / name);
    return true;
  } catch (const Error&) {
    return false;
  }
}

void keep_usable(const std::string& directory, std::vector<std::string>& names) {
  std::erase_if(names, [&directory](const std::string& name) { return !is_usable_name(directory, name); });
}

}  // namespace zkclient::detail
