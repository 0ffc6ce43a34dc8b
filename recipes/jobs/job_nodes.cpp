#include "recipes/jobs/job_nodes.hpp"

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include "recipes/jobs/job_format.hpp"
#include "recipes/kernel/waiter.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* reading_state = "periodic job read";
constexpr const char* claiming_firing = "periodic job claim";
constexpr const char* waiting_for_runner = "periodic job wait";
constexpr const char* asking_status = "periodic job status";
constexpr const char* asking_history = "periodic job history";
constexpr const char* removing_records = "periodic job prune";
constexpr std::string_view runner_name = "runner";
/// In Change's transaction.
constexpr std::size_t of_lease = 0, of_state = 1, of_record = 2;

JobTime server_time(std::int64_t ms) { return JobTime(std::chrono::milliseconds(ms)); }

}  // namespace

JobNodes::JobNodes(zkclient::Client client, zkclient::Path path, Options options)
    : owner_(std::move(client)),
      path_(std::move(path)),
      options_(std::move(options)),
      directory_(owner_.impl()->full(path_)),
      state_(zk::child_path(directory_, "state")),
      history_(zk::child_path(directory_, "history")),
      writer_(ExactlyOnceWriter::make(owner_.impl(), zk::child_path(directory_, "writes"), options_.acl)) {}

Error JobNodes::error(const Reply& reply, const char* operation) const {
  return zk::to_error(reply, operation, path_.str());
}

// --- The state --------------------------------------------------------------------------------------------------------

// A server that lags behind does no harm: a claim is refused if the state has changed since.
Awaitable<Result<JobNodes::Seen>> JobNodes::read(Self self, Call call) {
  for (;;) {
    Request get = zk::make_request(OpType::get, self->state_);
    Reply state = co_await self->client()->perform(std::move(get), call);
    if (state.failed(Errc::no_node)) {
      state = co_await zk::ensure(self->client(), self->state_, CreateMode::persistent, self->options_.acl, call);
      if (state.ok()) continue;
    }
    if (!state.ok()) co_return self->error(state, reading_state);
    std::optional<JobStatus> status = decode_status(state.data, server_time(state.stat.mtime_ms));
    if (!status) {
      const std::string node = self->client()->stripped(self->state_);
      co_return Error(Errc::foreign_node, reading_state, self->path_.str(), node + " holds no state of a job", node);
    }
    co_return Seen{*std::move(status), state.stat.version};
  }
}

Awaitable<Result<std::optional<JobStatus>>> JobNodes::status(Self self, Call call) {
  Request get = zk::make_request(OpType::get, self->state_);
  Reply state = co_await self->client()->perform(std::move(get), call);
  if (state.failed(Errc::no_node)) co_return std::optional<JobStatus>();
  if (!state.ok()) co_return self->error(state, asking_status);
  std::optional<JobStatus> status = decode_status(state.data, server_time(state.stat.mtime_ms));
  if (!status) {
    const std::string node = self->client()->stripped(self->state_);
    co_return Error(Errc::foreign_node, asking_status, self->path_.str(), node + " holds no state of a job", node);
  }
  co_return status;
}

// --- The lease --------------------------------------------------------------------------------------------------------

SingleNodeSpecPtr JobNodes::runner_node(std::int32_t version) const {
  SingleNodeSpec spec;
  spec.client = client();
  spec.path = path_.str();
  spec.directory = directory_;
  spec.name = runner_name;
  spec.parent_mode = CreateMode::persistent;
  spec.acl = options_.acl;
  spec.operation = claiming_firing;
  spec.requeue_on_session_loss = true;
  spec.watch_at_once = true;
  spec.revocable = false;
  spec.conditions.emplace_back(Check{Path(state_), version});
  return std::make_shared<const SingleNodeSpec>(std::move(spec));
}

Awaitable<Result<JobNodes::Claim>> JobNodes::claim(Self self, std::int32_t version, Call call) {
  std::string words = describe_process(self->options_.id);
  Result<LeasePtr> taken =
      co_await contend_for_node(self->runner_node(version), std::move(words), Patience::try_once, call);
  if (!taken && was_refused(taken.error())) co_return Claim();
  if (!taken) co_return taken.error();
  Claim claim;
  claim.busy = *taken == nullptr;
  if (claim.busy) co_return claim;
  claim.lease = Lease(std::move(*taken));
  const std::shared_ptr<LeaseCore>& core = claim.lease.impl();
  call.bound = core->session();
  Request get = zk::make_request(OpType::exists, core->grant().path);
  const Reply node = co_await self->client()->perform(std::move(get), call);
  if (node.failed(Errc::no_node) || node.failed(Errc::session_lost)) co_return Claim();
  if (!node.ok()) co_return self->error(node, claiming_firing);
  claim.server_time = server_time(node.stat.ctime_ms);
  co_return claim;
}

Awaitable<Result<void>> JobNodes::wait_until_free(Self self, Call call) {
  // On the heap: what it leaves to its wake-ups must not move.
  const auto waiter = std::make_unique<Waiter>(self->client(), call);
  Reply reply = co_await waiter->enter();
  if (reply.ok()) reply = co_await waiter->wait_until_gone(zk::child_path(self->directory_, runner_name), "run by");
  if (!reply.ok() && !reply.failed(Errc::session_lost)) co_return self->error(reply, waiting_for_runner);
  co_return Result<void>();
}

// --- Changes ----------------------------------------------------------------------------------------------------------

std::vector<Transaction::Operation> JobNodes::operations(const Change& change, bool record_is_there) const {
  std::vector<Transaction::Operation> all;
  all.emplace_back(Check{Path(change.lease->grant().path)});
  all.emplace_back(Transaction::Set{Path(state_), encode(change.status), change.version});
  if (!change.record) return all;
  const Path node(record_node(record_name(change.record->firing, change.record->attempt)));
  if (record_is_there) {
    all.emplace_back(Transaction::Set{node, encode(*change.record), any_version});
  } else {
    all.emplace_back(Transaction::Create{node, encode(*change.record), CreateMode::persistent, options_.acl});
  }
  return all;
}

Awaitable<Result<std::optional<Error>>> JobNodes::write(Self self, const char* operation, Change change, Call call) {
  call.bound = change.lease->session();
  bool record_is_there = false;  // Of a job whose state was removed by hand, and not its history.
  std::optional<Error> without_record;
  for (;;) {
    Written written = co_await self->writer_->write_bound(self->operations(change, record_is_there), call);
    if (written.outcome == Written::Outcome::done) co_return without_record;
    const bool missing = written.refused_at(of_record, zk::rc::no_node);
    if (missing && !std::exchange(record_is_there, false)) {
      Reply made =
          co_await zk::ensure(self->client(), self->history_, CreateMode::persistent, self->options_.acl, call);
      if (!made.ok()) without_record = self->error(made, operation);
      if (!made.ok()) change.record.reset();
    }
    if (missing) continue;
    if (written.refused_at(of_record, zk::rc::node_exists)) {
      record_is_there = true;
      continue;
    }
    if (written.refused_at(of_lease, zk::rc::no_node)) {
      co_return Error(Errc::not_held, operation, self->path_.str(), "the runner's node is gone");
    }
    if (written.refused_at(of_state, zk::rc::bad_version) || written.refused_at(of_state, zk::rc::no_node)) {
      const std::string node = self->client()->stripped(self->state_);
      co_return Error(Errc::bad_version, operation, self->path_.str(), node + " was changed by hand", node);
    }
    const bool record_refused = written.outcome == Written::Outcome::refused && written.index == of_record;
    Error failure = std::move(written).error(operation, self->path_.str());
    if (!record_refused) co_return failure;
    without_record = std::move(failure);
    change.record.reset();
  }
}

// --- The history ------------------------------------------------------------------------------------------------------

namespace {

/// Those of `names` that are of records, the latest first.
std::vector<RecordName> records_of(const std::vector<std::string>& names) {
  std::vector<RecordName> records;
  for (const std::string& name : names) {
    if (const auto record = parse_record_name(name)) records.push_back(*record);
  }
  std::sort(records.begin(), records.end(), std::greater<>());
  return records;
}

}  // namespace

Awaitable<Result<void>> JobNodes::prune(Self self, Call call) {
  Request list = zk::make_request(OpType::children, self->history_);
  const Reply listed = co_await self->client()->perform(std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return Result<void>();
  if (!listed.ok()) co_return self->error(listed, removing_records);
  const std::vector<RecordName> records = records_of(listed.names);
  std::vector<PendingReply> removals;
  for (std::size_t i = self->options_.history; i < records.size(); ++i) {
    const std::string node = self->record_node(record_name(records[i].firing, records[i].attempt));
    removals.push_back(self->client()->launch(zk::make_request(OpType::remove, node), call));
  }
  std::optional<Error> failure;
  for (PendingReply& removal : removals) {
    const Reply removed = co_await removal.get();
    if (!removed.ok() && !removed.failed(Errc::no_node)) failure = self->error(removed, removing_records);
  }
  if (failure) co_return *std::move(failure);
  co_return Result<void>();
}

Awaitable<Result<std::vector<JobRun>>> JobNodes::history(Self self, Call call) {
  std::vector<JobRun> runs;
  Request list = zk::make_request(OpType::children, self->history_);
  const Reply listed = co_await self->client()->perform(std::move(list), call);
  if (listed.failed(Errc::no_node)) co_return runs;
  if (!listed.ok()) co_return self->error(listed, asking_history);
  std::vector<PendingReply> pending;
  for (const RecordName& record : records_of(listed.names)) {
    const std::string node = self->record_node(record_name(record.firing, record.attempt));
    pending.push_back(self->client()->launch(zk::make_request(OpType::get, node), call));
  }
  std::optional<Error> failure;
  for (PendingReply& one : pending) {
    const Reply read = co_await one.get();
    if (read.failed(Errc::no_node)) continue;  // Pruned meanwhile.
    if (!read.ok()) failure = self->error(read, asking_history);
    auto run = read.ok() ? decode_run(read.data) : std::nullopt;
    if (run) runs.push_back(*std::move(run));
  }
  if (failure) co_return *std::move(failure);
  co_return runs;
}

}  // namespace zkrecipes::detail
