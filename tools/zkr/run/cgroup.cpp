#include "tools/zkr/run/cgroup.hpp"

#include <fcntl.h>
#include <signal.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <sstream>
#include <system_error>

#include "tools/guardian/control_group.hpp"

namespace zkr {
namespace {

std::string text_of(const char* path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
}

/// A line is "36 25 0:31 /root /mount/point options - cgroup2 ...". A mount of a part of the hierarchy is left out.
std::optional<std::string> mount_point(const std::string& mounts) {
  std::istringstream lines(mounts);
  for (std::string line; std::getline(lines, line);) {
    if (line.find(" - cgroup2 ") == std::string::npos) continue;
    std::istringstream words(line);
    std::string skipped;
    std::string root;
    std::string point;
    words >> skipped >> skipped >> skipped >> root >> point;
    if (root == "/") return point;
  }
  return std::nullopt;
}

/// One that is there already may be that of another namespace's process with the same number. Empty: none can be made.
std::string new_folder(const std::string& path) {
  constexpr int most = 100;
  std::string made = path;
  for (int i = 2; i <= most; ++i) {
    if (::mkdir(made.c_str(), 0755) == 0) return made;
    if (errno != EEXIST) break;
    made = path + "-" + std::to_string(i);
  }
  return "";
}

}  // namespace

void remove_empty_cgroups(const std::string& parent) {
  constexpr std::string_view beginning = "zkr-";
  std::error_code gone;
  for (const auto& entry : std::filesystem::directory_iterator(parent, gone)) {
    const std::string name = entry.path().filename().string();
    const pid_t front = name.starts_with(beginning) ? std::atoi(name.c_str() + beginning.size()) : 0;
    const bool is_over = front > 0 && ::kill(front, 0) != 0 && errno == ESRCH;
    // The number tells nothing of the processes of another namespace; the lock does.
    if (is_over) guardian::remove_unused_control_group(entry.path().string());
  }
}

std::optional<std::string> own_cgroup(const std::string& mounts, const std::string& groups) {
  const auto point = mount_point(mounts);
  if (!point) return std::nullopt;
  std::istringstream lines(groups);
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("0::/")) return *point + line.substr(3);
  }
  return std::nullopt;
}

std::optional<Cgroup> Cgroup::make(const std::string& name) {
  const auto parent = own_cgroup(text_of("/proc/self/mountinfo"), text_of("/proc/self/cgroup"));
  if (!parent) return std::nullopt;
  remove_empty_cgroups(*parent);
  const std::string path = new_folder(*parent + "/" + name);
  if (path.empty()) return std::nullopt;
  Descriptor directory(::open(path.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
  ::flock(directory.get(), LOCK_SH);  // Until the last of us is gone: an empty one that is locked is not removed.
  Descriptor door(::openat(directory.get(), "cgroup.procs", O_WRONLY | O_CLOEXEC));
  const bool can_kill = ::faccessat(directory.get(), "cgroup.kill", W_OK, 0) == 0;
  Cgroup made(std::move(directory), std::move(door), path);
  if (made.door_ && can_kill) return made;
  made.remove();
  return std::nullopt;
}

void Cgroup::remove() const { guardian::remove_control_group(path_); }

bool Cgroup::write(const char* file, const char* text) {
  const Descriptor opened(::openat(directory_.get(), file, O_WRONLY | O_CLOEXEC));
  return opened && ::write(opened.get(), text, std::strlen(text)) > 0;
}

}  // namespace zkr
