#include "tools/zkr/commands/command_options.hpp"

#include <fcntl.h>
#include <sys/random.h>
#include <unistd.h>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string_view>
#include <utility>

#include <fmt/format.h>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/commands/hold_until_eof.hpp"
#include "tools/zkr/commands/report.hpp"
#include "tools/zkr/hold/control.hpp"
#include "tools/zkr/hold/held_paths.hpp"

namespace zkr {
namespace {

const std::map<std::string, int> on_revoke_words{
    {"term", SIGTERM}, {"ignore", 0},     {"TERM", SIGTERM}, {"INT", SIGINT},   {"HUP", SIGHUP},
    {"QUIT", SIGQUIT}, {"USR1", SIGUSR1}, {"USR2", SIGUSR2}, {"KILL", SIGKILL},
};

/// "SIGUSR1" is "USR1".
std::string short_name(const std::string& word) { return word.starts_with("SIG") ? word.substr(3) : word; }

const std::map<std::string, OnDoubt> doubts{{"term", OnDoubt::term}, {"freeze", OnDoubt::freeze}};

const std::map<std::string, Descendants> descendants{
    {"kill", Descendants::kill}, {"wait", Descendants::wait}, {"leave", Descendants::leave}};

template <typename Value>
std::string listed_words(const std::map<std::string, Value>& choices) {
  std::string text;
  for (const auto& [word, value] : choices)
    text += (text.empty() ? "" : ", ") + word;
  return text;
}

template <typename Value>
void add_choice(CLI::App& app, const std::string& name, Value& value, const std::map<std::string, Value>& choices,
                const std::string& help) {
  const auto read = [&value, &choices, name](const std::string& word) {
    const auto choice = choices.find(short_name(word));
    if (choice == choices.end())
      throw CLI::ValidationError(name, "\"" + word + "\" is none of " + listed_words(choices));
    value = choice->second;
  };
  app.add_option_function<std::string>(name, read, help)->type_name("WORD");
}

std::vector<std::string> lines_of(const char* text) {
  std::vector<std::string> lines;
  for (const char* begin = text; begin != nullptr && *begin != '\0';) {
    const char* end = std::strchr(begin, '\n');
    lines.emplace_back(begin, end != nullptr ? static_cast<std::size_t>(end - begin) : std::strlen(begin));
    begin = end != nullptr ? end + 1 : nullptr;
  }
  return lines;
}

/// A command of our own: so all that is true of a command is true of it.
std::vector<std::string> words_of_hold(const Context& context, const CommandOptions& options) {
  if (options.shell_line || context.words.divided) throw Failure(exit_usage, "--hold takes no command");
  return {"/proc/self/exe", std::string(hold_command)};
}

std::vector<std::string> words_to_run(const Context& context, const CommandOptions& options) {
  if (options.hold) return words_of_hold(context, options);
  return command_words(context, options.shell_line);
}

/// "": it is held, but its keeper does not say as what. That is enough for nothing.
std::optional<std::string> mode_now(const std::string& socket) {
  const auto answer = ask_control(socket, "mode");
  if (!answer || answer->code == exit_lost) return std::nullopt;
  return answer->code == exit_success ? answer->text : "";
}

/// Whether a caller holds all that is wanted. Errors: Failure, if this call would wait for its own caller, for ever.
bool is_held_by_caller(const HoldRequest& hold, bool reentrant) {
  const auto wanted = held_paths(hold.connection, hold.stake, "");
  switch (nesting(wanted, parse_held_paths(hold.held_already), mode_now)) {
    case Nesting::none: return false;
    case Nesting::within:
      if (reentrant) return true;
      throw Failure(exit_usage, hold.stake.paths[0] +
                                    " is held by a caller of this process: it would wait for itself "
                                    "(--reentrant)");
    case Nesting::partly: break;
  }
  throw Failure(exit_usage,
                "a caller of this process holds a part of it, or in another mode: it would wait for itself. "
                "Let the caller take all paths, in the stronger mode");
}

/// The number of a descriptor that the file is a name of, such as /dev/stdout: it is let go before the report is written,
/// and must not be truncated. Errors: Failure, if there is no such descriptor.
std::optional<int> own_descriptor(const std::string& file) {
  const std::map<std::string, int> names{{"/dev/stdin", 0}, {"/dev/stdout", 1}, {"/dev/stderr", 2}};
  std::optional<int> number;
  if (const auto name = names.find(file); name != names.end()) number = name->second;
  for (const std::string_view folder : {"/dev/fd/", "/proc/self/fd/"}) {
    if (file.starts_with(folder)) number = std::atoi(file.c_str() + folder.size());
  }
  if (number && ::fcntl(*number, F_GETFD) < 0) throw Failure(exit_usage, file + ": " + std::strerror(errno));
  return number;
}

[[noreturn]] void become(const std::vector<std::string>& words) {
  std::vector<char*> argv;
  for (const std::string& word : words)
    argv.push_back(const_cast<char*>(word.c_str()));
  argv.push_back(nullptr);
  ::execvp(argv[0], argv.data());
  const int error = errno;
  throw Failure(error == ENOENT ? exit_no_command : exit_not_runnable, words[0] + ": " + std::strerror(error));
}

}  // namespace

void add_waiting_options(CLI::App& app, CommandOptions& options, const std::string& try_names) {
  app.add_option("-c,--command", options.shell_line, "Run this line by /bin/sh")->type_name("LINE");
  app.add_flag(try_names, options.try_once, "Do not wait for others");
  add_duration(app, "-w,--timeout", options.timeout, "How long to wait for others; without: for ever");
  app.add_option("-E,--conflict-exit-code", options.not_acquired_code, "The exit code if others hold it; 75")
      ->check(CLI::Range(0, 255))
      ->type_name("CODE");
  app.add_option("--id", options.id, "Shown to others as who holds it")->type_name("NAME");
  add_choice(app, "--descendants", options.run.descendants, descendants,
             "Of what the command has left behind when it ends: kill (the default), wait, or leave");
  app.add_option("--report", options.report, "Write there, as JSON, how it has ended")->type_name("FILE");
  add_metrics_option(app, options.metrics_file);
}

void add_command_options(CLI::App& app, CommandOptions& options, const std::string& try_names) {
  add_waiting_options(app, options, try_names);
  add_duration(
      app, "--grace", options.run.grace,
      "From TERM to KILL, when the command has to end before the lease does; a quarter of the session timeout");
  add_duration(app, "--kill-margin", options.run.kill_margin,
               "From KILL to the end of the lease, 50ms at least; 250ms, or a 40th of the session timeout");
  add_duration(app, "--max-hold", options.run.max_hold, "End the command after that time");
  add_choice(app, "--on-revoke", options.run.on_revoke, on_revoke_words,
             "When another client asks for the lease: term (the default): TERM to all that runs; INT, HUP, QUIT, USR1, "
             "USR2 or KILL to the command alone; or ignore");
  add_choice(app, "--on-doubt", options.run.on_doubt, doubts,
             "When no server confirms the lease: term (the default), or freeze: stop the command, let it go on if one "
             "does in time");
  app.add_option("--lost-exit-code", options.run.lost_exit_code, "The exit code if the lease is lost; 79")
      ->check(CLI::Range(0, 255))
      ->type_name("CODE");
  app.add_option("--lost-fd", options.lost_descriptor,
                 "The command finds a pipe by this number, which is at its end once the lease is lost")
      ->check(CLI::Range(3, 1023))
      ->type_name("NUMBER");
  app.add_flag("--kazoo", options.kazoo, "Share the path with kazoo's users, not with Curator's");
  app.add_flag("--reentrant", options.reentrant, "Run the command if a caller of this one holds the path already");
}

void count_run_into(const std::string& file, Connection& connection, RunRequest& run) {
  if (file.empty()) return;
  const auto metrics = std::make_shared<zkclient::Metrics>();
  connection.options.metrics = metrics;
  write_metrics(file, *metrics);
  const auto writing = std::make_shared<std::unique_ptr<MetricsFile>>();
  run.before_first_holder = [file, metrics, writing] { *writing = std::make_unique<MetricsFile>(file, metrics); };
  run.after_last_holder = [then = std::move(run.after_last_holder), writing] {
    if (then) then();
    writing->reset();
  };
}

std::string process_name() {
  std::array<char, 256> host{};
  ::gethostname(host.data(), host.size() - 1);
  return fmt::format("{}:{}", host.data(), ::getpid());
}

std::string random_id() {
  std::array<unsigned char, 16> bytes{};
  if (::getrandom(bytes.data(), bytes.size(), 0) != static_cast<ssize_t>(bytes.size()))
    throw Failure(exit_system, "no random numbers");
  std::string text;
  for (const unsigned char byte : bytes)
    text += fmt::format("{:02x}", byte);
  return text;
}

std::vector<std::string> command_words(const Context& context, const std::optional<std::string>& shell_line) {
  if (shell_line && !context.words.command.empty()) throw Failure(exit_usage, "a command behind -- or -c, not both");
  if (shell_line) return {"/bin/sh", "-c", *shell_line};
  if (context.words.command.empty()) throw Failure(exit_usage, "no command: zkr ... -- COMMAND");
  return context.words.command;
}

void require_least_margin(const RunOptions& options) {
  if (options.kill_margin.value_or(least_kill_margin) >= least_kill_margin) return;
  throw Failure(exit_usage, "--kill-margin " + to_text(*options.kill_margin) + " is too short: 50ms is the least");
}

void run_while_held(const Context& context, const CommandOptions& options, Stake stake) {
  RunRequest run;
  run.command.words = words_to_run(context, options);
  run.options = options.run;
  require_least_margin(options.run);
  for (const std::string& path : stake.paths)
    zkclient::Path{path};  // Refuses what is none.
  stake.id = options.id;
  stake.kazoo = options.kazoo;
  HoldRequest hold{.connection = connection_of(context.connection), .stake = std::move(stake)};
  hold.try_once = options.try_once || options.timeout == Duration::zero();
  if (!hold.try_once) hold.timeout = options.timeout;
  hold.not_acquired_code = options.not_acquired_code;
  hold.held_already = lines_of(std::getenv("ZKR_HELD"));
  hold.run = options.run;
  hold.ready = options.ready;
  hold.quiet = context.quiet;
  hold.verbose = context.verbose;
  if (is_held_by_caller(hold, options.reentrant)) become(run.command.words);
  count_run_into(options.metrics_file, hold.connection, run);
  const std::string id = random_id();
  run.mark = "ZKR_ID=" + id;
  hold.environment = {run.mark};
  run.run_again = options.run_again;
  run.command.lost_descriptor = options.lost_descriptor;
  if (options.lost_descriptor) hold.environment.push_back(fmt::format("ZKR_LOST_FD={}", *options.lost_descriptor));
  if (!options.report.empty()) {
    run.report_descriptor = own_descriptor(options.report);
    run.report = [&options, paths = hold.stake.paths, mode = hold.stake.mode](const Outcome& outcome, int descriptor) {
      const std::string text = report_text(outcome, paths, has_tokens(mode));
      const bool written =
          descriptor >= 0 ? write_report(descriptor, text) : write_report(options.report.c_str(), text);
      return written ? "" : options.report + ": " + std::strerror(errno);
    };
  }
  // A name for each term: who asks for an earlier one is not told of a later one.
  run.make_holder = [hold, id, term = 0](const HolderStart& start) mutable {
    hold.start = start;
    hold.patient = term > 0;
    hold.control_socket = fmt::format("zkr-{}-{}", id, ++term);
    return std::make_unique<ZooKeeperHolder>(hold);
  };
  run_under_lease(run);
}

}  // namespace zkr
