#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "timeline.hpp"

namespace tour {

/// Reads the lines and the ledger of a stage that players have left, says whether all was as it should be, and returns
/// the exit code. `paused` are those who were paused: only they may notice a loss late.
int judge(const std::filesystem::path& stage, const std::vector<std::string>& paused, Look look);

}  // namespace tour
