// leader, observe: who leads, and each change of it.

#include <chrono>
#include <memory>
#include <string>

#include <fmt/format.h>

#include <zkrecipes/inspect.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/unfair_leader_election.hpp>

#include "tools/zkr/cli/duration.hpp"
#include "tools/zkr/cli/metrics_file.hpp"
#include "tools/zkr/cli/output.hpp"
#include "tools/zkr/cli/session.hpp"
#include "tools/zkr/cli/subcommand.hpp"
#include "tools/zkr/commands/changes.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

using zkclient::Path;
using zkrecipes::Leader;

struct LeaderOptions {
  std::string path;
  std::string wait;  // "": do not.
  std::optional<std::chrono::nanoseconds> timeout;
  bool unfair = false;
};

struct ObserveOptions {
  std::string path;
  FollowOptions follow;
  bool unfair = false;
};

using SeenLeader = std::optional<Leader>;

/// The election at a path. It is known by its candidates: one without any is taken for a fair one, unless the caller
/// says otherwise.
class ObservedElection {
 public:
  ObservedElection(const zkclient::Client& client, const Path& path, bool unfair) {
    if (unfair || zkrecipes::inspect(client, path).kind == zkrecipes::RecipeKind::unfair_election) {
      unfair_.emplace(client, path);
    } else {
      fair_.emplace(client, path);
    }
  }
  const zkrecipes::Election& operator*() const {
    return fair_ ? static_cast<const zkrecipes::Election&>(*fair_) : *unfair_;
  }
  const zkrecipes::Election* operator->() const { return &**this; }

 private:
  std::optional<zkrecipes::LeaderElection> fair_;
  std::optional<zkrecipes::UnfairLeaderElection> unfair_;
};

json::value leader_json(const SeenLeader& leader) {
  if (!leader) return nullptr;
  json::object told;
  told["id"] = printable(leader->id);
  told["node"] = leader->node;
  told["term"] = leader->term.value;
  told["session"] = session_text(leader->session_id);
  told["ready"] = leader->ready;
  if (leader->value) {
    json::object value;
    add_data(value, *leader->value);
    for (auto& member : value)
      told["value" + std::string(member.key()).substr(4)] = member.value();  // "value" or "value_base64".
  } else {
    told["value"] = nullptr;
  }
  return told;
}

json::object seen_json(const Path& path, const SeenLeader& leader) {
  return {{"path", path.str()}, {"leader", leader_json(leader)}};
}

std::string line_of(const SeenLeader& leader) {
  if (!leader) return "nobody";
  std::string line =
      fmt::format("{} term={} {}", printable(leader->id), leader->term.value, leader->ready ? "ready" : "not-ready");
  if (leader->value) line += " " + printable(*leader->value);
  return line;
}

// --- leader -------------------------------------------------------------------------------------------------------

SeenLeader find(const zkclient::Client& client, const Path& path, const LeaderOptions& options) {
  const ObservedElection election(client, path, options.unfair);
  if (options.wait.empty()) return election->leader();
  zkclient::CallOptions call;
  if (options.timeout) call.deadline = *options.timeout;
  return election->wait_for_leader({.ready = options.wait == "ready"}, call);
}

int run_leader(const Context& context, const LeaderOptions& options) {
  const Path path(options.path);
  const zkclient::Client client = connect(context);
  SeenLeader leader;
  try {
    leader = find(client, path, options);
  } catch (const zkclient::Error& error) {
    if (options.wait.empty() || !options.timeout) throw;  // No time of the caller's is over.
    fail_wait(client, error);
  }
  if (context.json) {
    write_line(seen_json(path, leader));
  } else if (leader) {
    write_line(printable(leader->id));
  }
  if (!leader && !context.json && !context.quiet) say(path.str() + ": nobody leads");
  return leader ? exit_success : exit_no_node;
}

// --- observe ------------------------------------------------------------------------------------------------------

/// One that is too long for a variable (execve(2)) is in the JSON alone.
std::string value_variable(const SeenLeader& leader) {
  constexpr std::size_t longest = std::size_t{128} * 1024 - 1;  // With the zero behind it.
  if (!leader->value) return "ZKR_VALUE";
  std::string variable = "ZKR_VALUE=" + printable(*leader->value);
  return variable.size() <= longest ? variable : "ZKR_VALUE";
}

Change change_of(const Path& path, const SeenLeader& leader) {
  Change change;
  change.line = line_of(leader);
  change.object = seen_json(path, leader);
  change.environment = {"ZKR_PATH=" + path.str(), "ZKR_LEADER", "ZKR_TERM", "ZKR_READY", "ZKR_VALUE"};
  if (leader) {
    change.environment = {"ZKR_PATH=" + path.str(), "ZKR_LEADER=" + printable(leader->id),
                          fmt::format("ZKR_TERM={}", leader->term.value),
                          fmt::format("ZKR_READY={}", leader->ready ? 1 : 0), value_variable(leader)};
  }
  return change;
}

int run_observe(const Context& context, const ObserveOptions& options) {
  const Path path(options.path);
  const FollowedSignals signals;
  ChangeFeed feed;
  const auto counted = count_into(context, options.follow.metrics_file);
  const zkclient::Client client = connect(context);
  const ObservedElection election(client, path, options.unfair);
  const auto subscription = election->observe([&](const SeenLeader& leader) { feed.put(change_of(path, leader)); });
  return follow(context, options.follow, feed, signals);
}

}  // namespace

void add_leader(CLI::App& app, Context& context) {
  const auto command = add_subcommand(app, context, "leader", "Who leads", run_leader);
  LeaderOptions& options = *command.options;
  command->add_option("PATH", options.path, "The election")->required();
  command->add_flag("--wait{any}", options.wait, "Wait for a leader; --wait=ready: for one that is ready")
      ->check(CLI::IsMember({"any", "ready"}));
  add_duration(*command.app, "-w,--timeout", options.timeout, "With --wait: no longer than that");
  command->add_flag("--unfair", options.unfair, "An UnfairLeaderElection, which now has no leader to tell it by");
}

void add_observe(CLI::App& app, Context& context) {
  const auto command = add_subcommand(
      app, context, "observe", "Each change of the leader as a line, or what follows -- for each", run_observe, true);
  ObserveOptions& options = *command.options;
  command->add_option("PATH", options.path, "The election")->required();
  command->add_flag("--once", options.follow.once, "End after the first, with the exit code of its command");
  add_metrics_option(*command.app, options.follow.metrics_file);
  command->add_flag("--unfair", options.unfair, "An UnfairLeaderElection, which now has no leader to tell it by");
}

}  // namespace zkr
