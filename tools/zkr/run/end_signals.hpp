#pragma once

#include <sys/signalfd.h>
#include <sys/types.h>

#include "tools/zkr/run/instant.hpp"

namespace zkr {

/// Of the signals that are passed on: it asks a process to end.
bool tells_to_end(int signal);
/// It stops processes, and a process may do something else.
bool stops(int signal);
/// A process that does not ask for it notices nothing of it.
bool ignored_by_default(int signal);
/// Raised by a write of this process's, to what nobody reads, or beyond a limit. It says nothing to others.
bool is_our_own(const signalfd_siginfo& signal);
/// The signal, which is blocked, acts on this process as it does by default.
void suffer(int signal);

/// The terminal has sent it to each process of this one's group. (A terminal that is hung up sends SIGHUP to the first
/// process of its session alone.)
bool is_for_the_group(const signalfd_siginfo& signal);

/// Counts the signals that tell this process to end, each of them once. It may come twice: to the whole group, and again
/// from the parent, which passes on its own; or first to this process, and then to its group, as timeout(1) does it.
class EndSignals {
 public:
  /// False: it was counted before.
  bool count(const signalfd_siginfo& signal, Instant now);
  /// Counts one of this process's own, which it sends its children: none of those that come is taken for the same one.
  void count_own();
  /// Sends a child the one that was counted last. A child that counts as well knows then how many there were.
  void pass_on(pid_t child, int signal) const;

 private:
  bool is_repeated(const signalfd_siginfo& signal, Instant now) const;

  int counted_ = 0;
  int last_ = 0;
  Instant last_at_{};
};

}  // namespace zkr
