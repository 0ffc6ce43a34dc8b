#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// What a command asks about its own lease, and what it is told: an exit code, and a text.
struct ControlAnswer {
  int code = 0;
  std::string text{};
};

/// Answers what is asked over a socket without a place in the file system, by processes of this user alone. One request
/// at a time, on a thread of its own.
class ControlServer {
 public:
  using Answer = std::function<ControlAnswer(const std::string& request)>;

  /// Nothing: there is such a socket already, or none can be had.
  static std::unique_ptr<ControlServer> open(const std::string& name, Answer answer);
  /// Waits for a request that is being answered.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer(Descriptor listener, Answer answer);
  void serve();
  void serve_one(const Descriptor& client);

  Descriptor listener_;
  Answer answer_;
  std::thread thread_;
};

/// Asks. Nothing: nobody answers there (in time).
std::optional<ControlAnswer> ask_control(const std::string& name, const std::string& request);

}  // namespace zkr
