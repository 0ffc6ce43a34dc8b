#pragma once

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>

#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// Where a command says how it is, as sd_notify() does it: a socket that it finds in NOTIFY_SOCKET. What it says is
/// passed on to the NOTIFY_SOCKET of this process, if there is one, but for what is true of the command's process alone.
class Notifications {
 public:
  /// Gets each line, such as "READY=1", on a thread of this object.
  using Hear = std::function<void(const std::string& line)>;

  /// A socket of that abstract name. Messages count if they come from this user, or from root. Nothing: the name is
  /// taken.
  static std::unique_ptr<Notifications> open(const std::string& name, Hear hear);
  ~Notifications();
  Notifications(const Notifications&) = delete;
  Notifications& operator=(const Notifications&) = delete;

 private:
  Notifications(Descriptor socket, Hear hear);
  void listen();
  void take(const std::string& message) const;

  Descriptor socket_;
  Hear hear_;
  std::atomic<bool> ended_ = false;
  std::thread thread_;
};

}  // namespace zkr
