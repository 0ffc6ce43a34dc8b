// zkr commit run PATH PARTICIPANT...

#include <chrono>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include <zkrecipes/two_phase_commit.hpp>

#include "tools/zkr/cli/data_option.hpp"
#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/awaited.hpp"
#include "tools/zkr/commands/changes.hpp"
#include "tools/zkr/commands/commit.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkrecipes::CommitCoordinator;
using zkrecipes::CommitOutcome;

constexpr auto settle_patience = 5s;  // For the abort of a transaction that was given up.
constexpr auto settle_pause = 20ms;
constexpr auto look_patience = 1s;

struct CommitRunOptions {
  std::string path;
  std::vector<std::string> participants;
  DataOption payload;
  std::optional<Duration> abort_after;
  std::optional<Duration> keep;
  std::optional<Duration> timeout;
  bool applied = false;
  bool all_to_all = false;
};

zkrecipes::CommitOptions commit_options(const CommitRunOptions& options) {
  zkrecipes::CommitOptions how;
  if (options.abort_after) how.timeout = std::chrono::ceil<std::chrono::milliseconds>(*options.abort_after);
  if (options.keep) how.retention = std::chrono::ceil<std::chrono::milliseconds>(*options.keep);
  if (options.applied) how.wait = zkrecipes::CommitOptions::Wait::applied;
  if (options.all_to_all) how.variant = zkrecipes::CommitVariant::all_to_all;
  return how;
}

/// One transaction, from its begin until its outcome is known, or this process is told to end.
class CommitCall {
 public:
  CommitCall(const Context& context, const CommitRunOptions& options)
      : context_(context),
        options_(options),
        payload_(options.payload.bytes(context.words)),
        client_(connect(context)),
        coordinator_(client_, zkclient::Path(options.path)) {}

  int run() {
    zkclient::CallOptions call{.stop = stop_.get_token()};
    if (options_.timeout) call.deadline = *options_.timeout;
    coordinator_.async_run(
        options_.participants, payload_, commit_options(options_),
        [this](zkclient::Result<CommitOutcome> result) { result_.put(std::move(result)); }, call);
    while (!result_.is_there()) {
      wait_for_any({signals_.get(), result_.get()});
      hear_signals();
    }
    const zkclient::Result<CommitOutcome> result = result_.take();
    const int code = result ? tell(*result) : failed(result.error());
    client_.close();
    if (told_by_) die_of(*told_by_);
    return code;
  }

 private:
  void hear_signals() {
    if (!readable_now(signals_.get())) return;
    const int signal = signals_.take().number;
    if (told_by_) die_of(signal);  // It is meant.
    told_by_ = signal;
    stop_.request_stop();
  }

  int tell(const CommitOutcome& outcome) const {
    write_outcome(context_, outcome);
    return outcome.committed ? exit_success : exit_not_acquired;
  }

  /// Of a transaction that was given up, whoever waits wants to know what became of it.
  int failed(const zkclient::Error& error) {
    if (error.errc() == zkclient::Errc::cancelled && told_by_) return exit_success;  // Nothing was begun.
    if (error.errc() != zkclient::Errc::in_doubt) fail_wait(client_, error);
    const auto outcome = settled(error.path().substr(error.path().rfind('/') + 1));
    if (!outcome) {
      if (told_by_) say(error.what());
      if (!told_by_) throw zkclient::Error(error);
      return exit_in_doubt;
    }
    const int code = tell(*outcome);
    if (!outcome->committed || !options_.applied) return code;
    say(outcome->id + ": not all participants have applied it yet");
    return exit_not_acquired;
  }

  /// What becomes of it, soon: it is aborted if it is still open. No event tells of that besides the node that is made,
  /// and whoever waits here has given up. The last look comes when the time is over.
  std::optional<CommitOutcome> settled(const std::string& id) {
    const Instant until = BootClock::now() + settle_patience;
    BootTimer timer;
    while (true) {
      const bool is_last = BootClock::now() >= until;
      std::error_code why;
      const auto outcome = outcome_now(id, why);
      const bool is_gone = why == zkclient::Errc::no_node;  // Its outcome with it, or it would have been told.
      if (outcome || is_gone || is_last) return outcome;
      timer.set(BootClock::now() + settle_pause);
      wait_for_any({signals_.get(), timer.get()});
      drain(timer.get());
      hear_signals();
    }
  }

  std::optional<CommitOutcome> outcome_now(const std::string& id, std::error_code& why) {
    try {
      return coordinator_.status(id, {.deadline = look_patience}).outcome;
    } catch (const zkclient::Error& error) {
      why = error.code();
      return std::nullopt;
    }
  }

  const Context& context_;
  const CommitRunOptions& options_;
  const std::string payload_;
  Awaited<CommitOutcome> result_;
  zkclient::Client client_;
  CommitCoordinator coordinator_;
  const EndingSignals signals_;
  std::stop_source stop_;
  std::optional<int> told_by_;
};

int run_commit(const Context& context, const CommitRunOptions& options) { return CommitCall(context, options).run(); }

}  // namespace

void add_commit_run(CLI::App& commit, Context& context) {
  const auto run =
      add_subcommand(commit, context, "run",
                     "Run a transaction, and write what became of it: committed, or aborted (75)", run_commit, true);
  CommitRunOptions& options = *run.options;
  run->add_option("PATH", options.path, "The two-phase commit")->required();
  run->add_option("PARTICIPANT", options.participants, "Who takes part, by name")->required();
  run->add_option("--payload", options.payload.word,
                  "What they are to do, in words of their own; - reads standard input")
      ->type_name("VALUE");
  add_duration(*run.app, "--abort-after", options.abort_after, "When it is aborted if it is not decided; 10s");
  run->add_flag("--applied", options.applied, "Wait until all participants have applied the outcome as well");
  run->add_flag("--all-to-all", options.all_to_all, "The participant that votes last decides, not this call");
  add_duration(*run.app, "--keep", options.keep, "Keep its record for so long after its end, for audit; 0");
  add_duration(*run.app, "-w,--timeout", options.timeout,
               "Do not wait longer than that: the transaction is aborted, if it is still open");
}

}  // namespace zkr
