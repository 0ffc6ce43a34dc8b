#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/layout.hpp>
#include <zkrecipes/lease.hpp>

namespace zkrecipes {

/// The leader as others see it.
struct Leader {
  std::string id;     ///< What the candidate called itself.
  std::string node;   ///< Name of its node.
  FencingToken term;  ///< Grows from leader to leader.
  std::int64_t session_id = 0;
  bool ready = false;                ///< It said that it has taken over; being first does not mean that it knows.
  std::optional<std::string> value;  ///< What it proclaimed last.

  friend bool operator==(const Leader&, const Leader&) = default;
};

/// A Lease on the leadership. See Lease for loss, fencing and release (= resign).
class [[nodiscard]] Leadership : public Lease {
 public:
  using Lease::Lease;

  /// Publishes `value`, which candidates and observers see together with this term. One transaction with a check
  /// that this leadership still stands. Blocks for a round trip; not to be called from two threads at once.
  /// Errors: not_held, too_large (about 1 MB), in_doubt (no reply, also when cancelled; the next publication repeats
  /// it), deadline_exceeded, cancelled, closed.
  void proclaim(std::string_view value, const zkclient::CallOptions& call = {});
  /// Publishes that this leader has taken over. Idempotent. Otherwise as proclaim().
  void ready(const zkclient::CallOptions& call = {});

 private:
  void publish(const char* operation, std::optional<std::string> value, bool ready, const zkclient::CallOptions& call);
  std::optional<std::string> value_;
  bool ready_ = false;
};

struct LeaderElectionOptions {
  Layout layout = Layout::curator();
  zkclient::AclList acl = zkclient::open_acl();  ///< For every node that the recipe creates.
  std::string id = {};                           ///< This candidate's name; default "host:pid".
};

/// A fair election: whoever campaigned first leads first. Each candidate watches only the one before it.
/// Source: "Leader Election" in ZooKeeper's recipes; node names as in Apache Curator's LeaderLatch.
///
///   path (container)   data: term of the leader, "ready", what it proclaimed
///    |-- _c_<uuid>-latch-0000000003   ephemeral, data: the candidate's id; the leader
///    '-- _c_<uuid>-latch-0000000004   watches ...03 only
///
/// Invariant: the leader is the candidate with the lowest sequence number among the nodes that exist.
///
/// Guaranteed: at most one Leadership is valid() at any time, as told by its own clock, and lost() fires before the next
/// candidate can lead, unless nodes are deleted by hand; terms grow. Not guaranteed: that a paused leader stops in time
/// (use token() or guard()).
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
///
/// A path belongs to one election: its data is overwritten, and other recipes' nodes there are ignored, or taken for
/// candidates.
///
/// Thread safety: all members. The object keeps its client open; a Leadership does not.
class LeaderElection {
 public:
  /// No I/O. Errors: invalid_acl (the list is empty).
  LeaderElection(zkclient::Client client, zkclient::Path path, LeaderElectionOptions options = {});
  /// Ends neither campaigns nor leaderships: see resign().
  ~LeaderElection();
  LeaderElection(LeaderElection&&) noexcept;
  LeaderElection& operator=(LeaderElection&&) noexcept;

  /// Waits until this candidate leads, for ever unless `call` has a deadline or a stop token. Errors: see the table, and
  /// those common to all operations of Client; cancelled also after resign().
  Leadership campaign(const zkclient::CallOptions& call = {});
  /// The same; `handler` is called exactly once, on the callback executor.
  void async_campaign(zkclient::Handler<Leadership> handler, const zkclient::CallOptions& call = {});
  /// Ends the campaigns of this object (they throw cancelled) and gives up the leaderships that it won; waits until
  /// the nodes of the latter are gone. Campaigning again afterwards is fine. Errors: deadline_exceeded (by default the
  /// client's operation_timeout), cancelled; the leaderships are given up all the same.
  void resign(const zkclient::CallOptions& call = {});

  /// Who leads now; nullopt when nobody does. Blocks for a few round trips. Errors: those common to all operations of
  /// Client.
  std::optional<Leader> leader(const zkclient::CallOptions& call = {}) const;
  /// All candidates, the leader first. Blocking and errors as leader().
  std::vector<Contender> candidates(const zkclient::CallOptions& call = {}) const;

  /// Called with the present leader (or nullopt), and then whenever the leader, its readiness or what it proclaimed
  /// changes; in order, on the callback executor. Survives reconnection and loss of the session. Changes that follow
  /// each other faster than they can be read are seen as one; errors of reading are tried again every half second.
  /// Errors: invalid_argument (no listener).
  zkclient::Subscription observe(zkclient::UniqueFunction<void(const std::optional<Leader>&)> listener) const;

  const std::string& id() const noexcept;
  const zkclient::Path& path() const noexcept;

 private:
  struct State;
  std::shared_ptr<State> state_;
};

}  // namespace zkrecipes
