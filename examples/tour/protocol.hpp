#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace tour {

// The same clock in all processes of a machine (Linux), so that their times can be compared.
using Clock = std::chrono::steady_clock;

/// What a worker tells the director: one line of text each, on its standard output.
enum class EventKind {
  joined,    ///< It has a session; number = the session timeout that was granted, in ms.
  leads,     ///< It won the election; token = the term.
  deposed,   ///< It noticed that its leadership is lost.
  resigned,  ///< It gives its leadership up.
  queues,    ///< It queues for the lock.
  holds,     ///< It has the lock; token = the fencing token. All that follows carries it as well.
  dwells,    ///< It has checked its lease, and waits for the word to write (Command::dwell).
  wrote,     ///< The store took its entry; number = the entry.
  refused,   ///< The store refused its entry; number = the highest token that the store has seen.
  releases,  ///< It gives the lock back (said before, so that the next holder is heard of later).
  released,  ///< Its node is gone.
  lost,      ///< It noticed that its lease is lost.
  rests,     ///< It takes no turns until it is told to.
  left,      ///< It has closed its session and is about to exit.
  retries,   ///< Something went wrong which it gets over; text = what.
  fails,     ///< Something went wrong for good; text = what.
};

struct Event {
  EventKind kind = EventKind::fails;
  std::int64_t token = 0;
  std::int64_t number = 0;
  std::string text = {};
  Clock::time_point at = Clock::now();
};

/// "<ns> <kind> <token> <number> <text>\n", short enough for one write to a pipe to be atomic.
std::string to_line(const Event& event);
/// Nothing if `line` (without the newline) is not an event.
std::optional<Event> parse_event(std::string_view line);

/// What the director tells a worker: one word per line, on its standard input.
enum class Command {
  work,   ///< Take turns under the lock.
  rest,   ///< Finish the turn, then take no more.
  dwell,  ///< In the next turn, check the lease, and then wait for `write` before writing.
  write,  ///< Write now, without looking again.
  leave,  ///< Give everything back, close the session and exit.
};

std::string to_line(Command command);
std::optional<Command> parse_command(std::string_view line);

/// Splits a stream of bytes into lines.
class LineBuffer {
 public:
  void append(std::string_view bytes) { text_ += bytes; }
  /// The next complete line, without its newline.
  std::optional<std::string> next();

 private:
  std::string text_;
};

}  // namespace tour
