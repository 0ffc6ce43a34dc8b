#pragma once

#include <signal.h>
#include <termios.h>

#include <array>
#include <optional>
#include <vector>

#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// What our caller gave us, and what the command gets as if it had been called instead.
class Caller {
 public:
  /// Looks, then blocks all signals, and has children told of. To be made before anything else is opened.
  Caller();

  bool ignores(int signal) const { return ignored_[static_cast<std::size_t>(signal)]; }
  /// Our process group is the one that the terminal obeys.
  bool in_foreground() const;
  /// As the terminal was, if we may change it now.
  void restore_terminal() const;

  /// The descriptors that we were called with are let go, so nobody waits for their end because of us. Standard error
  /// stays open if `keep_errors`.
  void let_go_descriptors(bool keep_errors);
  /// In the command: signals as they were. Async-signal-safe.
  void restore_dispositions() const;
  void restore_mask() const;

 private:
  std::vector<int> descriptors_;
  sigset_t mask_{};
  std::array<bool, NSIG> ignored_{};
  Descriptor terminal_;
  std::optional<termios> terminal_state_;
};

}  // namespace zkr
