#pragma once

#include <memory>
#include <string>
#include <string_view>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

namespace zkrecipes {

struct GuardianOptions {
  /// The helper program: a path, or a name that is looked for in $PATH. Empty: $ZKRECIPES_GUARDIAN if that is set (and
  /// this program does not run with another user's rights), else "zkrecipes-guardian".
  std::string helper = {};
};

/// A small process that outlives this one by a moment, to close its session: after a crash or a kill -9 whatever the
/// session held (leaderships, locks, waiting places) is free within milliseconds and not only after the session
/// timeout.
///
///   this process ==== socket ==== zkrecipes-guardian
///     tells the session's id and password           waits; when the socket breaks without a farewell:
///     tells when they are no longer valid           resumes the session at a server and closes it, then ends
///
/// Covers: every end of this process that leaves its machine running: kill -9, a crash, out of memory, exec of another
/// program. Does not cover: loss of the machine, partitions, a process that hangs or is stopped (see LeaderSelector's
/// watchdog), a supervisor that kills the helper along with it (all of a control group), a child made with fork() and
/// without exec(), which keeps the socket open, or the moment from the begin of a session until the callback executor
/// has told the helper of it. Nothing gets worse then: the session ends with its timeout. Must not be used for a
/// session that another process is going to take over (Session::credentials()): it would be closed.
///
/// Where the client's connections are encrypted (ClientOptions::tls), the helper's is as well, with the same files, which it
/// reads when it connects. It takes a zkrecipes-guardian that was built with TLS.
///
/// The helper holds the session's password in its memory, as this process does; it gets it through the socket, never in
/// its arguments or environment. It contacts no server before this process is gone: a second connection would take the
/// session away from the first. It ends with the client, with this object, or as soon as it has done its work.
///
/// What goes wrong                 What happens
/// ------------------------------  ----------------------------------------------------------------------------------
/// helper not found, not started   the constructor throws system_error
/// helper dies                     nothing: the session ends with its timeout, as without a guardian
/// helper hangs or is stopped      nothing, as above; the destructor ends it all the same
/// session lost                    the helper forgets it, and is told of the next one
/// client closed                   the helper ends
/// no server answers the helper    it tries each of them, again and again, for one session timeout; then it ends
///
/// Thread safety: distinct objects are independent.
class ZKRECIPES_API Guardian {
 public:
  /// Starts the helper; does not wait for it. `servers` is where the helper will close the session: the list that the
  /// client was made with. Errors: system_error, invalid_argument (a malformed list).
  Guardian(const zkclient::Client& client, std::string_view servers, GuardianOptions options = {});
  /// Ends the helper, which leaves the session alone.
  ~Guardian();
  Guardian(const Guardian&) = delete;
  Guardian& operator=(const Guardian&) = delete;

  /// Of the helper.
  int process_id() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zkrecipes
