// zkr lead PATH -- COMMAND

#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/command_options.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;

constexpr Duration first_pause = 1s;
constexpr Duration first_pause_after_loss = 100ms;
constexpr Duration longest_pause = 30s;
constexpr Duration short_run = 1s;  // A leadership that is lost before may be lost as soon again.
constexpr Duration long_run = 60s;  // After which a command that ends is started again as quickly as at first.

struct LeadOptions {
  CommandOptions command;
  std::string path;
  std::string restart = "never";
  std::string ready = "none";
  bool once = false;
};

/// Whether a command that has ended is run again, and how soon. A leadership that was lost, or given up for another
/// client, is stood for again in any case: at once, unless it was lost soon after it was won.
class Restarts {
 public:
  explicit Restarts(const LeadOptions& options) : once_(options.once), restart_(options.restart) {}

  std::optional<Duration> operator()(const Ending& ending, Cause cause, Duration ran) {
    if (once_) return std::nullopt;
    if (ran >= long_run) {
      pause_ = first_pause;
      pause_after_loss_ = first_pause_after_loss;
    }
    if (cause == Cause::revoked || cause == Cause::held_too_long) return Duration::zero();
    if (cause == Cause::lost) return ran < short_run ? doubled(pause_after_loss_) : Duration::zero();
    const bool of_itself = cause == Cause::command_ended || cause == Cause::hung;
    if (!of_itself || !wants_again(ending)) return std::nullopt;
    return doubled(pause_);
  }

 private:
  static Duration doubled(Duration& pause) {
    const Duration now = pause;
    pause = std::min(longest_pause, pause * 2);
    return now;
  }
  bool wants_again(const Ending& ending) const {
    const bool failed = ending.code != 0 || ending.signal != 0;
    return restart_ == "always" || (restart_ == "on-failure" && failed);
  }

  bool once_;
  std::string restart_;
  Duration pause_ = first_pause;
  Duration pause_after_loss_ = first_pause_after_loss;
};

Ready ready_of(const LeadOptions& options) {
  if (options.ready == "start") return Ready::start;
  return options.ready == "notify" ? Ready::notify : Ready::none;
}

}  // namespace

void add_lead(CLI::App& app, Context& context) {
  const auto options = std::make_shared<LeadOptions>();
  CLI::App* lead = app.add_subcommand("lead", "Run a command while this process leads: zkr lead PATH -- COMMAND");
  lead->add_option("PATH", options->path, "The election")->required();
  lead->add_option("--restart", options->restart, "Run a command that has ended again: never, on-failure, always")
      ->check(CLI::IsMember({"never", "on-failure", "always"}))
      ->type_name("WORD");
  lead->add_flag("--once", options->once, "End with the first leadership, also if it is lost");
  lead->add_option("--ready", options->ready,
                   "When others are told that the command has taken over: none (the default; it calls zkr ready), "
                   "start (at once), or notify (it says READY=1, as services of systemd do)")
      ->check(CLI::IsMember({"none", "start", "notify"}))
      ->type_name("WORD");
  add_duration(*lead, "--watchdog", options->command.run.watchdog,
               "End a command that has not said for that long that it is alive, by WATCHDOG=1 or zkr alive");
  add_command_options(*lead, options->command);
  lead->callback([&context, options] {
    context.action = [&context, options]() -> int {
      if (options->command.id.empty()) options->command.id = process_name();
      if (options->command.run.watchdog == Duration::zero())
        throw Failure(exit_usage, "a --watchdog of no time at all");
      options->command.ready = ready_of(*options);
      options->command.run_again = Restarts(*options);
      options->command.run.ends_with_command = options->restart == "never" || options->once;
      run_while_held(context, options->command, Stake{.paths = {options->path}, .mode = Mode::leader});
    };
  });
}

}  // namespace zkr
