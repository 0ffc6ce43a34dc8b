#pragma once

#include <cstddef>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>

namespace testkit {

/// Threads of this process. Not those that are ending: one that was joined may be listed for a while yet.
inline std::size_t count_threads() {
  constexpr unsigned long ending = 4;  // The kernel's PF_EXITING, set before anybody can have joined it.
  std::size_t count = 0;
  for (const auto& task : std::filesystem::directory_iterator("/proc/self/task")) {
    std::ifstream file(task.path() / "stat");
    std::string line;
    if (!std::getline(file, line)) continue;  // It has gone meanwhile.
    std::istringstream fields(line.substr(line.rfind(')') + 1));
    std::string skipped;
    for (int i = 0; i < 6; ++i)  // From the state to the terminal's group.
      fields >> skipped;
    unsigned long flags = 0;
    if (fields >> flags && (flags & ending) == 0) ++count;
  }
  return count;
}

}  // namespace testkit
