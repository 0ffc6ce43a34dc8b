#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <zkrecipes/contender.hpp>

namespace zkr {

/// Who stands before this session: "waiting behind 2; held by ci (web-1, pid 4711), which came 4m12s ago". "": nobody
/// does. `contenders`: first to last.
std::string waiting_text(const std::vector<zkrecipes::Contender>& contenders, std::int64_t session);

}  // namespace zkr
