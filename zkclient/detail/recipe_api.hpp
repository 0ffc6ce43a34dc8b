#pragma once

// The floor that recipes stand on. They include this, the public headers, and nothing else of the client. Everything
// here lives on the loop thread unless it says otherwise.
//
//   From a call to its coroutine   CallForm: a blocking call, or one with a handler, becomes a coroutine on the loop, with its
//                                  deadline, its stop tokens and its share of the client's limits.
//   Coroutines                     Awaitable<T>; spawn() starts one that is not awaited; Signal and CancelScope wake them.
//   Requests                       make_request(); ClientCore::launch() sends at once and is awaited later, perform() does
//                                  both, launch_watching() arms a watch. Call: deadline, cancellation, the session it is
//                                  bound to. Reply: what came back; unanswered() is a write whose reply was lost,
//                                  refusal() says which operation of a transaction failed. fresh(), fresh_by_quorum(): read
//                                  what the leader, or a majority, has; is_behind() of a sync and reads of one's own.
//   Writes that resolve doubt      create_marked(), ensure(), set_resolving(); remove_until_gone() and
//                                  delete_in_background() delete for as long as the session lives.
//   Sessions                       SessionState: its identity, its state, whom to tell; LeaseKeeper: heartbeats and the lease
//                                  clock, on which every grant rests.

#include "zkclient/detail/calls/calls.hpp"
#include "zkclient/detail/calls/deletes.hpp"
#include "zkclient/detail/calls/fresh.hpp"
#include "zkclient/detail/calls/operations.hpp"
#include "zkclient/detail/log.hpp"
#include "zkclient/detail/process.hpp"
#include "zkclient/detail/requests/paths.hpp"
#include "zkclient/detail/requests/request.hpp"
#include "zkclient/detail/servers/hosts.hpp"
#include "zkclient/detail/session/core.hpp"
#include "zkclient/detail/session/loop_watch.hpp"
#include "zkclient/detail/uuid.hpp"
