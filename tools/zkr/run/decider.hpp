#pragma once

#include <optional>

#include "tools/zkr/run/holder.hpp"
#include "tools/zkr/run/instant.hpp"

namespace zkr {

enum class OnDoubt { term, freeze };
enum class Descendants { kill, wait, leave };

struct RunOptions {
  std::optional<Duration> grace{};        // From TERM to KILL. Without: T/4; 1 s with OnDoubt::freeze.
  std::optional<Duration> kill_margin{};  // From KILL to the end of the lease. Without: 250 ms or T/40.
  std::optional<Duration> max_hold{};
  std::optional<Duration> watchdog{};  // For so long the command need not say that it is alive.
  OnDoubt on_doubt = OnDoubt::term;
  Descendants descendants = Descendants::kill;
  /// A release that takes long waits for others. So does the front, if no signal came and servers answer.
  bool ends_together = false;
  int on_revoke = 15;  // SIGTERM: the whole tree. Another signal: the command alone. 0: nothing is done.
  int lost_exit_code = 79;
  int dead_keeper_code = 71;  // The exit code if the keeper is killed while nothing runs.
  /// We end as the command has ended. Else it is run again, whatever its end says.
  bool ends_with_command = true;
  /// What tells us to end reaches the command no earlier than that; it may end its work. Without: at once.
  std::optional<Duration> drain{};
  Duration release_patience = std::chrono::seconds(5);  // How long to wait for servers when the command has ended.
};

// ---- When --------------------------------------------------------------------------------------------------------

/// What the lease may lie beyond its last proof, the margin of the lease clock included.
Instant valid_until(Instant proven_at, Duration timeout, bool first_third_after_grant);
/// k: the time that KILL is given to take effect.
Duration kill_margin(Duration timeout, const RunOptions& options);
/// The most that makes sense of it: with more, a command that is new would be killed between two heartbeats.
Duration longest_kill_margin(Duration timeout);
/// The least: what a machine may be late at the killing.
constexpr Duration least_kill_margin = std::chrono::milliseconds(50);
/// g: the time that TERM is given to take effect.
Duration grace(Duration timeout, const RunOptions& options);

struct Deadlines {
  Instant term_at;  // The lease is in doubt from here on.
  Instant kill_at;
};
/// Of a lease that is held.
Deadlines deadlines(const Lease& lease, const RunOptions& options);
/// When the front kills, should the keeper not have done so.
Instant front_kills_at(Instant valid_until, Duration timeout, const RunOptions& options);

// ---- What --------------------------------------------------------------------------------------------------------

enum class Child { none, running, ended };

/// Why all comes to an end.
enum class Cause { none, command_ended, lost, revoked, held_too_long, hung, stopped, front_gone, not_acquired };

struct Facts {
  Instant now;
  Lease lease;
  Child child = Child::none;
  Ending child_ending;       // Of Child::ended.
  bool tree_empty = true;    // Nothing that the command started is left, nor the command.
  bool front_gone = false;   // Nobody waits for the exit code any more.
  bool told_to_end = false;  // By a signal, whether the command was told it or not.
  int stop_signal = 0;  // That the command was not told: it has not started yet, or has ended, or may end its work.
  std::optional<Instant> drained_at{};  // When such a command has had its time.
};

/// What was done so far.
struct Past {
  bool started = false;
  Instant runs_since{};  // When the command was started, or let go on.
  Cause cause = Cause::none;
  std::optional<Instant> term_sent{};
  int kills = 0;
  bool frozen = false;
  std::optional<Instant> released{};
  std::optional<Instant> front_told{};
};

enum class Act {
  wait,
  run,      // Start the command.
  term,     // Send `signal`: TERM to the whole tree, another one to the command alone.
  kill,     // Kill the whole tree.
  freeze,   // Stop the whole tree,
  thaw,     // and let it go on.
  release,  // Give the lease back.
  exit,     // Let the front exit as `ending` says.
  quit,     // End the keeper.
};

struct Decision {
  Act act = Act::wait;
  Cause cause = Cause::none;
  std::optional<Instant> look_at{};  // Look again then, if nothing happens before.
  int signal = 0;
  Ending ending{};
};

/// What the keeper does now. After an act without `look_at` it asks again at once, with what after() says of the past.
Decision decide(const Facts& facts, const Past& past, const RunOptions& options);
Past after(const Past& past, const Facts& facts, const Decision& decision);

}  // namespace zkr
