#include "recipes/replication/replica_decider.hpp"

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace zkrecipes {

const InSyncReplica* ReplicaState::find(std::string_view id) const noexcept {
  const auto found = std::find_if(in_sync.begin(), in_sync.end(), [id](const auto& one) { return one.id == id; });
  return found == in_sync.end() ? nullptr : &*found;
}

namespace detail {
namespace {

constexpr std::int32_t version_before_any = zkclient::any_version - 1;

bool in_sync(const ReplicaState& state, const ReplicaMember& member) {
  const InSyncReplica* entry = state.find(member.id);
  return entry != nullptr && entry->storage == member.storage;
}

void insert(std::vector<InSyncReplica>& replicas, const InSyncReplica& replica) {
  const auto place = std::lower_bound(replicas.begin(), replicas.end(), replica,
                                      [](const auto& a, const auto& b) { return a.id < b.id; });
  replicas.insert(place, replica);
}

void take_out(ReplicaState& state, std::string_view id) {
  const InSyncReplica* entry = state.find(id);
  if (entry == nullptr) return;
  state.leaving = std::max(state.leaving, entry->term);
  std::erase_if(state.in_sync, [id](const auto& one) { return one.id == id; });
}

}  // namespace

std::vector<std::string> choose(const ReplicaState& state, std::span<const ReplicaMember> members) {
  std::vector<const ReplicaMember*> able;
  for (const ReplicaMember& member : members) {
    if (in_sync(state, member)) able.push_back(&member);
  }
  std::sort(able.begin(), able.end(),
            [](const auto* a, const auto* b) { return std::tie(b->version, a->id) < std::tie(a->version, b->id); });
  std::vector<std::string> ids;
  for (const ReplicaMember* member : able)
    ids.push_back(member->id);
  return ids;
}

ReplicaDecision decide_replica(const ReplicaMember& self, const ReplicaFacts& facts) {
  if (facts.term) {
    const bool ours =
        facts.state && facts.state->epoch <= *facts.term;  // A view may be older than our own transaction.
    return {ours ? ReplicaStep::lead : ReplicaStep::step_down};
  }
  if (!facts.state) {
    if (facts.founded) return {ReplicaStep::give_up};
    return {facts.present ? ReplicaStep::found : ReplicaStep::join};
  }
  if (!facts.present) return {ReplicaStep::join};
  const bool able = in_sync(*facts.state, self);
  if (facts.owned) {
    // What is left of a former term of our own ends by itself.
    if (facts.state->primary == self.id) return {ReplicaStep::join};
    return {able ? ReplicaStep::follow : ReplicaStep::catch_up};
  }
  const std::vector<std::string> chosen = choose(*facts.state, facts.members);
  if (chosen.empty()) return {ReplicaStep::unavailable};
  const auto place = std::find(chosen.begin(), chosen.end(), self.id);
  if (!able || place == chosen.end()) return {ReplicaStep::wait};
  const auto rank = static_cast<std::size_t>(place - chosen.begin());
  return {rank == 0 ? ReplicaStep::take_over : ReplicaStep::stand_by, rank};
}

ReplicaState first_state(const ReplicaMember& self, std::size_t minimum) {
  ReplicaState state;
  state.minimum = minimum;
  state.in_sync.push_back({self.id, self.storage, self.term});
  return state;
}

ReplicaState taken_over(ReplicaState state, std::string_view id) {
  ++state.epoch;
  state.primary = id;
  return state;
}

ReplicaState shrunk(ReplicaState state, std::span<const std::string> ids) {
  for (const std::string& id : ids)
    take_out(state, id);
  return state;
}

ReplicaState expanded(ReplicaState state, const InSyncReplica& replica) {
  const InSyncReplica* entry = state.find(replica.id);
  if (entry != nullptr && *entry == replica) return state;
  take_out(state, replica.id);
  insert(state.in_sync, replica);
  return state;
}

ReplicaState forced(ReplicaState state, const ReplicaMember& member) {
  while (!state.in_sync.empty())
    take_out(state, std::string(state.in_sync.back().id));
  state.in_sync.push_back({member.id, member.storage, member.term});
  state.primary.clear();
  state.forced = ++state.epoch;
  return state;
}

std::int32_t state_version_after(std::int32_t version) noexcept {
  using Limits = std::numeric_limits<std::int32_t>;
  if (version == Limits::max()) return Limits::min();
  return version == version_before_any ? version_before_any + 2 : version + 1;
}

std::vector<zkclient::Transaction::Operation> setting_state(const zkclient::Path& path, std::string_view data,
                                                            std::int32_t version) {
  std::vector<zkclient::Transaction::Operation> operations;
  operations.emplace_back(zkclient::Transaction::Set{path, std::string(data), version});
  if (version == version_before_any)
    operations.emplace_back(zkclient::Transaction::Set{path, std::string(data), zkclient::any_version});
  return operations;
}

void ReplicaTerm::sending(const ReplicaState& next) {
  for (const InSyncReplica& replica : next.in_sync) {
    const bool counts = std::find(counted_.begin(), counted_.end(), replica) != counted_.end();
    if (!counts) insert(counted_, replica);
  }
}

}  // namespace detail
}  // namespace zkrecipes
