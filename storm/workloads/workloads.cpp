#include "storm/workloads/workloads.hpp"

#include <algorithm>

#include "storm/workloads/calls.hpp"
#include "storm/workloads/commands.hpp"
#include "storm/workloads/commits.hpp"
#include "storm/workloads/interventions.hpp"
#include "storm/workloads/items.hpp"
#include "storm/workloads/jobs.hpp"
#include "storm/workloads/latches.hpp"
#include "storm/workloads/locks.hpp"
#include "storm/workloads/meetings.hpp"
#include "storm/workloads/members.hpp"
#include "storm/workloads/migrations.hpp"
#include "storm/workloads/nested_locks.hpp"
#include "storm/workloads/placements.hpp"
#include "storm/workloads/priorities.hpp"
#include "storm/workloads/registers.hpp"
#include "storm/workloads/replicas.hpp"
#include "storm/workloads/soup.hpp"
#include "storm/workloads/transfers.hpp"

namespace storm {

const std::vector<Workload>& workloads() {
  static const std::vector<Workload> all = {
      {"mutex", 3, run_mutex, look_at_locks, check_mutex},
      {"unfair-mutex", 3, run_unfair_mutex, look_at_locks, check_mutex},
      {"semaphore", 4, run_semaphore, look_at_semaphore, check_semaphore},
      {"shared-mutex", 4, run_shared_mutex, look_at_locks, check_shared_mutex},
      {"election", 3, run_leader_election, look_at_locks, check_mutex},
      {"unfair-election", 3, run_unfair_leader_election, look_at_locks, check_mutex},
      {"queue", 4, run_queue, drain_queue, check_queue_workload},
      {"counter", 4, run_counter, read_counter, check_counter_workload},
      {"shared-value", 4, run_shared_value, read_shared_value, check_counter_workload},
      {"claims", 4, run_claims, drain_claims, check_claims},
      {"double-barrier", 3, run_double_barrier, look_at_double_barrier, check_double_barrier},
      {"view", 3, run_view, look_at_view, check_view},
      {"coherent", 3, run_coherent, look_at_coherent, check_coherent},
      {"partitions", 3, run_partitions, look_at_partitions, check_partitions},
      {"multi-lock", 4, run_multi_lock, look_at_multi_lock, check_multi_lock},
      {"recursive-mutex", 3, run_recursive_mutex, look_at_nested_locks, check_recursive_mutex},
      {"leader-selector", 3, run_leader_selector, look_at_nested_locks, check_leader_selector},
      {"revocation", 4, run_revocation, look_at_nested_locks, check_revocation},
      {"priority-queue", 4, run_priority_queue, drain_priority_queue, check_priority_queue},
      {"delay-queue", 4, run_delay_queue, drain_delay_queue, check_queue_workload},
      {"id-queue", 4, run_id_queue, drain_id_queue, check_queue_workload},
      {"commits", 3, run_commits, look_at_agreements, check_commits_workload},
      {"primaries", 3, run_primaries, look_at_agreements, check_primaries},
      {"transfers", 4, run_transfers, look_at_transfers, check_transfers_workload},
      {"ids", 3, run_ids, look_at_ids, check_ids_workload},
      {"group", 4, run_group, look_at_members, check_group},
      {"nodes", 4, run_nodes, look_at_members, check_nodes},
      {"naming", 3, run_naming, look_at_names, check_naming},
      {"discovery", 4, run_discovery, look_at_members, check_discovery},
      {"configuration", 3, run_configuration, look_at_members, check_configuration},
      {"barrier", 4, run_barrier, look_at_members, check_barrier},
      {"replicas", 3, run_replicas, look_at_replicas, check_replicas_workload},
      {"registers", 4, run_registers, look_at_registers, check_registers},
      {"coherent-items", 3, run_coherent_items, look_at_coherent_items, check_registers},
      {"shared-registers", 3, run_shared_registers, look_at_shared_registers, check_registers},
      {"handlers", 3, run_handlers, look_at_calls, check_calls},
      {"coroutines", 3, run_coroutines, look_at_calls, check_calls},
      {"broken-locks", 4, run_broken_locks, look_at_broken_locks, check_broken_locks},
      {"mortal-gate", 3, run_mortal_gate, look_at_mortal_gate, check_mortal_gate_workload},
      {"replacements", 3, run_replacements, look_at_replacements, check_replacements},
      {"emptied-replicas", 3, run_emptied_replicas, look_at_replicas, check_emptied_replicas},
      {"resolved-commits", 3, run_resolved_commits, look_at_agreements, check_resolved_commits},
      {"locked-commands", 3, run_locked_commands, look_at_commands, check_commands_workload},
      {"leading-commands", 3, run_leading_commands, look_at_commands, check_commands_workload},
      {"repeated-jobs", 3, run_repeated_jobs, look_at_jobs, check_repeated_jobs},
      {"single-jobs", 3, run_single_jobs, look_at_jobs, check_single_jobs},
      {"latches", 4, run_latches, look_at_latches, check_latches_workload},
      {"migrations", 4, run_migrations, look_at_migrations, check_migrations_workload},
      {"placements", 5, run_placements, look_at_placements, check_placements_workload},
      {"soup", 4, run_soup, look_at_soup, check_soup},
  };
  return all;
}

const Workload* find_workload(const std::string& name) {
  const auto found = std::find_if(workloads().begin(), workloads().end(),
                                  [&](const Workload& workload) { return workload.name == name; });
  return found == workloads().end() ? nullptr : &*found;
}

}  // namespace storm
