#pragma once

#include <optional>
#include <string>

#include <zkclient/client.hpp>

#include "tools/zkr/cli/connection_options.hpp"
#include "tools/zkr/hold/control.hpp"
#include "tools/zkr/run/decider.hpp"
#include "tools/zkr/run/guardian_process.hpp"
#include "tools/zkr/run/holder.hpp"

/// What each holder does with its session, whatever it holds by it.
namespace zkr {

inline Instant instant_of(zkclient::BootClock::time_point time) { return Instant(time.time_since_epoch()); }

/// What ends an attempt, but not the wish: the place in the queue is gone.
bool lost_the_place(const zkclient::Error& error);

/// Tells the guardian of the servers, how connections to them are encrypted, and of each session as it comes and goes, so that it can close it. As
/// zkrecipes::Guardian does it, whose helper is of this kind. `guardian` must live as long as the result.
zkclient::Subscription guard_sessions(const zkclient::Client& client, const Connection& connection,
                                      const GuardianProcess& guardian);

/// KILL needs time to work; and what is killed as early as that could not run between two heartbeats. Errors: Failure.
void require_margin(const RunOptions& options, Duration timeout);

/// What "held" is answered: for how many milliseconds the lease is certain. Nothing: it is being given back.
ControlAnswer held_answer(const std::optional<Lease>& lease);

}  // namespace zkr
