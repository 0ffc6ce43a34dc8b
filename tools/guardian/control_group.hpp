#pragma once

#include <fcntl.h>
#include <sys/file.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <system_error>

namespace guardian {

inline void remove_unused_control_group(const std::string& folder);

/// Removes the folder of a control group, and those below it, which nested runs have left behind. What has a process in
/// it stays.
inline void remove_control_group(const std::string& folder) {
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(folder, gone)) {
    std::error_code ignored;
    if (entry.is_directory(ignored)) remove_unused_control_group(entry.path().string());
  }
  ::rmdir(folder.c_str());
}

/// The same, of a run that is over, perhaps: each keeps its folder locked for as long as it may put a process there.
inline void remove_unused_control_group(const std::string& folder) {
  const int opened = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (opened < 0) return;
  if (::flock(opened, LOCK_EX | LOCK_NB) == 0) remove_control_group(folder);
  ::close(opened);
}

}  // namespace guardian
