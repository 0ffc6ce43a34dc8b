// commit ls, recover: the transactions of a two-phase commit, for operators.

#include <string>

#include <fmt/format.h>

#include <zkrecipes/two_phase_commit.hpp>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/commands.hpp"
#include "tools/zkr/commands/commit.hpp"

namespace zkr {
namespace {

using zkrecipes::CommitOutcome;
using zkrecipes::CommitStatus;

struct CommitPlace {
  std::string path;
};

struct CommitRecovery {
  std::string path;
  std::optional<std::chrono::nanoseconds> timeout;
};

const char* state_of(const CommitStatus& transaction) {
  if (!transaction.outcome) return "open";
  return transaction.outcome->committed ? "committed" : "aborted";
}

std::string reason_of(const CommitStatus& transaction) {
  return transaction.outcome ? printable(transaction.outcome->reason) : "";
}

json::object commit_json(const CommitStatus& transaction) {
  // They stand in the data of nodes, so they may be any bytes.
  const auto names = [](const std::vector<std::string>& list) {
    json::array array;
    for (const std::string& name : list)
      array.emplace_back(printable(name));
    return array;
  };
  const auto begun = std::chrono::system_clock::time_point(std::chrono::milliseconds(transaction.begun_ms));
  return {{"id", transaction.id},
          {"state", state_of(transaction)},
          {"reason", reason_of(transaction)},
          {"begun", utc_text(begun)},
          {"coordinated", transaction.coordinated},
          {"participants", names(transaction.participants)},
          {"voted", names(transaction.voted)},
          {"acknowledged", names(transaction.acknowledged)}};
}

std::vector<std::string> commit_row(const CommitStatus& transaction) {
  const auto begun = std::chrono::system_clock::time_point(std::chrono::milliseconds(transaction.begun_ms));
  const std::size_t all = transaction.participants.size();
  return {transaction.id,
          state_of(transaction),
          utc_text(begun),
          fmt::format("{}/{}", transaction.voted.size(), all),
          fmt::format("{}/{}", transaction.acknowledged.size(), all),
          transaction.coordinated ? "there" : "gone",
          reason_of(transaction)};
}

int run_commit_list(const Context& context, const CommitPlace& options) {
  const zkclient::Path path(options.path);
  const zkrecipes::CommitCoordinator coordinator(connect_to_look(context, path, "commit ls"), path);
  const std::vector<CommitStatus> transactions = coordinator.transactions();
  std::vector<std::vector<std::string>> rows = {
      {"TRANSACTION", "STATE", "BEGUN", "VOTED", "DONE", "COORDINATOR", "REASON"}};
  for (const CommitStatus& transaction : transactions) {
    if (context.json) write_line(commit_json(transaction));
    rows.push_back(commit_row(transaction));
  }
  if (!context.json && !transactions.empty()) write_bytes(table(rows));
  return exit_success;
}

int run_commit_recover(const Context& context, const CommitRecovery& options) {
  const zkclient::Path path(options.path);
  zkclient::CallOptions call;
  if (options.timeout) call.deadline = *options.timeout;
  const zkclient::Client client = connect_to_look(context, path, "commit recover");
  zkrecipes::CommitCoordinator coordinator(client, path);
  std::vector<CommitOutcome> outcomes;
  const auto write_all = [&] {
    for (const CommitOutcome& outcome : outcomes)
      write_outcome(context, outcome);
  };
  try {
    coordinator.recover(outcomes, call);
  } catch (const zkclient::Error& error) {
    write_all();  // Those that others have to finish.
    fail_wait(client, error);
  }
  write_all();
  return exit_success;
}

}  // namespace

void write_outcome(const Context& context, const CommitOutcome& outcome) {
  const char* state = outcome.committed ? "committed" : "aborted";
  const std::string reason = printable(outcome.reason);
  if (context.json) {
    write_line(json::object{{"id", outcome.id}, {"state", state}, {"reason", reason}});
  } else {
    write_line(outcome.id + " " + state + (reason.empty() ? "" : ": " + reason));
  }
}

void add_commit(CLI::App& app, Context& context) {
  CLI::App* commit = app.add_subcommand("commit", "Two-phase commit: run, participate; ls, recover, in-doubt, resolve");
  commit->require_subcommand(1);
  add_commit_run(*commit, context);
  add_commit_participate(*commit, context);
  const auto list = add_subcommand(*commit, context, "ls", "List the transactions that are there", run_commit_list);
  list->add_option("PATH", list.options->path, "The two-phase commit")->required();
  const auto recover = add_subcommand(
      *commit, context, "recover", "Decide and remove what coordinators that are gone have left", run_commit_recover);
  recover->add_option("PATH", recover.options->path, "The two-phase commit")->required();
  add_duration(*recover.app, "-w,--timeout", recover.options->timeout,
               "Do not wait longer than that for votes and acknowledgements");
}

}  // namespace zkr
