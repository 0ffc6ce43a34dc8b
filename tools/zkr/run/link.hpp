#pragma once

#include <optional>
#include <string>
#include <utility>

#include "tools/zkr/run/decider.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

enum class Word {
  // From the front to the keeper.
  signal,     // `number` is for the command.
  continued,  // The front was stopped, and goes on.
  end,        // We were told to end by the signal `number`: the command is not to be started again.
  // From the keeper to the front.
  guard,    // From now on, what the page says of the lease.
  started,  // The command, with a descriptor of its process. `number`: whether it is in the front's process group.
  stopped,  // The command, by the signal `number`.
  resumed,  // The command goes on.
  say,      // Print `text`.
  ended,    // `ending`. `number`: whether the keeper goes on, until the lease is given back.
};

struct Message {
  Word word = Word::say;
  int number = 0;
  Ending ending{};
  Cause cause = Cause::none;    // With `ended`.
  bool command_killed = false;  // With `ended`: it could not clean up.
  char text[1000] = {};
};

/// One end of the line between front and keeper.
class Link {
 public:
  static std::pair<Link, Link> pair();

  int get() const { return socket_.get(); }
  void close() { socket_.close(); }
  bool peer_gone() const { return peer_gone_; }
  /// Does not block: a peer that is stopped long enough misses something.
  void send(const Message& message, int descriptor = -1);
  /// Waits while there is no room, until the peer reads or is gone.
  void send_surely(const Message& message);
  void say(const std::string& text);
  /// Nothing: there is none now. A descriptor that came along goes to `descriptor`.
  std::optional<Message> receive(Descriptor& descriptor);

 private:
  explicit Link(int socket) : socket_(socket) {}
  /// False: there is no room now.
  bool try_to_send(const Message& message, int descriptor);

  Descriptor socket_;
  bool peer_gone_ = false;
};

}  // namespace zkr
