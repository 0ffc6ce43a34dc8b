#pragma once

#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/election.hpp>

namespace zkrecipes {

struct UnfairLeaderElectionOptions {
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< This candidate's name; default "host:pid".
};

/// An election in which the quickest candidate leads: one ephemeral node, which every candidate watches. Least latency
/// with a few candidates, since no candidate has to be next; with many, each takeover wakes them all, for one of them
/// to win. Use LeaderElection unless you have measured that this one suits you better.
/// Source: the simple election in the ZooKeeper literature; as a lock it is UnfairMutex. No counterpart in Curator.
///
///   path (container)          data: term of the leader, "ready", what it proclaimed
///    |-- leader               ephemeral, data: the leader's id; every candidate watches it
///    '-- _c_<uuid>-leader     ephemeral, made and deleted together with it: this leadership's alone
///
/// Invariant: the leader is the creator of the node `leader` that exists.
///
/// Guaranteed: as for LeaderElection. Not guaranteed, besides: any order; that a candidate that waits will ever lead.
///
/// What goes wrong                              What the caller sees
/// -------------------------------------------  ------------------------------------------------------------------
/// create: request or reply lost                nothing: the unique node tells whether it happened
/// parent missing or removed                    nothing: created again
/// connection breaks while campaigning          nothing
/// a read lost too often (RetryPolicy)          campaign throws connection_loss; nothing of it stays behind
/// session lost while campaigning               nothing: goes on with the new session
/// session lost while leading                   Leadership::lost() fires, state() is lost; campaign again
/// own node deleted by hand while leading       Leadership::lost() fires as soon as that is seen; campaign again
/// connection breaks while leading              state() is uncertain, then held again, or lost at valid_until()
/// resign: request or reply lost                nothing: the deletion is repeated until the nodes are gone
/// deadline, stop request while campaigning     deadline_exceeded, cancelled; nothing stays behind
/// client closed                                campaign throws closed; leaderships are lost; the nodes vanish
/// foreign child in the directory               ignored, unless it is named `leader`: that is waited for
/// connection breaks, session lost, election's  observers and waiters for a leader: nothing, they go on
///   node removed while observing
///
/// candidates() sees the leader only: waiting candidates have no node.
///
/// A path belongs to one election: its data is overwritten.
class ZKRECIPES_API UnfairLeaderElection : public Election {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()).
  UnfairLeaderElection(zkclient::Client client, zkclient::Path path, UnfairLeaderElectionOptions options = {});
};

}  // namespace zkrecipes
