#pragma once

#include <zkclient/client.hpp>

#include "tools/zkr/cli/context.hpp"

namespace zkr {

/// A connected client. Errors: Failure, Error (no server answers within --connect-timeout: it names each with its
/// trouble).
zkclient::Client connect(const Context& context);
/// The same, if `connection` has been read before.
zkclient::Client connect(const Context& context, const Connection& connection);

/// The same, whose next reads see what was acknowledged to any client before.
zkclient::Client connect_to_look(const Context& context);
/// The same, for a recipe's path: many recipes take one that is not there for one where nobody is. Errors: also no_node;
/// it names `command`.
zkclient::Client connect_to_look(const Context& context, const zkclient::Path& path, const char* command);

/// The call's time is over, though a server answers.
bool is_over(const zkclient::Client& client, const zkclient::Error& error);
/// Ends a wait that had a time: Failure (exit_not_acquired) if it is over. Else throws `error`.
[[noreturn]] void fail_wait(const zkclient::Client& client, const zkclient::Error& error);

}  // namespace zkr
