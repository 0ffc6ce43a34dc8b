#include <algorithm>
#include <chrono>
#include <functional>
#include <optional>
#include <utility>

#include "recipes/inspection/look.hpp"
#include "recipes/jobs/job_format.hpp"
#include "recipes/kernel/single_node.hpp"
#include "recipes/kernel/single_node_decider.hpp"

namespace zkrecipes::detail {
namespace {

constexpr const char* runner_of_job = "runner";
constexpr std::size_t most_runs = 10;
// Of a job that always begins or ends a run between the two looks at its state.
constexpr int most_job_looks = 5;

SingleNodeSpecPtr runner_node(const Look& look) {
  SingleNodeSpec spec;
  spec.client = look.client;
  spec.path = look.path;
  spec.directory = look.full;
  spec.name = runner_of_job;
  return std::make_shared<const SingleNodeSpec>(std::move(spec));
}

std::vector<RecordName> latest_first(const NodeNames& names) {
  std::vector<RecordName> records;
  for (const std::string& name : names) {
    if (const auto record = parse_record_name(name)) records.push_back(*record);
  }
  std::sort(records.begin(), records.end(), std::greater<>());
  return records;
}

/// What `state` and `runner` say of the same moment.
struct StateAndRunner {
  Reply state;
  std::optional<Contender> runner = {};
  bool same_moment = false;
};

// The state is read before and behind the runner: if it is the same, nobody has begun or ended a run between.
Awaitable<Result<StateAndRunner>> read_state_and_runner(LookPtr look) {
  StateAndRunner seen;
  const PendingReply first = look->launch(OpType::get, look->child("state"));
  seen.state = co_await first.get();
  for (int i = 0; i < most_job_looks && seen.state.ok() && !seen.same_moment; ++i) {
    const std::int64_t before = seen.state.stat.mzxid;
    std::string operation = inspecting;
    auto reading = read_holder(runner_node(*look), std::move(operation), look->call);
    Result<std::optional<Contender>> runner = co_await std::move(reading);
    if (!runner) co_return runner.error();
    seen.runner = std::move(*runner);
    const PendingReply again = look->launch(OpType::get, look->child("state"));
    seen.state = co_await again.get();
    seen.same_moment = seen.state.ok() && seen.state.stat.mzxid == before;
  }
  if (!seen.state.ok() && !seen.state.failed(Errc::no_node)) co_return look->error(seen.state);
  co_return seen;
}

Awaitable<Result<std::vector<JobRun>>> read_runs(LookPtr look, std::vector<RecordName> records) {
  NodeNames nodes;
  const std::string history = look->child("history");
  for (std::size_t i = 0; i < std::min(most_runs, records.size()); ++i)
    nodes.push_back(zk::child_path(history, record_name(records[i].firing, records[i].attempt)));
  Result<std::vector<Reply>> replies = co_await read_replies(std::move(look), OpType::get, std::move(nodes));
  if (!replies) co_return replies.error();
  std::vector<JobRun> runs;
  for (const Reply& node : *replies) {
    auto run = node.ok() ? decode_run(node.data) : std::nullopt;
    if (run) runs.push_back(*std::move(run));
  }
  co_return runs;
}

}  // namespace

// A node of the name "state" alone is no job: it takes the text of one, or what else only a job has.
Awaitable<Result<Inspection>> find_job(LookPtr look, NodeNames children) {
  Inspection found;
  found.kind = RecipeKind::unknown;
  Result<StateAndRunner> seen = co_await read_state_and_runner(look);
  if (!seen) co_return seen.error();
  Result<NodeNames> history = co_await list_folder(look, look->child("history"));
  if (!history) co_return history.error();
  std::vector<RecordName> records = latest_first(*history);
  const Reply& state = seen->state;
  const bool has_runner = std::any_of(children.begin(), children.end(),
                                      [](const std::string& name) { return is_holding(name, runner_of_job); });
  InspectedJob job;
  if (state.ok()) job.status = decode_status(state.data, JobTime(std::chrono::milliseconds(state.stat.mtime_ms)));
  const bool written = job.status && !state.data.empty();
  if (!written && records.empty() && !has_runner) co_return found;
  job.records = records.size();
  job.abandoned = seen->same_moment && job.status && job.status->running && !seen->runner;
  Result<std::vector<JobRun>> runs = co_await read_runs(look, std::move(records));
  if (!runs) co_return runs.error();
  job.runs = std::move(*runs);
  found.kind = RecipeKind::periodic_job;
  found.naming = NodeNaming::own;
  if (seen->runner) found.contenders.push_back(std::move(*seen->runner));
  found.job = std::move(job);
  co_return found;
}

}  // namespace zkrecipes::detail
