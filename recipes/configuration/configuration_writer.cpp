#include "recipes/configuration/configuration_writer.hpp"

#include <algorithm>
#include <chrono>
#include <utility>

#include <fmt/format.h>

#include "recipes/kernel/contend.hpp"

namespace zkrecipes::detail {

namespace {

constexpr const char* publishing = "configuration publish";
constexpr const char* rolling_back = "configuration roll_back";
constexpr const char* listing_history = "configuration history";
constexpr std::string_view history_directory = "-history";
constexpr std::string_view slots_directory = "-writes";
constexpr std::size_t most_reads = 64;  // On their way at a time: a history may be long.

std::int64_t now_ms() {
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  return std::chrono::duration_cast<std::chrono::milliseconds>(now).count();
}

}  // namespace

/// The operations of a publication, and what the parts of them are about.
struct ConfigurationWriter::Prepared {
  Operations operations = {};
  std::vector<std::string> keys = {};  ///< Of the operations behind the record's.
  std::size_t history = 0;             ///< The first operation of the history.
};

/// Some of the history, by revision; or why it cannot be read.
struct ConfigurationWriter::Undos {
  std::map<std::int64_t, ConfigurationUndo> found = {};
  std::optional<Reply> failure = {};
};

ConfigurationWriter::ConfigurationWriter(std::shared_ptr<zk::ClientCore> client, Path path, Options options)
    : client_(std::move(client)),
      path_(std::move(path)),
      directory_(client_->full(path_)),
      history_(zk::child_path(directory_, history_directory)),
      options_(std::move(options)),
      once_(ExactlyOnceWriter::make(client_, zk::child_path(directory_, slots_directory), options_.acl)) {}

// --- Publishing ------------------------------------------------------------------------------------------------------

ConfigurationRecord ConfigurationWriter::sign(const PublicationPlan& plan) const {
  ConfigurationRecord record = plan.record;
  record.time_ms = now_ms();
  record.writer = zk::make_uuid();
  record.publisher = describe_process(options_.id);
  return record;
}

// `listed`: the names of the history. They change in publications only, which the record's version tells apart.
ConfigurationWriter::Prepared ConfigurationWriter::prepare(const PublicationPlan& plan,
                                                           const ConfigurationRecord& record,
                                                           const std::vector<std::string>& listed) const {
  Prepared prepared;
  Operations& operations = prepared.operations;
  operations.emplace_back(Transaction::Set{Path(directory_), encode(record), plan.version});
  for (const PlannedWrite& write : plan.writes) {
    const Path path(node(write.path));
    prepared.keys.push_back(write.path);
    switch (write.kind) {
      case PlannedWrite::Kind::create:
        operations.emplace_back(Transaction::Create{path, write.data, CreateMode::persistent, options_.acl});
        break;
      case PlannedWrite::Kind::set: operations.emplace_back(Transaction::Set{path, write.data, write.version}); break;
      case PlannedWrite::Kind::remove: operations.emplace_back(Transaction::Remove{path, write.version}); break;
    }
  }
  prepared.history = operations.size();
  const std::string name = history_name(plan.undo.record.revision);
  const Path undo(history_node(name));
  if (std::find(listed.begin(), listed.end(), name) == listed.end()) {
    operations.emplace_back(Transaction::Create{undo, encode(plan.undo), CreateMode::persistent, options_.acl});
  } else {  // Of a configuration that was here before, and lost its record.
    operations.emplace_back(Transaction::Set{undo, encode(plan.undo), any_version});
  }
  for (const std::string& outdated : outdated_history(listed, record.revision, options_.history))
    operations.emplace_back(Transaction::Remove{Path(history_node(outdated)), any_version});
  return prepared;
}

// Makes its directory, and all above it, as persistent nodes: the writer of the transaction would make containers.
Awaitable<Reply> ConfigurationWriter::list_history(Call call) {
  for (;;) {
    Request list = zk::make_request(OpType::children, history_);
    Reply listed = co_await zk::fresh(client_, std::move(list), call);
    if (!listed.failed(Errc::no_node)) co_return listed;
    Reply made = co_await zk::ensure(client_, history_, CreateMode::persistent, options_.acl, call);
    if (!made.ok()) co_return made;
  }
}

// The session that would have told is over; no request of it can be applied any more once the record changes.
Awaitable<ConfigurationWriter::Fate> ConfigurationWriter::find_fate(PlanPtr plan,
                                                                    std::shared_ptr<const ConfigurationRecord> record,
                                                                    Call call) {
  Request get = zk::make_request(OpType::get, directory_);
  Reply seen = co_await zk::fresh(client_, std::move(get), call);
  if (!seen.ok()) co_return Fate::unknown;
  const auto now = decode_record(seen.data);
  if (!now) co_return Fate::unknown;
  if (now->writer == record->writer) co_return Fate::applied;
  if (now->revision < record->revision) {
    co_return seen.stat.version == plan->version ? Fate::untouched : Fate::unknown;
  }
  if (now->revision == record->revision) co_return Fate::superseded;
  // Others have published since. The one after this revision has kept its record.
  Request look = zk::make_request(OpType::get, history_node(history_name(record->revision)));
  Reply kept = co_await zk::fresh(client_, std::move(look), call);
  const auto undo = kept.ok() ? decode_undo(kept.data) : std::nullopt;
  if (!undo) co_return Fate::unknown;
  co_return undo->record.writer == record->writer ? Fate::applied : Fate::superseded;
}

// A version does not tell a key from one that was made in its place, and had as many writes. The answer does, if it came.
Result<std::int64_t> ConfigurationWriter::published(const PublicationPlan& plan, const ConfigurationRecord& record,
                                                    const Written& written) const {
  const auto& results = written.reply.results;
  for (std::size_t i = 0; i < plan.writes.size() && i + 1 < results.size(); ++i) {
    const PlannedWrite& write = plan.writes[i];
    const auto& stat = results[i + 1].stat;  // Behind that of the record.
    if (write.kind != PlannedWrite::Kind::set || !stat || stat->czxid == write.czxid) continue;
    return Error(Errc::foreign_node, publishing, path_.str(),
                 fmt::format("{} was deleted and made again by hand; revision {} was published over its new value",
                             write.path, record.revision));
  }
  return record.revision;
}

Error ConfigurationWriter::error_of(Written written, const Prepared& prepared) const {
  const bool moved = written.outcome == Written::Outcome::refused &&
                     (written.code == zk::rc::no_node || written.code == zk::rc::node_exists ||
                      written.code == zk::rc::not_empty || written.code == zk::rc::bad_version);
  if (!moved) return std::move(written).error(publishing, path_.str());
  const bool of_record = written.index == 0;
  const std::string why = of_record
                              ? std::string("somebody published meanwhile, or changed the record")
                              : fmt::format("{} was edited by hand meanwhile", prepared.keys.at(written.index - 1));
  return Error(Errc::bad_version, publishing, path_.str(), why);
}

Awaitable<Result<std::int64_t>> ConfigurationWriter::publish(std::shared_ptr<ConfigurationWriter> self, PlanPtr plan,
                                                             Call call) {
  const auto record = std::make_shared<const ConfigurationRecord>(self->sign(*plan));
  bool doubtful = false;  // An attempt was sent, and its session ended before the answer.
  bool shortened = false;
  for (;;) {
    Reply listed = co_await self->list_history(call);
    if (!listed.ok()) {
      if (doubtful) listed.error = Errc::in_doubt;
      co_return zk::to_error(listed, publishing, self->path_.str());
    }
    const Prepared prepared = self->prepare(*plan, *record, listed.names);
    Operations operations = prepared.operations;
    Written written = co_await ExactlyOnceWriter::write(self->once_, std::move(operations), call);
    if (written.outcome == Written::Outcome::done) co_return self->published(*plan, *record, written);
    const bool lost = written.outcome == Written::Outcome::in_doubt && !written.reply.given_up;
    const bool overtaken = doubtful && written.outcome == Written::Outcome::refused && written.index == 0;
    if (lost || overtaken) {
      doubtful = true;
      const Fate fate = co_await self->find_fate(plan, record, call);
      if (fate == Fate::applied) co_return record->revision;
      if (fate == Fate::untouched && lost) continue;
      const bool superseded = fate == Fate::superseded;
      const Errc code = superseded ? Errc::bad_version : Errc::in_doubt;
      const char* why = superseded ? "somebody published meanwhile" : "the session was lost before the answer came";
      co_return Error(code, publishing, self->path_.str(), why);
    }
    const bool no_room = written.outcome == Written::Outcome::refused && written.index >= prepared.history &&
                         written.code == zk::rc::quota_exceeded;
    if (no_room && !std::exchange(shortened, true) && co_await self->shorten_history(listed.names, call)) continue;
    const bool history_moved =
        written.outcome == Written::Outcome::refused && written.index >= prepared.history &&
        (written.code == zk::rc::no_node || written.code == zk::rc::node_exists || written.code == zk::rc::not_empty);
    if (history_moved && written.code != zk::rc::not_empty) continue;  // An operator was at work there.
    if (doubtful && written.outcome == Written::Outcome::failed) written.outcome = Written::Outcome::in_doubt;
    if (history_moved)
      co_return Error(Errc::not_empty, publishing, self->path_.str(), "a node of the history has children");
    co_return self->error_of(std::move(written), prepared);
  }
}

// Makes room for what the next publication keeps of the one before it: by the oldest that is kept. False: there is none.
Awaitable<bool> ConfigurationWriter::shorten_history(std::vector<std::string> listed, Call call) {
  std::erase_if(listed, [](const std::string& name) { return !revision_of_history(name); });
  const auto oldest = std::min_element(listed.begin(), listed.end(), [](const std::string& a, const std::string& b) {
    return *revision_of_history(a) < *revision_of_history(b);
  });
  if (oldest == listed.end()) co_return false;
  const Reply removed = co_await client_->perform(zk::make_request(OpType::remove, history_node(*oldest)), call);
  co_return removed.ok() || removed.failed(Errc::no_node) || removed.unanswered();
}

// --- The history -----------------------------------------------------------------------------------------------------

Awaitable<ConfigurationWriter::Undos> ConfigurationWriter::read_undos(std::vector<std::string> names, Call call) {
  Undos undos;
  std::vector<PendingReply> pending;
  for (std::size_t i = 0;; ++i) {
    while (!undos.failure && pending.size() < std::min(names.size(), i + most_reads))
      pending.push_back(client_->launch(zk::make_request(OpType::get, history_node(names[pending.size()])), call));
    if (i == pending.size()) co_return undos;
    Reply read = co_await pending[i].get();
    if (read.failed(Errc::no_node) || undos.failure) continue;  // Another publication has dropped it.
    auto undo = read.ok() ? decode_undo(read.data) : std::nullopt;
    if (read.ok() && !undo) {
      read.error = Errc::foreign_node;
      read.detail = fmt::format("{}/{} is malformed", history_directory, names[i]);
    }
    if (undo) {
      undos.found.emplace(*revision_of_history(names[i]), std::move(*undo));
    } else {
      undos.failure = std::move(read);
    }
  }
}

Awaitable<Result<KeyChanges>> ConfigurationWriter::way_back(std::shared_ptr<ConfigurationWriter> self,
                                                            std::int64_t from, std::int64_t to, Call call) {
  Request list = zk::make_request(OpType::children, self->history_);
  Reply listed = co_await zk::fresh(self->client_, std::move(list), call);
  if (!listed.ok() && !listed.failed(Errc::no_node)) co_return zk::to_error(listed, rolling_back, self->path_.str());
  std::erase_if(listed.names, [from, to](const std::string& name) {
    const auto revision = revision_of_history(name);
    return !revision || *revision < to || *revision >= from || name != history_name(*revision);
  });
  // Whoever wrote the record by hand may have counted far beyond what there is.
  const auto is_whole = [from, to](std::size_t found) { return std::cmp_equal(found, from - to); };
  Undos undos;
  if (is_whole(listed.names.size())) undos = co_await self->read_undos(std::move(listed.names), call);
  if (undos.failure) co_return zk::to_error(*undos.failure, rolling_back, self->path_.str());
  if (!is_whole(undos.found.size())) {
    std::string why = fmt::format("the history does not reach back to revision {}", to);
    co_return Error(Errc::no_node, rolling_back, self->path_.str(), why);
  }
  KeyChanges changes;
  for (auto undo = undos.found.rbegin(); undo != undos.found.rend(); ++undo) {
    for (auto& [key, value] : undo->second.replaced)
      changes[key] = std::move(value);
  }
  co_return changes;
}

Awaitable<Result<std::vector<ConfigurationRevision>>> ConfigurationWriter::history(
    std::shared_ptr<ConfigurationWriter> self, Call call) {
  Request list = zk::make_request(OpType::children, self->history_);
  Reply listed = co_await self->client_->perform(std::move(list), call);
  std::vector<ConfigurationRevision> revisions;
  if (listed.failed(Errc::no_node)) co_return revisions;
  if (!listed.ok()) co_return zk::to_error(listed, listing_history, self->path_.str());
  std::erase_if(listed.names, [](const std::string& name) { return !revision_of_history(name); });
  Undos undos = co_await self->read_undos(std::move(listed.names), call);
  if (undos.failure) co_return zk::to_error(*undos.failure, listing_history, self->path_.str());
  for (auto& [revision, undo] : undos.found) {
    ConfigurationRevision shown;
    shown.revision = revision;
    shown.publisher = std::move(undo.record.publisher);
    shown.note = std::move(undo.record.note);
    shown.published = decltype(shown.published)(std::chrono::milliseconds(undo.record.time_ms));
    for (const auto& [key, value] : undo.replaced)
      shown.replaced.push_back(key);
    revisions.push_back(std::move(shown));
  }
  co_return revisions;
}

}  // namespace zkrecipes::detail
