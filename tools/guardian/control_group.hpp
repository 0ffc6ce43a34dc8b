#pragma once

#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace guardian {

/// Removes the folder of a control group, and those below it, which nested runs have left behind. What has a process in
/// it stays.
inline void remove_control_group(const std::string& folder) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) remove_control_group(entry.path().string());
  }
  ::rmdir(folder.c_str());
}

}  // namespace guardian
