#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <zkclient/export.hpp>
#include <zkclient/transaction.hpp>

#include <zkrecipes/replica_group.hpp>

/// Who is the primary, and what a member does. Pure functions of what it knows, which may be old: every write carries
/// the version of the state that it rests on.
namespace zkrecipes::detail {

/// The members that may take over, the best one first: alive and in sync, with the storage that the state names. Each
/// of them has every acknowledged write; the higher version only spares copying.
ZKRECIPES_INTERNAL_API std::vector<std::string> choose(const ReplicaState& state,
                                                       std::span<const ReplicaMember> members);

struct ReplicaFacts {
  bool present = false;               ///< Our node is there, with its lease.
  bool founded = false;               ///< There was a state once, as far as we have seen.
  std::optional<ReplicaState> state;  ///< nullopt: there is none.
  std::vector<ReplicaMember> members;
  bool owned = false;                ///< Somebody has the primary's node.
  std::optional<std::int64_t> term;  ///< Of our own lease as the primary: its epoch.
};

enum class ReplicaStep {
  join,         ///< Wait until we are a member.
  found,        ///< There is no state: make the first one.
  give_up,      ///< The state is gone that was there: nobody knows what was acknowledged.
  lead,         ///< We are the primary.
  step_down,    ///< We were: the state has another epoch.
  follow,       ///< In sync.
  catch_up,     ///< Not in sync, there is a primary.
  wait,         ///< Not in sync, and there is no primary, but one can come.
  take_over,    ///< We are chosen: at once.
  stand_by,     ///< Another one is chosen; our turn comes if it does not.
  unavailable,  ///< No member that is in sync is there.
};

struct ReplicaDecision {
  ReplicaStep step = ReplicaStep::join;
  std::size_t rank = 0;  ///< stand_by: how many are before us.

  friend bool operator==(const ReplicaDecision&, const ReplicaDecision&) = default;
};

ZKRECIPES_INTERNAL_API ReplicaDecision decide_replica(const ReplicaMember& self, const ReplicaFacts& facts);

// --- What is written ----------------------------------------------------------------------------------------------

ZKRECIPES_INTERNAL_API ReplicaState first_state(const ReplicaMember& self, std::size_t minimum);
ZKRECIPES_INTERNAL_API ReplicaState taken_over(ReplicaState state, std::string_view id);
/// Without those; nothing happens to ids that are not in sync.
ZKRECIPES_INTERNAL_API ReplicaState shrunk(ReplicaState state, std::span<const std::string> ids);
/// With this one. It replaces another storage of the same id, which thereby is taken out.
ZKRECIPES_INTERNAL_API ReplicaState expanded(ReplicaState state, const InSyncReplica& replica);
/// With this one alone, whatever was acknowledged.
ZKRECIPES_INTERNAL_API ReplicaState forced(ReplicaState state, const ReplicaMember& member);

/// The operations that set the state, if its version is `version`. To a server -1 is any version, so a state never has
/// it: what would get it is set once more in the same transaction. A refusal names the first one.
ZKRECIPES_INTERNAL_API std::vector<zkclient::Transaction::Operation> setting_state(const zkclient::Path& path,
                                                                                   std::string_view data,
                                                                                   std::int32_t version);
/// The version that it has afterwards. After the highest one comes the lowest.
ZKRECIPES_INTERNAL_API std::int32_t state_version_after(std::int32_t version) noexcept;

/// Whose copies the primary of an epoch waits for. While the state changes, and until the read leases of those that
/// were taken out have ended, that is who was in sync before or is afterwards.
class ZKRECIPES_INTERNAL_API ReplicaTerm {
 public:
  ReplicaTerm() = default;
  explicit ReplicaTerm(ReplicaState state) : state_(std::move(state)), counted_(state_.in_sync) {}

  /// As committed.
  const ReplicaState& state() const noexcept { return state_; }
  const std::vector<InSyncReplica>& counted() const noexcept { return counted_; }

  /// Before `next` is sent.
  void sending(const ReplicaState& next);
  /// It is committed; those that it leaves out still count.
  void committed(ReplicaState next) { state_ = std::move(next); }
  /// No member that is left out serves reads any more. Also: what was sent will not be committed.
  void settle() { counted_ = state_.in_sync; }
  /// The same, and the next change of the state says so.
  void forget_leaving() { state_.leaving = {}; }

 private:
  ReplicaState state_;
  std::vector<InSyncReplica> counted_;
};

}  // namespace zkrecipes::detail
