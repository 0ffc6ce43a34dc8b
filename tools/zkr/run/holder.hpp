#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/zkr/run/instant.hpp"

namespace zkr {

enum class LeaseState {
  waiting,  // In the queue.
  held,     // Granted and proven.
  lost,     // Another client may hold it.
  failed,   // It was not acquired, and will not be.
  gone,     // Nothing of ours is left in the queue: after release().
};

/// What is known of the lease at one moment.
struct Lease {
  LeaseState state = LeaseState::waiting;
  Duration timeout{};     // T, of the session, as the server granted it.
  Instant granted_at{};   // From when --max-hold counts.
  Instant proven_at{};    // S_w: when the newest acknowledged proof was sent.
  Instant valid_until{};  // X: another client holds it no earlier. It may move forward, never back.
  std::uint64_t token = 0;
  bool revoke_asked = false;
  Instant alive_at{};  // When the command said last that it is alive.
  int failure = 0;     // Of `failed`: the exit code that says why.
};

/// How a process ended: with a code, or of a signal.
struct Ending {
  int code = 0;
  int signal = 0;
  friend bool operator==(const Ending&, const Ending&) = default;
};

/// The seam between the process tree and ZooKeeper. The keeper makes one after it was forked, and calls it on its main
/// thread alone, so an implementation may have threads of its own.
class Holder {
 public:
  Holder() = default;
  Holder(const Holder&) = delete;
  Holder& operator=(const Holder&) = delete;
  virtual ~Holder() = default;

  /// A descriptor that is readable when look() would say something new. It stays the same.
  virtual int news() const = 0;
  /// The lease as it is now. What news() announced is taken thereby. Does not block.
  virtual Lease look() = 0;
  /// What the user is to be told, each line once.
  virtual std::vector<std::string> take_messages() { return {}; }
  /// Of a lease that was not acquired: who holds it, as a JSON object. "": nobody does, or it is not known.
  virtual std::string holder_in_the_way() const { return ""; }
  /// What the command's environment gets, when the lease is held: "NAME=value" replaces, "NAME" removes.
  virtual std::vector<std::string> environment() const = 0;
  /// What the command finds on its standard input, when the lease is held. Nothing: what our caller gave us.
  virtual std::optional<std::string> input() const { return std::nullopt; }
  /// The command runs.
  virtual void command_started() {}
  /// Begins to give the lease back, or to leave the queue; `gone` says that it is done. Called once. Does not block.
  /// `ending`: of a command that has ended by itself while the lease was held, and of which nothing is left, unless it
  /// may leave something. Nothing: it did not run, or we have ended it.
  virtual void release(const std::optional<Ending>& ending) = 0;
};

}  // namespace zkr
