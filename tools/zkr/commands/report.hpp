#pragma once

#include <string>
#include <vector>

#include "tools/zkr/run/run.hpp"

namespace zkr {

/// One line of JSON for scripts: why a run has ended, with which code or signal, how long it waited, and its token
/// (nothing: `with_token` is false, or the lease was never held).
std::string report_text(const Outcome& outcome, const std::vector<std::string>& paths, bool with_token);

/// Writes the text to the file. False: that failed, and errno says why.
bool write_report(const std::string& file, const std::string& text);

}  // namespace zkr
