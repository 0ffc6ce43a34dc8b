#pragma once

#include <chrono>
#include <cstdint>
#include <string_view>

#include <zkclient/export.hpp>
#include <zktesting/error.hpp>

namespace zktesting {

/// Makes the server end a session at once, as if its time were up: takes the session over with its
/// id and password and closes it. When this returns, its ephemeral nodes are gone.
///
/// `connect_string` is one or more "host:port", tried in turn. Give the server to which the
/// session's owner is connected if you can choose: it drops the owner's connection at once, and the
/// owner learns "session expired" as soon as it has reconnected (a few milliseconds). Of another
/// server of an ensemble, the owner's server hears with the next commit, and drops the connection
/// then. The owner fights back, since it reconnects with the same id; this is repeated until it has
/// lost.
///
/// Throws `Error`: the password is not 16 bytes, no server answers, there is no such session (never
/// was, already over, or wrong password), or `timeout` passes; then the session may be alive.
/// Blocks for a few milliseconds. Thread-safe.
ZKRECIPES_API void expire(std::string_view connect_string, std::int64_t session_id, std::string_view password,
                          std::chrono::milliseconds timeout = std::chrono::seconds(30));

}  // namespace zktesting
