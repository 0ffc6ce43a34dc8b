#pragma once

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// All commands of `zkr`, in the order in which --help lists them.
void add_commands(CLI::App& app, Context& context);

// Each adds a subcommand, whose callback sets Context::action. `context` must live as long as `app`.
void add_lock(CLI::App& app, Context& context);
void add_lead(CLI::App& app, Context& context);
void add_held(CLI::App& app, Context& context);
void add_alive(CLI::App& app, Context& context);
void add_downgrade(CLI::App& app, Context& context);
void add_ready(CLI::App& app, Context& context);
void add_proclaim(CLI::App& app, Context& context);
void add_hold_until_eof(CLI::App& app, Context& context);

void add_who(CLI::App& app, Context& context);
void add_leader(CLI::App& app, Context& context);
void add_observe(CLI::App& app, Context& context);
void add_doctor(CLI::App& app, Context& context);
void add_revoke(CLI::App& app, Context& context);
void add_barrier(CLI::App& app, Context& context);
void add_queue(CLI::App& app, Context& context);
void add_commit(CLI::App& app, Context& context);
void add_group(CLI::App& app, Context& context);
void add_config(CLI::App& app, Context& context);
void add_counter(CLI::App& app, Context& context);
void add_partition(CLI::App& app, Context& context);
void add_metrics(CLI::App& app, Context& context);
void add_top(CLI::App& app, Context& context);

void add_get(CLI::App& app, Context& context);
void add_set(CLI::App& app, Context& context);
void add_create(CLI::App& app, Context& context);
void add_rm(CLI::App& app, Context& context);
void add_txn(CLI::App& app, Context& context);
void add_ls(CLI::App& app, Context& context);
void add_stat(CLI::App& app, Context& context);
void add_acl(CLI::App& app, Context& context);
void add_tree(CLI::App& app, Context& context);
void add_watch(CLI::App& app, Context& context);
void add_cp(CLI::App& app, Context& context);
void add_export(CLI::App& app, Context& context);
void add_import(CLI::App& app, Context& context);

void add_completion(CLI::App& app, Context& context);
void add_man_page(CLI::App& app, Context& context);

}  // namespace zkr
