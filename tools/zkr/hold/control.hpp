#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// What a command asks about its own lease, and what it is told: an exit code, and a text.
struct ControlAnswer {
  int code = 0;
  std::string text{};
};

/// Answers one request, from any thread, now or later. If the last copy goes without, who asked is told that nobody
/// answers.
class ControlReply {
 public:
  explicit ControlReply(Descriptor asker) : asker_(std::make_shared<Descriptor>(std::move(asker))) {}
  /// Does not block.
  void operator()(const ControlAnswer& answer) const;

 private:
  std::shared_ptr<Descriptor> asker_;
};

/// Passes on what is asked over a socket without a place in the file system, by processes of this user alone.
class ControlServer {
 public:
  /// Called on a thread of the server's, for one request after the other. What takes long is replied later.
  using Answer = std::function<void(const std::string& request, const ControlReply& reply)>;

  /// Nothing: there is such a socket already, or none can be had.
  static std::unique_ptr<ControlServer> open(const std::string& name, Answer answer);
  /// Waits for an Answer that is being called.
  ~ControlServer();
  ControlServer(const ControlServer&) = delete;
  ControlServer& operator=(const ControlServer&) = delete;

 private:
  ControlServer(Descriptor listener, Answer answer);
  void serve();
  void serve_one(Descriptor asker);

  Descriptor listener_;
  Answer answer_;
  std::thread thread_;
};

inline constexpr std::chrono::seconds control_patience(20);

/// Asks, and waits for the answer: for `patience` at most, or, without one, for as long as the server is there. Nothing:
/// nobody is there any more, or another user is, who may have taken the name of a server that is gone. Failure: it may be
/// there, and cannot be asked, or does not answer in time.
std::optional<ControlAnswer> ask_control(const std::string& name, const std::string& request,
                                         std::optional<std::chrono::milliseconds> patience = control_patience);

}  // namespace zkr
