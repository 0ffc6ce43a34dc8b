#pragma once

#include <exception>
#include <utility>

#include <boost/asio/async_result.hpp>
#include <zkclient/asio.hpp>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/cache.hpp>
#include <zkrecipes/claim.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/id_blocks.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/inspect.hpp>
#include <zkrecipes/latch.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/leader_selector.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/lock.hpp>
#include <zkrecipes/migrations.hpp>
#include <zkrecipes/multi_lock.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/optimistic.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/periodic_job.hpp>
#include <zkrecipes/persistent_node.hpp>
#include <zkrecipes/placement.hpp>
#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/primary.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/recursive_mutex.hpp>
#include <zkrecipes/replica_group.hpp>
#include <zkrecipes/revoke.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/two_phase_commit.hpp>
#include <zkrecipes/unfair_mutex.hpp>
#include <zkrecipes/worker_id.hpp>

/// The asynchronous forms of the recipes with Boost.Asio's completion tokens; see <zkclient/asio.hpp>.
///
///   zkrecipes::Lease lease = co_await zkrecipes::async_acquire(mutex, asio::use_awaitable);
///   ...
///   co_await zkrecipes::async_release(lease, asio::use_awaitable);
///
/// A cancelled acquisition or campaign leaves no node behind and accepts every type of cancellation; a cancelled
/// release goes on in the background and accepts partial and terminal, as do a downgrade and the operations of queues,
/// barriers, coherent caches, configurations, counters, shared values, permanent bindings, replica groups and transactions
/// that may be in doubt when they are cancelled. A lease or claim that came too late for its handler (the coroutine is
/// gone) is given back by its destructor.
namespace zkrecipes {

inline constexpr zkclient::Operation<zkclient::cancel_read, &Acquirable::async_acquire, &MultiLock::async_acquire,
                                     &WorkerIds::async_acquire>
    async_acquire;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Semaphore::async_acquire_many> async_acquire_many;
inline constexpr zkclient::Operation<zkclient::cancel_read, &SharedMutex::async_acquire_shared> async_acquire_shared;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Counter::async_add> async_add;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Optimistic::async_atomically> async_atomically;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Naming::async_bind> async_bind;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Naming::async_bind_permanent> async_bind_permanent;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Election::async_campaign> async_campaign;
inline constexpr zkclient::Operation<zkclient::cancel_read, &QueueBase::async_claim> async_claim;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Claim::async_commit> async_commit;
inline constexpr zkclient::Operation<zkclient::cancel_write, &CoherentCache::async_compare_put> async_compare_put;
inline constexpr zkclient::Operation<zkclient::cancel_write, &CoherentCache::async_compare_remove> async_compare_remove;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Counter::async_compare_set,
                                     &SharedValue::async_compare_set>
    async_compare_set;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Latch::async_count_down> async_count_down;
inline constexpr zkclient::Operation<zkclient::cancel_write, &CoherentCache::async_create> async_create;
inline constexpr zkclient::Operation<zkclient::cancel_write, &SharedMutex::async_downgrade> async_downgrade;
inline constexpr zkclient::Operation<zkclient::cancel_write, &HostedReplicas::async_drain> async_drain;
inline constexpr zkclient::Operation<zkclient::cancel_read, &DoubleBarrier::async_enter> async_enter;
inline constexpr zkclient::Operation<zkclient::cancel_write, &ReplicaGroup::async_expand> async_expand;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Claim::async_give_back> async_give_back;
inline constexpr zkclient::Operation<zkclient::cancel_write, &ServiceDirectory::async_register_instance>
    async_register_instance;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Claim::async_reject> async_reject;
inline constexpr zkclient::Operation<zkclient::cancel_write, &DoubleBarrier::async_leave, &HostedReplicas::async_leave,
                                     &Membership::async_leave, &Partitioner::async_leave, &PrimaryNode::async_leave,
                                     &ReplicaGroup::async_leave>
    async_leave;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Semaphore::async_limit> async_limit;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Lease::async_lost> async_lost;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Group::async_join> async_join;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Barrier::async_lower> async_lower;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Naming::async_make_unique> async_make_unique;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Migrations::async_migrate> async_migrate;
inline constexpr zkclient::Operation<zkclient::cancel_write, &PrimaryMonitor::async_move> async_move;
inline constexpr zkclient::Operation<zkclient::cancel_read, &IdBlocks::async_next> async_next;
inline constexpr zkclient::Operation<zkclient::cancel_write, &QueueBase::async_pop> async_pop;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Leadership::async_proclaim> async_proclaim;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Configuration::async_publish> async_publish;
inline constexpr zkclient::Operation<zkclient::cancel_write, &CoherentCache::async_put> async_put;
inline constexpr zkclient::Operation<zkclient::cancel_write, &DelayQueue::async_push, &IdQueue::async_push,
                                     &PriorityQueue::async_push, &Queue::async_push>
    async_push;
inline constexpr zkclient::Operation<zkclient::cancel_write, &DelayQueue::async_push_all, &IdQueue::async_push_all,
                                     &PriorityQueue::async_push_all, &Queue::async_push_all>
    async_push_all;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Barrier::async_raise> async_raise;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Leadership::async_ready> async_ready;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Naming::async_rebind> async_rebind;
inline constexpr zkclient::Operation<zkclient::cancel_read, &CommitCoordinator::async_recover> async_recover;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Lease::async_release, &MultiLease::async_release,
                                     &WorkerId::async_release>
    async_release;
inline constexpr zkclient::Operation<zkclient::cancel_write, &CoherentCache::async_remove, &IdQueue::async_remove,
                                     &PersistentNodeBase::async_remove>
    async_remove;
inline constexpr zkclient::Operation<zkclient::cancel_write, &ReplicaGroup::async_report_version> async_report_version;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Election::async_resign> async_resign;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Configuration::async_roll_back> async_roll_back;
inline constexpr zkclient::Operation<zkclient::cancel_write, &CommitCoordinator::async_run> async_run;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Counter::async_set, &SharedValue::async_set> async_set;
inline constexpr zkclient::Operation<zkclient::cancel_write, &PersistentNodeBase::async_set_data> async_set_data;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Semaphore::async_set_limit> async_set_limit;
inline constexpr zkclient::Operation<zkclient::cancel_write, &ReplicaGroup::async_shrink> async_shrink;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Acquirable::async_try_acquire,
                                     &MultiLock::async_try_acquire>
    async_try_acquire;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Semaphore::async_try_acquire_many> async_try_acquire_many;
inline constexpr zkclient::Operation<zkclient::cancel_read, &SharedMutex::async_try_acquire_shared>
    async_try_acquire_shared;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Naming::async_try_bind> async_try_bind;
inline constexpr zkclient::Operation<zkclient::cancel_read, &QueueBase::async_try_claim> async_try_claim;
inline constexpr zkclient::Operation<zkclient::cancel_write, &QueueBase::async_try_pop> async_try_pop;
inline constexpr zkclient::Operation<zkclient::cancel_write, &DelayQueue::async_try_push, &IdQueue::async_try_push,
                                     &PriorityQueue::async_try_push, &Queue::async_try_push>
    async_try_push;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Partitioner::async_stop, &PrimaryNode::async_stop>
    async_stop;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Naming::async_unbind> async_unbind;
inline constexpr zkclient::Operation<zkclient::cancel_write, &Registration::async_unregister> async_unregister;
inline constexpr zkclient::Operation<zkclient::cancel_write, &CoherentCache::async_update, &Counter::async_update,
                                     &Membership::async_update, &Registration::async_update, &SharedValue::async_update>
    async_update;
inline constexpr zkclient::Operation<zkclient::cancel_write, &PrimaryNode::async_update_status> async_update_status;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Barrier::async_wait, &Latch::async_wait> async_wait;
inline constexpr zkclient::Operation<zkclient::cancel_read, &PersistentNodeBase::async_wait_created> async_wait_created;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Membership::async_wait_present,
                                     &Registration::async_wait_present>
    async_wait_present;
// Looking.
inline constexpr zkclient::Operation<zkclient::cancel_read, &Election::async_candidates,
                                     &LeaderSelector::async_candidates>
    async_candidates;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Acquirable::async_contenders> async_contenders;
inline constexpr zkclient::Operation<zkclient::cancel_read, &CoherentCache::async_get, &Counter::async_get,
                                     &SharedValue::async_get>
    async_get;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Configuration::async_history, &PeriodicJob::async_history>
    async_history;
inline constexpr zkclient::Operation<zkclient::cancel_read, &UnfairMutex::async_holder> async_holder;
inline constexpr zkclient::Operation<zkclient::cancel_read, &ServiceDirectory::async_instances> async_instances;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Election::async_leader, &LeaderSelector::async_leader>
    async_leader;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Latch::async_left> async_left;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Naming::async_list, &QueueBase::async_list> async_list;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Group::async_members> async_members;
inline constexpr zkclient::Operation<zkclient::cancel_read, &QueueBase::async_peek> async_peek;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Migrations::async_pending> async_pending;
inline constexpr zkclient::Operation<zkclient::cancel_read, &QueueBase::async_size> async_size;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Cache::async_refresh> async_refresh;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Naming::async_resolve> async_resolve;
inline constexpr zkclient::Operation<zkclient::cancel_read, &ServiceDirectory::async_services> async_services;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Barrier::async_state> async_state;
inline constexpr zkclient::Operation<zkclient::cancel_read, &CommitCoordinator::async_status,
                                     &PeriodicJob::async_status>
    async_status;
inline constexpr zkclient::Operation<zkclient::cancel_read, &CommitCoordinator::async_transactions> async_transactions;

inline constexpr zkclient::Operation<zkclient::cancel_read, &Configuration::async_wait_applied> async_wait_applied;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Election::async_wait_for_change,
                                     &LeaderSelector::async_wait_for_change>
    async_wait_for_change;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Election::async_wait_for_leader,
                                     &LeaderSelector::async_wait_for_leader>
    async_wait_for_leader;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Group::async_wait_for_members> async_wait_for_members;
inline constexpr zkclient::Operation<zkclient::cancel_read, &PartitionMap::async_wait_owner> async_wait_owner;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Configuration::async_wait_for_revision>
    async_wait_for_revision;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Configuration::async_wait_live> async_wait_live;
inline constexpr zkclient::Operation<zkclient::cancel_read, &PlacementMap::async_wait_primary> async_wait_primary;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Cache::async_wait_ready, &Configuration::async_wait_ready,
                                     &PartitionMap::async_wait_ready, &ServiceProvider::async_wait_ready>
    async_wait_ready;
inline constexpr zkclient::Operation<zkclient::cancel_read, &Cache::async_wait_until> async_wait_until;

/// CommitParticipant::serve(): a cancelled one ends without an error. `participant` must stay until then.
template <boost::asio::completion_token_for<void(std::exception_ptr)> Token>
auto async_serve(CommitParticipant& participant, std::shared_ptr<CommitHandlers> handlers,
                 const zkclient::CallOptions& call, Token&& token) {
  auto start = [&participant, handlers = std::move(handlers)](zkclient::Handler<void> handler,
                                                              const zkclient::CallOptions& limits) {
    participant.async_serve(std::move(*handlers), std::move(handler), limits);
  };
  return zkclient::detail::begin_operation<void>(std::move(start), call, std::forward<Token>(token),
                                                 zkclient::cancel_read);
}
template <boost::asio::completion_token_for<void(std::exception_ptr)> Token>
auto async_serve(CommitParticipant& participant, std::shared_ptr<CommitHandlers> handlers, Token&& token) {
  return async_serve(participant, std::move(handlers), zkclient::CallOptions(), std::forward<Token>(token));
}

/// force_primary() of replica_group.hpp.
template <boost::asio::completion_token_for<void(std::exception_ptr)> Token>
auto async_force_primary(const zkclient::Client& client, const zkclient::Path& path, const std::string& id,
                         const zkclient::CallOptions& call, Token&& token) {
  auto start = [client, path, id](zkclient::Handler<void> handler, const zkclient::CallOptions& limits) {
    async_force_primary(client, path, id, std::move(handler), limits);
  };
  return zkclient::detail::begin_operation<void>(std::move(start), call, std::forward<Token>(token),
                                                 zkclient::cancel_write);
}
template <boost::asio::completion_token_for<void(std::exception_ptr)> Token>
auto async_force_primary(const zkclient::Client& client, const zkclient::Path& path, const std::string& id,
                         Token&& token) {
  return async_force_primary(client, path, id, zkclient::CallOptions(), std::forward<Token>(token));
}

/// inspect() of inspect.hpp.
template <boost::asio::completion_token_for<void(std::exception_ptr, Inspection)> Token>
auto async_inspect(const zkclient::Client& client, const zkclient::Path& path, const zkclient::CallOptions& call,
                   Token&& token) {
  auto start = [client, path](zkclient::Handler<Inspection> handler, const zkclient::CallOptions& limits) {
    async_inspect(client, path, std::move(handler), limits);
  };
  return zkclient::detail::begin_operation<Inspection>(std::move(start), call, std::forward<Token>(token),
                                                       zkclient::cancel_read);
}
template <boost::asio::completion_token_for<void(std::exception_ptr, Inspection)> Token>
auto async_inspect(const zkclient::Client& client, const zkclient::Path& path, Token&& token) {
  return async_inspect(client, path, zkclient::CallOptions(), std::forward<Token>(token));
}

/// revoke() and revoke_holders() of revoke.hpp. A cancelled request may stand.
template <boost::asio::completion_token_for<void(std::exception_ptr, RevokeOutcome)> Token>
auto async_revoke(const zkclient::Client& client, const zkclient::Path& node, const RevokeOptions& options,
                  const zkclient::CallOptions& call, Token&& token) {
  auto start = [client, node, options](zkclient::Handler<RevokeOutcome> handler, const zkclient::CallOptions& limits) {
    async_revoke(client, node, options, std::move(handler), limits);
  };
  return zkclient::detail::begin_operation<RevokeOutcome>(std::move(start), call, std::forward<Token>(token),
                                                          zkclient::cancel_write);
}
template <boost::asio::completion_token_for<void(std::exception_ptr, RevokeOutcome)> Token>
auto async_revoke(const zkclient::Client& client, const zkclient::Path& node, const RevokeOptions& options,
                  Token&& token) {
  return async_revoke(client, node, options, zkclient::CallOptions(), std::forward<Token>(token));
}
template <boost::asio::completion_token_for<void(std::exception_ptr, RevokeOutcome)> Token>
auto async_revoke_holders(const zkclient::Client& client, const zkclient::Path& path, const RevokeOptions& options,
                          const zkclient::CallOptions& call, Token&& token) {
  auto start = [client, path, options](zkclient::Handler<RevokeOutcome> handler, const zkclient::CallOptions& limits) {
    async_revoke_holders(client, path, options, std::move(handler), limits);
  };
  return zkclient::detail::begin_operation<RevokeOutcome>(std::move(start), call, std::forward<Token>(token),
                                                          zkclient::cancel_write);
}
template <boost::asio::completion_token_for<void(std::exception_ptr, RevokeOutcome)> Token>
auto async_revoke_holders(const zkclient::Client& client, const zkclient::Path& path, const RevokeOptions& options,
                          Token&& token) {
  return async_revoke_holders(client, path, options, zkclient::CallOptions(), std::forward<Token>(token));
}

}  // namespace zkrecipes
