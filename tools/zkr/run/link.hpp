#pragma once

#include <deque>
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
  guard,        // From now on, what the page says of the lease.
  started,      // The command, with a descriptor of its process. `number`: whether it is in the front's process group.
  stopped,      // The command, by the signal `number`.
  resumed,      // The command goes on.
  say,          // Print `text`. `number`: so many before it were dropped.
  giving_back,  // Nothing runs any more: `ending`, with what belongs to it, is that of the run.
  ended,        // `ending`. `number`: whether the keeper goes on, until the lease is given back.
};

struct Message {
  Word word = Word::say;
  int number = 0;
  Ending ending{};
  Cause cause = Cause::none;    // Of `ending`.
  bool command_killed = false;  // Of `ending`: it could not clean up.
  char text[1000] = {};         // Of `say`; with `ended`: who holds what was not acquired.
};

/// One end of the line between front and keeper.
class Link {
 public:
  static std::pair<Link, Link> pair();

  int get() const { return socket_.get(); }
  void close() { socket_.close(); }
  bool peer_gone() const { return peer_gone_; }
  /// Does not block: what a peer that is stopped has no room for is kept, until catch_up() or the next call sends it.
  /// Of an earlier run it is dropped when `guard` is sent.
  void send(const Message& message, int descriptor = -1);
  /// Something is kept: catch_up() sends it when get() can be written to.
  bool is_behind() const { return !kept_.empty(); }
  void catch_up();
  /// Waits while there is no room, until the peer reads or is gone.
  void send_surely(const Message& message);
  /// Does not block: a line for which there is no room is dropped, and counted.
  void say(const std::string& text);
  /// Nothing: there is none now. A descriptor that came along goes to `descriptor`.
  std::optional<Message> receive(Descriptor& descriptor);

 private:
  explicit Link(int socket) : socket_(socket) {}
  /// False: there is no room now.
  bool try_to_send(const Message& message, int descriptor);

  struct Kept {
    Message message;
    Descriptor descriptor;
  };

  Descriptor socket_;
  std::deque<Kept> kept_;
  int dropped_ = 0;  // Lines.
  bool peer_gone_ = false;
};

}  // namespace zkr
