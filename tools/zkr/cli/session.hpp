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

}  // namespace zkr
