#include "recipes/values/optimistic_run.hpp"

#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/single_node_decider.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* running = "atomically";

using Nodes = std::vector<std::pair<std::string, SeenNode>>;

// --- On the loop ----------------------------------------------------------------------------------------------------

/// `error`: of another kind than that it is missing.
struct Looked {
  std::string path;
  SeenNode node;
  std::optional<Reply> error;
};

// The first node of the path that does not exist: its parent does.
Awaitable<Looked> find_missing(std::shared_ptr<zk::ClientCore> client, Looked looked, Call call) {
  looked.node.missing = looked.path;
  for (;;) {
    std::string parent = zk::parent_of(looked.node.missing);
    Request exists = zk::make_request(OpType::exists, parent);
    Reply above = co_await client->perform(std::move(exists), call);
    if (above.ok()) co_return looked;
    if (!above.failed(Errc::no_node) || parent == looked.node.missing) {
      looked.error = std::move(above);
      co_return looked;
    }
    looked.node.missing = std::move(parent);
  }
}

Awaitable<Looked> settle_look(std::shared_ptr<zk::ClientCore> client, std::string path, Reply reply, Call call) {
  Looked looked;
  looked.path = std::move(path);
  if (reply.failed(Errc::no_node)) {
    looked = co_await find_missing(std::move(client), std::move(looked), std::move(call));
    co_return looked;
  }
  looked.node.exists = reply.ok();
  looked.node.version = reply.stat.version;
  looked.node.czxid = reply.stat.czxid;
  looked.node.data = std::move(reply.data);
  if (!reply.ok()) looked.error = std::move(reply);
  co_return looked;
}

// In one flight; behind a sync if `fresh`, or a server that lags behind would tell the same again.
Awaitable<Result<Nodes>> read_nodes(OptimisticSpecPtr spec, std::vector<std::string> paths, bool fresh, Call call) {
  PendingReply syncing;
  if (fresh) syncing = spec->client->launch(zk::make_request(OpType::sync, "/"), call);
  std::vector<PendingReply> reading;
  for (const std::string& path : paths)
    reading.push_back(spec->client->launch(zk::make_request(OpType::get, path), call));
  std::optional<Reply> failed;
  if (fresh) {
    Reply synced = co_await syncing.get();
    if (!synced.ok()) failed = std::move(synced);
  }
  std::vector<Reply> replies;
  for (const PendingReply& one : reading) {
    Reply reply = co_await one.get();
    replies.push_back(std::move(reply));
  }
  Nodes nodes;
  for (std::size_t i = 0; i < paths.size() && !failed; ++i) {
    Looked looked = co_await settle_look(spec->client, paths[i], std::move(replies[i]), call);
    if (looked.error) failed = std::move(looked.error);
    nodes.emplace_back(paths[i], std::move(looked.node));
  }
  if (failed) co_return zk::to_error(*failed, running, spec->path.str());
  co_return nodes;
}

// nullopt: there is no such node.
Awaitable<Result<std::optional<SeenList>>> read_list(OptimisticSpecPtr spec, std::string path, bool fresh, Call call) {
  Reply reply;
  Request list = zk::make_request(OpType::children, path);
  if (fresh) {
    reply = co_await zk::fresh(spec->client, std::move(list), call);
  } else {
    reply = co_await spec->client->perform(std::move(list), call);
  }
  if (reply.failed(Errc::no_node)) co_return std::optional<SeenList>();
  if (!reply.ok()) co_return zk::to_error(reply, running, spec->path.str());
  SeenList seen;
  seen.created = creations_of(reply.stat);
  seen.fixed = is_ephemeral(reply.stat);
  seen.names = std::move(reply.names);
  co_return std::optional<SeenList>(std::move(seen));
}

Awaitable<Result<Written>> write(OptimisticSpecPtr spec, std::vector<Transaction::Operation> operations, Call call) {
  Written written = co_await ExactlyOnceWriter::write(spec->writer, std::move(operations), std::move(call));
  co_return written;
}

std::string path_of(const Transaction::Operation& operation) {
  return std::visit([](const auto& one) { return one.path.str(); }, operation);
}

}  // namespace

zk::CallForm OptimisticSpec::form() const { return zk::CallForm(client, running, path.str()); }

// One deadline for all of it.
OptimisticRun::OptimisticRun(OptimisticSpecPtr spec, const Optimistic::Function& function, zkclient::CallOptions call)
    : spec_(std::move(spec)), function_(function), call_(std::move(call)) {}

void OptimisticRun::fail(Errc error, const Path& path, std::string_view detail) const {
  throw Error(error, running, spec_->path.str(), fmt::format("{}{}", path.str(), detail), path.str());
}

void OptimisticRun::run() {
  while (!try_once())
    read_again();
}

bool OptimisticRun::try_once() {
  ++attempt_;
  OptimisticView view(*this);
  std::exception_ptr thrown;
  try {
    function_(view);
  } catch (...) {
    thrown = std::current_exception();
  }
  if (broken_) std::rethrow_exception(broken_);
  if (thrown == nullptr) return commit(true);
  try {
    // It may have thrown because of what never was true at one time.
    if (!commit(false)) return false;
  } catch (const Error&) {
    // Not known: then its own exception says more.
  }
  std::rethrow_exception(thrown);
}

void OptimisticRun::read_again() {
  std::vector<std::string> paths = set_.paths();
  set_ = TransactionSet();
  auto work = [spec = spec_, paths = std::move(paths)](Call limits) {
    return read_nodes(spec, paths, true, std::move(limits));
  };
  for (auto& [path, node] : spec_->form().wait(call_, std::move(work)))
    set_.add(path, std::move(node));
}

template <typename T, typename Work>
T OptimisticRun::read(const Path& path, Work work) {
  if (broken_) std::rethrow_exception(broken_);
  Result<T> result = spec_->form().result(call_, std::move(work));
  if (!result) {
    const Error& why = result.error();
    broken_ = std::make_exception_ptr(
        Error(why.errc(), running, spec_->path.str(), fmt::format("{}: {}", path.str(), why.detail()), path.str()));
    std::rethrow_exception(broken_);
  }
  return std::move(*result);
}

std::string OptimisticRun::known(const Path& path) {
  std::string full = spec_->client->full(path);
  if (set_.knows(full)) return full;
  auto work = [spec = spec_, full](Call limits) {
    return read_nodes(spec, std::vector<std::string>{full}, false, std::move(limits));
  };
  set_.add(full, std::move(read<Nodes>(path, std::move(work)).front().second));
  return full;
}

const std::optional<std::string>& OptimisticRun::data(const Path& path) { return set_.data(known(path)); }

std::vector<std::string> OptimisticRun::names(const Path& path) {
  const std::string full = spec_->client->full(path);
  const bool gone = set_.knows(full) && !set_.data(full);
  if (gone) fail(Errc::no_node, path, " does not exist");
  if (!set_.knows_list(full)) {
    auto work = [spec = spec_, full, fresh = attempt_ > 1](Call limits) {
      return read_list(spec, full, fresh, std::move(limits));
    };
    auto list = read<std::optional<SeenList>>(path, std::move(work));
    if (!list) {
      // That it is missing has to be checked, too; and this function may have made it.
      if (!set_.data(known(path))) fail(Errc::no_node, path, " does not exist");
      list.emplace();
      list->fixed = !set_.existed(full);  // Else another client has made it since, and the probe finds what is below.
    }
    set_.add_list(full, std::move(*list));
  }
  return set_.names(full);
}

void OptimisticRun::set(const Path& path, std::string_view data) {
  if (set_.set(known(path), std::string(data))) fail(Errc::no_node, path, " does not exist");
}

void OptimisticRun::create(const Path& path, std::string_view data) {
  const auto error = set_.create(known(path), std::string(data));
  if (error == Errc::node_exists) fail(*error, path, " is there already");
  if (error) fail(*error, path, " has no parent");
}

void OptimisticRun::remove(const Path& path) {
  const auto error = set_.remove(known(path));
  if (error == Errc::not_empty) fail(*error, path, " has children");
  if (error) fail(*error, path, " does not exist");
}

bool OptimisticRun::commit(bool writing) {
  const std::string uncheckable = set_.uncheckable();
  if (!uncheckable.empty()) {
    fail(Errc::bad_version, Path(spec_->client->stripped(uncheckable)), " has the version -1, which means any");
  }
  const std::vector<Transaction::Operation> operations = set_.operations(spec_->options.acl, zk::make_uuid(), writing);
  if (operations.empty()) return true;
  auto work = [spec = spec_, operations](Call limits) { return write(spec, operations, std::move(limits)); };
  Written written = spec_->form().wait(call_, std::move(work));
  switch (written.outcome) {
    case Written::Outcome::done: break;
    case Written::Outcome::refused:
      if (set_.is_conflict(path_of(operations[written.index]), written.code)) return false;
      [[fallthrough]];
    case Written::Outcome::in_doubt:
    case Written::Outcome::failed: throw std::move(written).error(running, spec_->path.str());
  }
  for (std::size_t i = 0; i < written.reply.results.size(); ++i) {
    const std::string path = path_of(operations[i]);
    const SeenNode* seen = set_.first_set(path);
    const auto& stat = written.reply.results[i].stat;
    if (seen == nullptr || !stat || stat->czxid == seen->czxid) continue;
    fail(Errc::foreign_node, Path(spec_->client->stripped(path)),
         " was deleted and made again; this was written over its new data");
  }
  return true;
}

}  // namespace zkrecipes::detail
