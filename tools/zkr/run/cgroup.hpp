#pragma once

#include <optional>
#include <string>

#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// A control group (version 2) of the command and all that it starts, below ours: it is killed and frozen in one
/// stroke, however fast it forks. Only where ours is writable.
class Cgroup {
 public:
  /// By that name, or, if it is taken, by one that begins like that. Nothing: it cannot be made. What former runs had to
  /// leave there, because a process of theirs went on, is removed if it has ended since.
  static std::optional<Cgroup> make(const std::string& name);
  Cgroup(Cgroup&&) = default;
  Cgroup& operator=(Cgroup&&) = default;

  const std::string& path() const { return path_; }
  /// What the command writes "0" to, to enter.
  int door() const { return door_.get(); }
  void kill() { write("cgroup.kill", "1"); }
  /// False: it cannot be done.
  bool freeze() { return write("cgroup.freeze", "1"); }
  bool thaw() { return write("cgroup.freeze", "0"); }
  /// When it is empty. Whoever removes it first does so.
  void remove() const;

 private:
  Cgroup(Descriptor directory, Descriptor door, std::string path)
      : directory_(std::move(directory)), door_(std::move(door)), path_(std::move(path)) {}
  bool write(const char* file, const char* text);

  Descriptor directory_;
  Descriptor door_;
  std::string path_;
};

/// Removes the groups "zkr-NUMBER..." below that folder whose process is gone, and which no run and no process uses.
void remove_empty_cgroups(const std::string& parent);

/// Where version 2 is mounted, and where we are in it: from the texts of /proc/self/mountinfo and /proc/self/cgroup.
std::optional<std::string> own_cgroup(const std::string& mounts, const std::string& groups);

}  // namespace zkr
