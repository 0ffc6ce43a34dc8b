#pragma once

#include <string>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/election.hpp>
#include <zkrecipes/layout.hpp>

namespace zkrecipes {

struct LeaderElectionOptions {
  Layout layout = Layout::curator();
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< This candidate's name; default "host:pid".
};

/// A fair election: the first candidate to campaign leads first. Each candidate watches only the one before it.
/// Source: "Leader Election" in ZooKeeper's recipes; node names as in Apache Curator's LeaderLatch, with which it can
/// share a path.
///
///   path (container)   data: term of the leader, "ready", what it proclaimed
///    |-- _c_<uuid>-latch-0000000003   ephemeral, data: the candidate's id; the leader
///    '-- _c_<uuid>-latch-0000000004   watches ...03 only
///
/// Invariant: the leader is the candidate with the lowest sequence number among the nodes that exist.
///
/// Guaranteed: at most one Leadership is valid() at any time, as told by its own clock, and lost() fires before the
/// next candidate can lead, unless nodes are deleted by hand; terms grow. Not guaranteed: that a paused leader stops in
/// time (use token() or guard()).
///
/// What goes wrong                              What the caller sees
/// -------------------------------------------  ------------------------------------------------------------------
/// create: request or reply lost                nothing: the node is found by its id, or created again
/// parent missing or removed                    nothing: created again
/// connection breaks while campaigning          nothing: the place is kept
/// a read lost too often (RetryPolicy)          campaign throws connection_loss; the node is removed in the background
/// session lost while campaigning               nothing: a candidate again, at the end, with the new session
/// own node deleted by hand while campaigning   nothing: a candidate again, at the end
/// session lost while leading                   Leadership::lost() fires, state() is lost; campaign again
/// own node deleted by hand while leading       Leadership::lost() fires as soon as that is seen; campaign again
/// connection breaks while leading              state() is uncertain, then held again, or lost at valid_until()
/// resign: request or reply lost                nothing: the deletion is repeated until the node is gone
/// deadline, stop request while campaigning     deadline_exceeded, cancelled; the node is removed in the background
/// client closed                                campaign throws closed; leaderships are lost; the nodes vanish
/// foreign child in the directory               ignored
/// connection breaks, session lost, election's  observers and waiters for a leader: nothing, they go on
///   node removed while observing
///
/// A path belongs to one election: its data is overwritten, and other recipes' nodes there are ignored, or taken for
/// candidates.
class ZKRECIPES_API LeaderElection : public Election {
 public:
  /// No I/O. Errors: invalid_acl (see acl_defect()).
  LeaderElection(zkclient::Client client, zkclient::Path path, LeaderElectionOptions options = {});
};

}  // namespace zkrecipes
