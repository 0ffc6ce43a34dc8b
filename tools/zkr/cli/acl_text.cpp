#include "tools/zkr/cli/acl_text.hpp"

#include <fmt/format.h>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/cli/output.hpp"

namespace zkr {
namespace {

// An id may have colons.
zkclient::Acl parse_acl_entry(const std::string& text) {
  const std::size_t first = text.find(':');
  const std::size_t last = text.rfind(':');
  if (first == std::string::npos || first == last) {
    throw Failure(exit_usage, "\"" + text + "\" is no access control entry: scheme:id:cdrwa");
  }
  const auto permissions = parse_permissions(std::string_view(text).substr(last + 1));
  if (!permissions) throw Failure(exit_usage, "\"" + text + "\": permissions are letters of cdrwa");
  zkclient::Acl entry;
  entry.permissions = *permissions;
  entry.scheme = text.substr(0, first);
  entry.id = text.substr(first + 1, last - first - 1);
  return entry;
}

}  // namespace

std::string acl_text(const zkclient::Acl& entry) {
  const std::string& scheme = entry.scheme;
  const std::string& id = entry.id;
  return fmt::format("{}:{}:{}", printable(scheme), printable(id), permissions_text(entry.permissions));
}

zkclient::AclList parse_acl_texts(const std::vector<std::string>& texts) {
  zkclient::AclList list;
  for (const std::string& text : texts)
    list.push_back(parse_acl_entry(text));
  return list;
}

}  // namespace zkr
