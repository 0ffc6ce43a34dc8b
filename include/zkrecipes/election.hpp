#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/client.hpp>
#include <zkclient/export.hpp>

#include <zkrecipes/contender.hpp>
#include <zkrecipes/lease.hpp>

/// The operations that all elections share. The elections themselves: leader_election.hpp (fair),
/// unfair_leader_election.hpp, and leader_selector.hpp, which runs a task.
namespace zkrecipes {

namespace detail {
class ElectionCore;
struct Publication;
}  // namespace detail

/// The leader as others see it.
struct Leader {
  std::string id;                    ///< The name that the candidate gave itself.
  std::string node;                  ///< Name of its node.
  FencingToken term;                 ///< Grows from leader to leader.
  std::int64_t session_id = 0;       ///< The session that its node lives with.
  bool ready = false;                ///< It said that it has taken over; being first does not mean that it knows.
  std::optional<std::string> value;  ///< The text that it proclaimed last.

  friend bool operator==(const Leader&, const Leader&) = default;
};

/// Which leader to wait for.
struct LeaderCondition {
  bool ready = true;  ///< Only one that has said ready(). (Those of other libraries never do.)
  /// Only one of a later term, e.g. than that of a leader that does not answer any more. The value counts, not the
  /// epoch, which is the program's own: no leader's term has one. After the ensemble lost its data, begin with {}.
  FencingToken after = {};
};

/// A Lease on the leadership. See Lease for loss, fencing and release (= resign).
class ZKRECIPES_API [[nodiscard]] Leadership : public Lease {
 public:
  /// An empty leadership.
  Leadership() noexcept = default;
  explicit Leadership(Lease lease);  ///< For elections.

  /// Publishes `value`, which candidates and observers see together with this term. One transaction with a check
  /// that this leadership still stands. Blocks for a round trip. Errors: not_held, too_large (about 1 MB), in_doubt (no
  /// reply, also when cancelled; the next publication repeats it), would_deadlock (another publication of this
  /// leadership is under way), deadline_exceeded, cancelled, closed.
  void proclaim(std::string_view value, const zkclient::CallOptions& call = {});
  /// Publishes that this leader has taken over. Idempotent. Otherwise as proclaim().
  void ready(const zkclient::CallOptions& call = {});
  /// The same; `handler` is called exactly once, on the callback executor. The object may be moved meanwhile.
  void async_proclaim(std::string_view value, zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});
  void async_ready(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

 private:
  std::shared_ptr<detail::Publication> publication_;  // The last publication.
};

/// One candidate in an election, and a view of the election. Made by the classes derived from it, which say how the
/// leader is found.
///
/// Thread safety: all members. The object keeps its client open; a Leadership does not. A moved-from object may only be
/// destroyed or assigned to. After an outage that cost sessions, a campaign waits for the end of those that had a
/// candidate, its own included: the client of each closes it as soon as it is connected again.
class ZKRECIPES_API Election {
 public:
  /// Waits until this candidate leads, for ever unless `call` has a deadline or a stop token; also for the server to
  /// come up. Errors: see the table of the derived class, and those common to all operations of Client; cancelled also
  /// after resign().
  Leadership campaign(const zkclient::CallOptions& call = {});
  /// The same; `handler` is called exactly once, on the callback executor.
  void async_campaign(zkclient::Handler<Leadership> handler, const zkclient::CallOptions& call = {});
  /// Ends the campaigns of this object (they throw cancelled) and gives up the leaderships that it won; waits until
  /// the nodes of the latter are gone. Campaigning again afterwards is fine. Errors: deadline_exceeded (by default the
  /// client's operation_timeout), cancelled; the leaderships are given up all the same.
  void resign(const zkclient::CallOptions& call = {});
  void async_resign(zkclient::Handler<void> handler, const zkclient::CallOptions& call = {});

  /// The leader, nullopt when there is none; as it was at the call, as far as Client::sync() goes. Blocks for a few
  /// round trips. Errors: those common to all operations of Client.
  std::optional<Leader> leader(const zkclient::CallOptions& call = {}) const;
  void async_leader(zkclient::Handler<std::optional<Leader>> handler, const zkclient::CallOptions& call = {}) const;
  /// The candidates that can be seen, the leader first. Blocking and errors as leader().
  std::vector<Contender> candidates(const zkclient::CallOptions& call = {}) const;
  void async_candidates(zkclient::Handler<std::vector<Contender>> handler,
                        const zkclient::CallOptions& call = {}) const;

  /// Waits for a leader that fulfils `condition`, and returns it; for ever unless `call` has a deadline or a stop
  /// token. Survives broken connections and lost sessions. Errors: deadline_exceeded, cancelled, closed, with the leader
  /// that was seen last, and what the server refuses (no_auth).
  Leader wait_for_leader(const LeaderCondition& condition = {}, const zkclient::CallOptions& call = {}) const;
  /// The same; `handler` is called exactly once, on the callback executor.
  void async_wait_for_leader(const LeaderCondition& condition, zkclient::Handler<Leader> handler,
                             const zkclient::CallOptions& call = {}) const;

  /// Waits until the leader, its readiness or what it proclaimed differs from `known`, and returns what is to be seen
  /// then: observe() for coroutines, one change a call. Otherwise as wait_for_leader().
  std::optional<Leader> wait_for_change(const std::optional<Leader>& known,
                                        const zkclient::CallOptions& call = {}) const;
  void async_wait_for_change(const std::optional<Leader>& known, zkclient::Handler<std::optional<Leader>> handler,
                             const zkclient::CallOptions& call = {}) const;

  /// Called with the present leader (or nullopt), and then whenever the leader, its readiness or what it proclaimed
  /// changes; on the callback executor, one call at a time. In order: terms never go back (unless the ensemble lost its
  /// data), a slow listener gets all that was seen. Survives reconnection, the loss of the session and the removal of
  /// the election's node. What changes and changes again faster than it can be read is seen as one change: the last
  /// state always comes, a leader of a millisecond may not. Errors of reading are tried again every half second.
  /// Errors: invalid_argument (no listener).
  zkclient::Subscription observe(zkclient::UniqueFunction<void(const std::optional<Leader>&)> listener) const;

  const std::string& id() const noexcept;
  const zkclient::Path& path() const noexcept;

 protected:
  explicit Election(std::shared_ptr<detail::ElectionCore> core) noexcept;
  /// Ends neither campaigns nor leaderships: see resign().
  ~Election();
  Election(Election&&) noexcept;
  Election& operator=(Election&&) noexcept;

 private:
  std::shared_ptr<detail::ElectionCore> core_;
};

}  // namespace zkrecipes
