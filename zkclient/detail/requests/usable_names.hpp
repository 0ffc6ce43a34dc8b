#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/export.hpp>

namespace zkclient::detail {

/// Whether a Path can name this child of `directory`, a full path. `room`: and nodes below it whose names take so many
/// bytes more.
///
/// This is the rule about names that other clients have chosen. A server has nodes whose paths are longer than any Path,
/// and older ones take characters that newer ones refuse. A Path of such a node throws, which ends the process where nobody
/// awaits it. So such a node does not exist for recipes: the lists that they get do not have it, and a name that they find
/// elsewhere is judged by this.
ZKRECIPES_INTERNAL_API bool is_usable_name(const std::string& directory, std::string_view name, std::size_t room = 0);

/// Leaves out those that are not usable.
void keep_usable(const std::string& directory, std::vector<std::string>& names);

}  // namespace zkclient::detail
