#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "tools/zkr/run/cgroup.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// A process that outlives front and keeper by a moment, if both are killed: it kills what the command has started,
/// and closes the session then. Front and keeper keep one end of a socket; at its end both are gone. No signal but KILL
/// ends it.
class GuardianProcess {
 public:
  /// Forks it, and tells it of the mark ("NAME=word", see mark_entry()) and the control group of what it is to kill. This
  /// process must have one thread. `claim`, a descriptor, is kept open until nothing of that runs any more; -1: none is.
  /// Nothing: it cannot be forked, and the lease ends with its session.
  static std::optional<GuardianProcess> start(const std::string& mark, const std::optional<Cgroup>& cgroup,
                                              int claim = -1);

  pid_t number() const { return number_; }
  /// The command's limit of file locks, which Linux has not heeded for decades. All that it starts inherits it, also
  /// without an environment; no other run has the same.
  std::uint64_t limit() const { return limit_; }
  /// A line of tools/guardian/orders.hpp. Does not block.
  void tell(const std::string& line) const;
  /// Of this process's child, when there is nothing left for it to do. It is gone then, and its claim with it.
  void end() const;

 private:
  GuardianProcess(pid_t number, std::uint64_t limit, Descriptor socket)
      : number_(number), limit_(limit), socket_(std::move(socket)) {}

  pid_t number_;
  std::uint64_t limit_;
  Descriptor socket_;
};

/// What the environment of the command gets for that mark. Runs within runs carry the marks of all: if processes of an outer
/// one are killed, an inner one that has no guardian any more must be found as well.
std::string mark_entry(const std::string& mark);

}  // namespace zkr
