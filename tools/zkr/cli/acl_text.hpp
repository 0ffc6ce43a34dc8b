#pragma once

#include <string>
#include <vector>

#include <zkclient/types.hpp>

namespace zkr {

/// "scheme:id:cdrwa", as options and `acl get` write an entry. Any client may have written it: control characters are
/// shown as \xNN.
std::string acl_text(const zkclient::Acl& entry);

/// The list with these entries, each as acl_text() writes it. Errors: Failure (exit_usage).
zkclient::AclList parse_acl_texts(const std::vector<std::string>& texts);

}  // namespace zkr
