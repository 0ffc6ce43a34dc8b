#include "tools/zkr/commands/commands.hpp"

#include "tools/zkr/cli/context.hpp"

namespace zkr {

void add_commands(CLI::App& app, Context& context) {
  add_lock(app, context);
  add_lead(app, context);
  add_held(app, context);
  add_alive(app, context);
  add_downgrade(app, context);
  add_ready(app, context);
  add_proclaim(app, context);
  add_hold_until_eof(app, context);

  add_who(app, context);
  add_leader(app, context);
  add_observe(app, context);
  add_doctor(app, context);
  add_revoke(app, context);
  add_barrier(app, context);
  add_queue(app, context);
  add_commit(app, context);
  add_group(app, context);
  add_config(app, context);
  add_counter(app, context);
  add_partition(app, context);
  add_metrics(app, context);
  add_top(app, context);
  add_get(app, context);
  add_set(app, context);
  add_create(app, context);
  add_rm(app, context);
  add_txn(app, context);
  add_ls(app, context);
  add_stat(app, context);
  add_acl(app, context);
  add_tree(app, context);
  add_watch(app, context);
  add_cp(app, context);
  add_export(app, context);
  add_import(app, context);

  add_completion(app, context);
  add_man_page(app, context);
}

}  // namespace zkr
