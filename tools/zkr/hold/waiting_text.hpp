#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include <zkrecipes/contender.hpp>

namespace zkr {

/// Who stands before this session: "waiting behind 2; held by ci (web-1, pid 4711), which came 4m12s ago". "": nobody
/// does. `contenders`: first to last.
std::string waiting_text(const std::vector<zkrecipes::Contender>& contenders, std::int64_t session);

/// The same for scripts: {"who":"ci","host":"web-1","pid":4711,"since":"2026-11-29T08:10:11.123Z"}. What is not known is
/// null. "": nobody stands before it.
std::string holder_json(const std::vector<zkrecipes::Contender>& contenders, std::int64_t session);

}  // namespace zkr
