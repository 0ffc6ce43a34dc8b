#pragma once

namespace zkr {

/// What `zkr` ends with, apart from the exit codes of the commands that it runs. The numbers are those of <sysexits.h>,
/// and a few behind them.
enum ExitCode : int {
  exit_success = 0,
  exit_usage = 64,          // The words of the call make no sense.
  exit_format = 65,         // What was read has another form.
  exit_no_node = 66,        // There is no such node.
  exit_no_server = 69,      // No server answers.
  exit_bug = 70,            // It should not have happened.
  exit_system = 71,         // A system call failed.
  exit_exists = 73,         // The node exists, or has another version.
  exit_in_doubt = 74,       // The change may have been made or not.
  exit_not_acquired = 75,   // Others hold it.
  exit_refused = 77,        // The server refuses access.
  exit_configuration = 78,  // The configuration is missing or wrong.
  exit_lost = 79,           // The lease was lost while the command ran.
  exit_revoked = 80,        // Another client asked for the lease.
  exit_held_too_long = 81,  // --max-hold was over.
  exit_not_runnable = 126,  // The command is there, and cannot be run.
  exit_no_command = 127,    // The command is not there.
};

}  // namespace zkr
