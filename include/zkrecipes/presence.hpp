#pragma once

#include <zkclient/export.hpp>

/// What members of a group, registrations of services and persistent nodes have in common: a node that exists for as long
/// as its owner wants.
namespace zkrecipes {

/// How a member, a registration or a persistent node fares.
enum class PresenceState {
  joining,  ///< On its way; nothing stands in the way so far.
  present,  ///< Its node exists, with the data that its owner wants, and was created by the present session, or needs none.
  absent,  ///< It is not there, or not for sure: the session was lost, or problem() says why. It goes on trying.
  left,    ///< It was taken away, or the client was closed. Final.
};

ZKRECIPES_API const char* to_string(PresenceState state) noexcept;

/// What happens when the node is there already and has another owner.
enum class Conflict {
  wait,     ///< Until that one is gone: a process that was restarted waits for the end of its former session.
  replace,  ///< That node is removed: the last one to come has the name. A member that was there before waits.
};

}  // namespace zkrecipes
