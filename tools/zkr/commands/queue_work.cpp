// zkr queue work PATH -- COMMAND

#include <CLI/CLI.hpp>

#include <memory>
#include <optional>
#include <string>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/command_options.hpp"
#include "tools/zkr/commands/queue.hpp"
#include "tools/zkr/hold/queue_worker.hpp"
#include "tools/zkr/hold/work_board.hpp"
#include "tools/zkr/run/pool.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr Duration usual_drain = 30s;
constexpr Duration until_the_session_is_over = 24h;  // By then a commit that waits for servers has ended.

struct WorkOptions {
  QueueOptions queue;
  std::optional<std::string> shell_line;
  int jobs = 1;
  std::optional<std::uint64_t> most_items;
  std::optional<Duration> idle_exit;
  std::optional<Duration> timeout;
  std::optional<Duration> drain;
  std::optional<Duration> grace;
  std::optional<Duration> kill_margin;
  int reject_code = exit_format;
  int max_deliveries = 5;
  std::string dead_letters;
  std::string id;
  std::string metrics_file;
};

RunOptions run_options(const WorkOptions& options) {
  RunOptions run;
  run.grace = options.grace;
  run.kill_margin = options.kill_margin;
  run.max_hold = options.timeout;
  run.drain = options.drain.value_or(usual_drain);
  run.release_patience = until_the_session_is_over;
  run.ends_with_command = false;
  run.dead_keeper_code = exit_lost;
  return run;
}

QueueChoice choice_of(const WorkOptions& options) {
  const zkclient::Path path(options.queue.path);  // Refuses what is none.
  QueueChoice choice{.path = path.str(), .layout = options.queue.layout};
  choice.kind = options.queue.named_kind();
  choice.kind_is_named = choice.kind.has_value();
  choice.changes = true;
  choice.options.id = options.id;
  choice.options.max_deliveries = options.max_deliveries;
  if (!options.dead_letters.empty()) choice.options.dead_letters = zkclient::Path(options.dead_letters);
  return choice;
}

[[noreturn]] void work_on(const WorkRequest& request, RunRequest run, WorkBoard& board) {
  const std::string id = random_id();
  WorkRequest own = request;
  run.mark = "ZKR_ID=" + id;
  own.environment = {run.mark};
  own.control_sockets = "zkr-" + id;
  const auto worker = std::make_shared<QueueWorker>(std::move(own), board);
  run.make_holder = [worker](const HolderStart& start) { return worker->next_claim(start); };
  run.run_again = [worker](const Ending& ending, Cause cause, Duration) { return worker->run_again(ending, cause); };
  run.after_last_holder = [worker, then = std::move(run.after_last_holder)] {
    worker->close();
    if (then) then();
  };
  run_under_lease(run);
}

int run_work(const Context& context, const WorkOptions& options) {
  RunRequest run;
  run.command.words = command_words(context, options.shell_line);
  run.options = run_options(options);
  run.max_hold_option = "--timeout";
  require_least_margin(run.options);
  WorkRequest request{.connection = connection_of(context.connection), .queue = choice_of(options)};
  request.program = run.command.words.at(0);
  request.idle_exit = options.idle_exit;
  request.reject_code = options.reject_code;
  request.run = run.options;
  request.quiet = context.quiet;
  request.verbose = context.verbose;
  if (!options.metrics_file.empty() && options.jobs > 1)
    throw Failure(exit_usage, "--metrics are of one process: not with --jobs");
  count_run_into(options.metrics_file, request.connection, run);
  WorkBoard board(options.most_items);
  if (options.jobs == 1) work_on(request, std::move(run), board);
  run_pool(options.jobs, [&] { work_on(request, run, board); });
}

}  // namespace

void add_queue_work(CLI::App& queue, Context& context) {
  const auto work = add_subcommand(queue, context, "work",
                                   "Run a command for each item: zkr queue work PATH -- COMMAND", run_work, true);
  WorkOptions& options = *work.options;
  add_queue_options(work.app, options.queue);
  work->add_option("-c,--command", options.shell_line, "Run this line by /bin/sh")->type_name("LINE");
  work->add_option("-j,--jobs", options.jobs, "So many items at a time, each on a session of its own; 1")
      ->check(CLI::Range(1, 1000))
      ->type_name("N");
  work->add_option("--max-items", options.most_items, "End after so many items, whatever became of them")
      ->check(CLI::Range(std::uint64_t{1}, std::uint64_t{1'000'000'000'000}))
      ->type_name("N");
  add_duration(*work.app, "--idle-exit", options.idle_exit,
               "End when there was no item for so long; 0: when there is none");
  add_duration(*work.app, "--timeout", options.timeout, "End a command that runs for longer, and give its item back");
  add_duration(*work.app, "--drain", options.drain,
               "When a signal tells us to end, a running command has so long to end by itself; 30s");
  work->add_option("--reject-code", options.reject_code,
                   "The exit code of commands for items that nobody can digest; 65")
      ->check(CLI::Range(1, 255))
      ->type_name("CODE");
  work->add_option("--max-deliveries", options.max_deliveries,
                   "An item that has come back so often becomes a dead letter; 0: never. 5")
      ->check(CLI::Range(0, 1'000'000))
      ->type_name("N");
  work->add_option("--dead-letters", options.dead_letters, "The queue that dead letters go to; PATH/dead")
      ->type_name("PATH");
  add_metrics_option(*work.app, options.metrics_file);
  work->add_option("--id", options.id, "Shown to others as who works on an item")->type_name("NAME");
  add_duration(*work.app, "--grace", options.grace,
               "From TERM to KILL, when a command is ended; a quarter of the session timeout");
  add_duration(*work.app, "--kill-margin", options.kill_margin,
               "From KILL to the end of the claim, 50ms at least; 250ms, or a 40th of the session timeout");
}

}  // namespace zkr
