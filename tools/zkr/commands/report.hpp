#pragma once

#include <string>
#include <vector>

#include "tools/zkr/run/run.hpp"

namespace zkr {

/// One line of JSON for scripts: why a run has ended, with which code or signal, how long it waited, its token
/// (nothing: `with_token` is false, or the lease was never held), and who held it if it was not acquired.
std::string report_text(const Outcome& outcome, const std::vector<std::string>& paths, bool with_token);

/// Writes the text to the file, which is made new, or to an open one. False: that failed, and errno says why.
bool write_report(const char* file, const std::string& text);
bool write_report(int descriptor, const std::string& text);

}  // namespace zkr
