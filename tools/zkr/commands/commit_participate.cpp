// zkr commit participate, in-doubt, resolve: one of those who take part, and an operator's word to it.

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <memory>
#include <optional>
#include <set>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkrecipes/two_phase_commit.hpp>

#include "tools/zkr/cli/metrics_file.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/awaited.hpp"
#include "tools/zkr/commands/command_options.hpp"
#include "tools/zkr/commands/command_series.hpp"
#include "tools/zkr/commands/commit.hpp"
#include "tools/zkr/commands/phase_commands.hpp"
#include "tools/zkr/hold/control.hpp"
#include "tools/zkr/hold/lease_session.hpp"

namespace zkr {
namespace {

using namespace std::chrono_literals;
using zkrecipes::CommitParticipant;
using zkrecipes::InDoubtTransaction;

constexpr auto look_for_problems = 1s;
constexpr std::size_t most_listed = 500;  // As many as fit into an answer.

struct ParticipateOptions {
  std::string path;
  std::string name;
  std::string log;
  std::optional<std::string> shell_line;
  std::string metrics_file;
};

struct DoubtOptions {
  std::string log;
  std::string id;
  std::string decision;
};

/// Where the process that serves with this log is asked. Nothing: there is no such log.
std::optional<std::string> control_socket_of(const std::string& log) {
  struct stat lock {};
  if (::stat((log + ".lock").c_str(), &lock) != 0) return std::nullopt;
  return fmt::format("zkr-participant-{:x}-{:x}", lock.st_dev, lock.st_ino);
}

/// Held by this process, its guardian, and what its commands have started: so none of them runs beside those of the next
/// process with this log, also if this one is killed. The guardian ends then what has closed its descriptors; what the
/// guardian may not kill has inherited the claim. Waits for what is left of the process before.
Descriptor claim_commands(const std::string& log) {
  const std::string file = log + ".commands";
  Descriptor claim(::open(file.c_str(), O_RDWR | O_CREAT, 0600));
  if (!claim) throw Failure(exit_system, file + ": " + std::strerror(errno));
  if (::flock(claim.get(), LOCK_EX | LOCK_NB) == 0) return claim;
  if (errno == EWOULDBLOCK)
    say(log + ": what a command of a process before has started may run still: waiting for its end");
  while (::flock(claim.get(), LOCK_EX) != 0) {
    if (errno != EINTR) throw Failure(exit_system, file + ": " + std::strerror(errno));
  }
  return claim;
}

std::vector<std::string> environment_of(const ParticipateOptions& options, const SeriesGuard& guard) {
  std::vector<std::string> changes = guard.environment();
  changes.push_back("ZKR_PATH=" + options.path);
  changes.push_back("ZKR_PARTICIPANT=" + options.name);
  return changes;
}

/// If this process is killed, its guardian closes its session.
std::optional<zkclient::Subscription> guarded(const zkclient::Client& client, const Connection& connection,
                                              const SeriesGuard& guard) {
  if (!guard.guardian()) return std::nullopt;
  return guard_sessions(client, connection, *guard.guardian());
}

// --- What operators ask -------------------------------------------------------------------------------------------

std::string doubts_text(const CommitParticipant& participant) {
  json::array all;
  for (const InDoubtTransaction& doubt : participant.in_doubt()) {
    if (all.size() == most_listed) break;
    all.push_back(json::object{{"id", printable(doubt.id)},
                               {"state", zkrecipes::to_string(doubt.state)},
                               {"problem", printable(doubt.problem)}});
  }
  return json_text(all);
}

ControlAnswer answer_operator(CommitParticipant& participant, const std::string& request) {
  constexpr std::string_view commit = "commit ";
  constexpr std::string_view abort = "abort ";
  if (request == "in-doubt") return {.text = doubts_text(participant)};
  const bool commits = request.starts_with(commit);
  if (!commits && !request.starts_with(abort))
    return {.code = exit_usage, .text = "a participant knows no such question"};
  const std::string id = request.substr(commits ? commit.size() : abort.size());
  try {
    participant.resolve(id, commits);
    return {};
  } catch (const zkclient::Error&) {
    return {.code = exit_no_node, .text = id + ": no such transaction waits for an operator's word"};
  }
}

std::string ask_participant(const std::string& log, const std::string& request) {
  const auto socket = control_socket_of(log);
  const auto answer = socket ? ask_control(*socket, request) : std::nullopt;
  if (!answer) throw Failure(exit_no_server, log + ": no \"zkr commit participate\" runs with that log");
  if (answer->code != exit_success) throw Failure(static_cast<ExitCode>(answer->code), answer->text);
  return answer->text;
}

// --- participate --------------------------------------------------------------------------------------------------

class ServingParticipant {
 public:
  ServingParticipant(const Context& context, const ParticipateOptions& options, std::vector<std::string> words)
      : context_(context),
        connection_(connection_of(context.connection)),
        log_(std::make_shared<zkrecipes::FileLog>(options.log)),
        claim_(claim_commands(options.log)),
        guard_(claim_.get()),
        metrics_(count_into(context, options.metrics_file)),
        client_(connect(context, connection_)),
        sessions_(guarded(client_, connection_, guard_)),
        participant_(client_, zkclient::Path(options.path), options.name, std::exchange(log_, nullptr)),
        series_(signals_, &guard_),
        commands_(std::move(words), environment_of(options, guard_), series_),
        control_(ControlServer::open(control_socket_of(options.log).value_or(""),
                                     [this](const std::string& request, const ControlReply& reply) {
                                       reply(answer_operator(participant_, request));
                                     })) {}
  ServingParticipant(const ServingParticipant&) = delete;
  ServingParticipant& operator=(const ServingParticipant&) = delete;
  /// Whatever has happened, no command is asked for any more.
  ~ServingParticipant() {
    commands_.give_up();
    client_.close();
  }

  /// Until a signal comes. Errors: what ended it otherwise.
  int run() {
    participant_.async_serve(commands_.handlers(),
                             [this](zkclient::Result<void> result) { served_.put(std::move(result)); },
                             {.stop = stop_.get_token()});
    while (!served_.is_there()) {
      timer_.set(BootClock::now() + look_for_problems);
      wait_for_any({signals_.get(), served_.get(), commands_.get(), timer_.get()});
      series_.hear();
      if (series_.told_by() != 0) commands_.close();
      commands_.work();
      if (series_.told_by() != 0 || commands_.failure()) stop_.request_stop();
      if (!context_.quiet) tell_problems();
    }
    const zkclient::Result<void> result = served_.take();
    control_.reset();
    client_.close();
    metrics_.reset();
    sessions_.reset();
    guard_.close();
    if (const auto& failure = commands_.failure()) throw Failure(*failure);
    if (series_.told_by() != 0) die_of(series_.told_by());
    result.value();
    return exit_success;
  }

 private:
  /// Each once, while it is there.
  void tell_problems() {
    std::set<std::string> now;
    for (const InDoubtTransaction& doubt : participant_.in_doubt()) {
      if (!doubt.problem.empty()) now.insert(printable(doubt.id) + ": " + printable(doubt.problem));
    }
    for (const std::string& problem : now) {
      if (!told_.contains(problem)) say(problem);
    }
    told_ = std::move(now);
  }

  const Context& context_;
  const Connection connection_;
  std::shared_ptr<zkrecipes::FileLog> log_;
  const Descriptor claim_;
  SeriesGuard guard_;  // Before there are threads.
  Awaited<void> served_;
  std::unique_ptr<MetricsFile> metrics_;
  zkclient::Client client_;
  std::optional<zkclient::Subscription> sessions_;
  CommitParticipant participant_;
  const FollowedSignals signals_;
  CommandSeries series_;
  PhaseCommands commands_;
  std::unique_ptr<ControlServer> control_;
  std::stop_source stop_;
  BootTimer timer_;
  std::set<std::string> told_;
};

int run_participate(const Context& context, const ParticipateOptions& options) {
  return ServingParticipant(context, options, command_words(context, options.shell_line)).run();
}

// --- in-doubt, resolve --------------------------------------------------------------------------------------------

int run_in_doubt(const Context& context, const DoubtOptions& options) {
  const json::value listed = parse_json(ask_participant(options.log, "in-doubt"), "the participant's answer");
  std::vector<std::vector<std::string>> rows = {{"TRANSACTION", "STATE", "PROBLEM"}};
  for (const json::value& doubt : listed.as_array()) {
    if (context.json) write_line(doubt);
    std::vector<std::string> row;
    for (const char* member : {"id", "state", "problem"})
      row.emplace_back(doubt.as_object().at(member).as_string());
    rows.push_back(std::move(row));
  }
  if (!context.json && rows.size() > 1) write_bytes(table(rows));
  if (listed.as_array().size() == most_listed)
    say(fmt::format("no more than {} are listed: there may be others", most_listed));
  return exit_success;
}

int run_resolve(const Context& context, const DoubtOptions& options) {
  ask_participant(options.log, options.decision + " " + options.id);
  if (context.json) write_line(json::object{{"id", options.id}, {"decision", options.decision}});
  return exit_success;
}

}  // namespace

void add_commit_participate(CLI::App& commit, Context& context) {
  const auto participate = add_subcommand(
      commit, context, "participate", "Take part under a name: zkr commit participate PATH NAME --log FILE -- COMMAND",
      run_participate, true);
  participate->add_option("PATH", participate.options->path, "The two-phase commit")->required();
  participate->add_option("NAME", participate.options->name, "This participant's name, which stays the same")
      ->required();
  participate->add_option("--log", participate.options->log, "What it remembers, in a folder that survives a restart")
      ->required()
      ->type_name("FILE");
  participate->add_option("-c,--command", participate.options->shell_line, "Run this line by /bin/sh")
      ->type_name("LINE");
  add_metrics_option(*participate.app, participate.options->metrics_file);
  const auto in_doubt = add_subcommand(commit, context, "in-doubt",
                                       "What a participant on this machine has prepared and not applied", run_in_doubt);
  in_doubt->add_option("--log", in_doubt.options->log, "The participant's log")->required()->type_name("FILE");
  const auto resolve = add_subcommand(commit, context, "resolve",
                                      "Decide for a participant what nobody else can tell it any more", run_resolve);
  resolve->add_option("TRANSACTION", resolve.options->id, "The transaction's id")->required();
  resolve->add_option("DECISION", resolve.options->decision, "commit or abort")
      ->required()
      ->check(CLI::IsMember({"commit", "abort"}));
  resolve->add_option("--log", resolve.options->log, "The participant's log")->required()->type_name("FILE");
}

}  // namespace zkr
