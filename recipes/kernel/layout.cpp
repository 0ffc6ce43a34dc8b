#include <zkrecipes/layout.hpp>

#include <algorithm>

#include <fmt/format.h>

namespace zkrecipes {
namespace {

std::string without_dashes(std::string_view uuid) {
  std::string hex(uuid);
  std::erase(hex, '-');
  return hex;
}

}  // namespace

std::string Layout::marker(std::string_view uuid, std::string_view kind) const {
  if (style_ == Style::curator) return fmt::format("_c_{}-", uuid);
  return name(uuid, kind);
}

std::string Layout::name(std::string_view uuid, std::string_view kind) const {
  const bool reads = kind == "read";
  const bool writes = kind == "write";
  if (style_ == Style::kazoo) return without_dashes(uuid) + (reads ? "__rlock__" : "__lock__");
  if (reads || writes) return fmt::format("_c_{}-{}", uuid, reads ? "__READ__" : "__WRIT__");
  return fmt::format("_c_{}-{}-", uuid, kind);
}

}  // namespace zkrecipes
