#include <zkrecipes/migrations.hpp>

#include <algorithm>
#include <utility>

#include <fmt/format.h>

#include <zkrecipes/semaphore.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/migrations/migration_decider.hpp"

namespace zkrecipes {

using namespace words;
using detail::MigrationRecord;
using detail::MigrationVerdict;

namespace {

constexpr const char* migrations_recipe = "migrations";
constexpr const char* migrating = "migrate";
constexpr const char* planning = "migrations pending";
constexpr const char* building_set = "migration set";
constexpr std::string_view own_names = "_c_";

using CorePtr = std::shared_ptr<zk::ClientCore>;
using Records = std::vector<MigrationRecord>;

void refuse_set(const std::string& set, const std::string& why) {
  throw Error(Errc::invalid_argument, building_set, set, why);
}

// --- On the loop ----------------------------------------------------------------------------------------------------

/// What the server has: all records of a set in the order of their names. A read whose session ends is sent again.
Awaitable<Reply> list_records(CorePtr client, std::string folder, Call call) {
  for (;;) {
    Request children = zk::make_request(OpType::children, folder);
    Reply listed = co_await zk::fresh(client, std::move(children), call);
    if (listed.failed(Errc::session_lost) && !listed.given_up) continue;
    std::erase_if(listed.names, [](const std::string& name) { return !detail::is_record_name(name); });
    std::sort(listed.names.begin(), listed.names.end());
    co_return listed;
  }
}

Awaitable<Result<Records>> read_records(CorePtr client, std::string folder, Path shown, const char* operation,
                                        Call call) {
  for (;;) {
    Reply listed = co_await list_records(client, folder, call);
    if (listed.failed(Errc::no_node)) co_return Records();
    if (!listed.ok()) co_return zk::to_error(listed, operation, shown.str());
    std::vector<zk::PendingReply> reading;
    for (const std::string& name : listed.names)
      reading.push_back(client->launch(zk::make_request(OpType::get, zk::child_path(folder, name)), call));
    Records records;
    Reply failure;
    for (std::size_t i = 0; i < reading.size(); ++i) {
      Reply node = co_await reading[i].get();
      if (!node.ok()) failure = node;
      records.push_back(MigrationRecord{listed.names[i], std::move(node.data)});
    }
    if (failure.ok()) co_return records;
    const bool changed = failure.failed(Errc::no_node) || failure.failed(Errc::session_lost);
    if (!changed || failure.given_up) co_return zk::to_error(failure, operation, shown.str());
  }
}

// A container would go if it were empty for a moment, as it is behind the check that a record is missing, while a function
// runs. Curator's programs make one; a step that finds it gone makes it again.
Awaitable<Result<void>> ensure_folder(CorePtr client, std::string node, zkclient::AclList acl, Path shown, Call call) {
  Reply made = co_await zk::ensure(client, std::move(node), CreateMode::persistent, std::move(acl), call);
  // Only a step that was sent leaves its caller in doubt.
  if (made.failed(Errc::in_doubt) && made.given_up) made.error = made.given_up;
  if (!made.ok()) co_return zk::to_error(made, migrating, shown.str());
  co_return Result<void>();
}

/// How an attempt to apply a step ended, if not with an error.
enum class StepEnd {
  applied,
  unknown,      ///< The records tell.
  lock_lost,    ///< Nothing was applied.
  folder_gone,  ///< This attempt has applied nothing: there is no folder for the record.
};

/// A transaction of a step: a check of the lock, the record, and the step's changes. The order tells what was refused.
constexpr std::size_t lock_operation = 0;
constexpr std::size_t record_operation = 1;
constexpr std::size_t first_change = 2;

/// Which change of the step was refused; "": it was none of them.
std::string refused_change(const Transaction& changes, std::size_t operation) {
  const auto& all = changes.operations();
  const std::size_t change = operation - first_change;
  if (operation < first_change || change >= all.size()) return {};
  return fmt::format("operation {} of {}, {}", change + 1, all.size(), detail::describe_change(all[change]));
}

Awaitable<Result<StepEnd>> write_step(CorePtr client, Request write, Transaction changes, Path shown, Call call) {
  Reply written = co_await client->perform(std::move(write), call);
  if (written.ok()) co_return StepEnd::applied;
  if (written.unanswered()) co_return StepEnd::unknown;
  if (written.failed(Errc::session_lost) && !written.given_up) co_return StepEnd::lock_lost;
  if (const auto refused = written.refusal()) {
    if (refused->index == lock_operation && refused->code == zk::rc::no_node) co_return StepEnd::lock_lost;
    if (refused->index == record_operation) {
      if (refused->code == zk::rc::node_exists) co_return StepEnd::unknown;  // Another attempt has made it.
      if (refused->code == zk::rc::no_node) co_return StepEnd::folder_gone;
    }
    written.error = zk::rc::to_errc(refused->code);
    if (std::string change = refused_change(changes, refused->index); !change.empty())
      written.detail = std::move(change);
  }
  co_return zk::to_error(written, migrating, shown.str());
}

// --- One call -------------------------------------------------------------------------------------------------------

/// What all calls of an object share.
struct Shared {
  zkclient::Client client;
  Path lock;
  Path records;
  MigrationsOptions options;

  const CorePtr& core() const { return client.impl(); }
  Path folder(const MigrationSet& set) const { return records / set.name(); }
  std::string full(const Path& path) const { return core()->full(path); }
};
using SharedPtr = std::shared_ptr<const Shared>;

Records read_all(const Shared& shared, const MigrationSet& set, const char* operation, const CallOptions& call) {
  const Path folder = shared.folder(set);
  const zk::CallForm form(shared.core(), operation, folder.str());
  return form.wait(call, [client = shared.core(), folder, node = shared.full(folder), operation](Call limits) {
    return read_records(client, node, folder, operation, std::move(limits));
  });
}

std::vector<std::string> digests_of(const MigrationSet& set) {
  std::vector<std::string> digests;
  for (const MigrationStep& step : set.steps())
    digests.push_back(detail::digest_of(step));
  return digests;
}

/// How many of the steps were applied. Errors: foreign_node.
std::size_t require_history(const Shared& shared, const MigrationSet& set, const std::vector<std::string>& digests,
                            const Records& records, const char* operation) {
  const MigrationVerdict verdict = detail::judge_history(set, digests, records);
  if (verdict.why.empty()) return verdict.applied;
  throw Error(Errc::foreign_node, operation, shared.folder(set).str(), verdict.why);
}

/// Thrown through a function's transaction: it is not the lock's holder that would write.
struct LockLost {};

/// Applies what is pending, and again after a lost lock. It blocks its thread, which is the user's.
class MigrationRun {
 public:
  MigrationRun(const Shared& shared, const MigrationSet& set, const CallOptions& call)
      : shared_(shared), set_(set), call_(call), digests_(digests_of(set)) {}

  std::vector<std::string> run() {
    try {
      while (!run_locked()) {
      }
      return std::move(applied_);
    } catch (const Error& error) {
      if (!in_doubt_) throw;
      throw failure(Errc::in_doubt, set_.steps()[*in_doubt_], error.what());
    }
  }

 private:
  /// False: the lock was lost.
  bool run_locked() {
    std::optional<Lease> lease = acquire();
    if (!lease) return false;
    Records records = read_all(shared_, set_, migrating, call_);
    in_doubt_.reset();  // What was sent under a former lock is refused from now on.
    for (;;) {
      const std::size_t done = require_history(shared_, set_, digests_, records, migrating);
      if (in_doubt_ && *in_doubt_ < done) settle_doubt(*lease);
      if (done == set_.steps().size()) break;
      const StepEnd end = apply_from(done, std::move(records), *lease);
      if (end == StepEnd::lock_lost) return false;
      if (end == StepEnd::applied) break;
      records = read_all(shared_, set_, migrating, call_);
    }
    std::error_code it_is_given_back_in_the_background;
    lease->release(call_, it_is_given_back_in_the_background);
    return true;
  }

  std::optional<Lease> acquire() const {
    try {
      return Semaphore(shared_.client, shared_.lock / set_.name(), 1, {shared_.options.acl, shared_.options.id})
          .acquire(call_);
    } catch (const Error& error) {
      if (error.errc() != Errc::session_lost) throw;
      return std::nullopt;
    }
  }

  /// All steps from `next` on, until one of them does not tell that it was applied.
  StepEnd apply_from(std::size_t next, Records records, const Lease& lease) {
    make_folder();
    for (; next < set_.steps().size(); ++next) {
      const MigrationStep& step = set_.steps()[next];
      const std::string node = detail::next_record(records);
      const StepEnd end = apply(step, shared_.folder(set_) / node, digests_[next], lease);
      if (end == StepEnd::unknown) in_doubt_ = next;
      if (end != StepEnd::applied) return end;
      in_doubt_.reset();  // A former attempt would meet this record.
      applied_.push_back(step.name);
      records.push_back({node, digests_[next]});
    }
    return StepEnd::applied;
  }

  /// The record of the step in doubt is there. It is ours if the lock was held when it was read; else another process may
  /// have made it.
  void settle_doubt(const Lease& lease) {
    const std::string& step = set_.steps()[*std::exchange(in_doubt_, std::nullopt)].name;
    const bool locked = shared_.client.exists(lease.node(), call_).has_value();
    if (locked && lease.state() != LeaseState::lost) applied_.push_back(step);
  }

  void make_folder() const {
    const Path folder = shared_.folder(set_);
    const zk::CallForm form(shared_.core(), migrating, folder.str());
    form.wait(call_, [client = shared_.core(), folder, node = shared_.full(folder), acl = shared_.options.acl](
                         Call limits) { return ensure_folder(client, node, acl, folder, std::move(limits)); });
  }

  StepEnd apply(const MigrationStep& step, const Path& record, const std::string& digest, const Lease& lease) const {
    try {
      return step.function ? run_function(step, record, digest, lease) : commit(step, record, digest, lease);
    } catch (const Error& error) {
      throw failure(error.errc(), step, error.detail());
    }
  }

  StepEnd commit(const MigrationStep& step, const Path& record, const std::string& digest, const Lease& lease) const {
    Request write = zk::make_request(OpType::multi, shared_.full(record));
    write.operations.emplace_back(Check{Path(shared_.full(lease.node()))});
    write.operations.emplace_back(
        Transaction::Create{Path(shared_.full(record)), digest, CreateMode::persistent, shared_.options.acl});
    for (Transaction::Operation operation : step.changes.operations()) {
      std::visit([&](auto& one) { one.path = Path(shared_.full(one.path)); }, operation);
      write.operations.push_back(std::move(operation));
    }
    const zk::CallForm form(shared_.core(), migrating, record.str());
    return form.wait(call_, [client = shared_.core(), write = std::move(write), changes = step.changes, record](
                                Call limits) { return write_step(client, write, changes, record, std::move(limits)); });
  }

  StepEnd run_function(const MigrationStep& step, const Path& record, const std::string& digest,
                       const Lease& lease) const {
    Optimistic functions(shared_.client, shared_.records, {shared_.options.acl});
    bool was_there = false;
    enum class Part { lock, function, creation } part = Part::lock;
    const auto guarded = [&](OptimisticView& view) {
      part = Part::lock;  // A former attempt may have got further.
      if (!view.exists(lease.node())) throw LockLost();
      was_there = view.exists(record);
      if (was_there) return;
      part = Part::function;  // An exception is its own.
      step.function(view);
      part = Part::creation;
      view.create(record, digest);
    };
    try {
      functions.atomically(guarded, call_);
      return was_there ? StepEnd::unknown : StepEnd::applied;
    } catch (const LockLost&) {
      return StepEnd::lock_lost;
    } catch (const Error& error) {
      if (part == Part::creation && error.errc() == Errc::no_node) return StepEnd::folder_gone;
      if (part == Part::function || error.errc() != Errc::in_doubt) throw;
      return StepEnd::unknown;
    }
  }

  Error failure(Errc code, const MigrationStep& step, const std::string& why) const {
    return Error(code, migrating, shared_.folder(set_).str(),
                 fmt::format("set \"{}\", step \"{}\": {}", set_.name(), step.name, why));
  }

  const Shared& shared_;
  const MigrationSet& set_;
  const CallOptions& call_;
  const std::vector<std::string> digests_;
  std::vector<std::string> applied_;
  std::optional<std::size_t> in_doubt_;  // This step was sent, and may still be applied unseen.
};

// Of the blocking forms.
std::vector<std::string> migrate_now(const Shared& shared, const MigrationSet& set, const CallOptions& call) {
  return MigrationRun(shared, set, call).run();
}

std::vector<PendingStep> plan_now(const Shared& shared, const MigrationSet& set, const CallOptions& call) {
  const Records records = read_all(shared, set, planning, call);
  const std::size_t done = require_history(shared, set, digests_of(set), records, planning);
  std::vector<PendingStep> steps;
  for (std::size_t i = done; i < set.steps().size(); ++i) {
    PendingStep& step = steps.emplace_back(PendingStep{set.steps()[i].name, {}});
    for (const Transaction::Operation& operation : set.steps()[i].changes.operations())
      step.changes.push_back(detail::describe_change(operation));
  }
  return steps;
}

template <typename T>
using Blocking = T (*)(const Shared&, const MigrationSet&, const CallOptions&);

template <typename T>
Result<T> result_of_call(Blocking<T> blocking, const Shared& shared, const MigrationSet& set, const CallOptions& call,
                         const char* operation) {
  const auto failed = [&](const char* why) {
    return Error(Errc::invalid_argument, operation, shared.folder(set).str(), why);
  };
  try {
    return blocking(shared, set, call);
  } catch (const Error& error) {
    return error;
  } catch (const std::exception& error) {
    return failed(error.what());
  } catch (...) {
    return failed("the function threw no std::exception");
  }
}

Awaitable<Result<void>> nothing_on_loop() { co_return Result<void>(); }

/// The asynchronous form: first to the callback executor, where the call may block.
template <typename T>
void start_blocking(SharedPtr shared, MigrationSet set, const char* operation, Blocking<T> blocking,
                    zkclient::Handler<T> handler, const CallOptions& call) {
  const std::string path = shared->folder(set).str();
  zk::require_handler(handler, operation, path);
  const CorePtr core = shared->core();
  auto begin = [shared = std::move(shared), set = std::move(set), operation, blocking, call,
                handler = std::move(handler)](Result<void> may) mutable {
    handler(may ? result_of_call(blocking, *shared, set, call, operation) : Result<T>(may.error()));
  };
  const zk::CallForm form = zk::CallForm(core, operation, path).endless().unrecorded();
  form.start(
      call, [](Call) { return nothing_on_loop(); }, std::move(begin));
}

SharedPtr make_shared_migrations(zkclient::Client client, Path lock, Path records, MigrationsOptions options) {
  detail::require_acl(migrations_recipe, records, options.acl);
  const bool nested = lock.starts_with(records) || records.starts_with(lock);
  if (nested) {
    throw Error(Errc::invalid_argument, migrations_recipe, records.str(),
                fmt::format("neither the records nor the locks, {}, may be below the other", lock.str()));
  }
  return std::make_shared<const Shared>(
      Shared{std::move(client), std::move(lock), std::move(records), std::move(options)});
}

}  // namespace

// --- MigrationSet ---------------------------------------------------------------------------------------------------

MigrationSet::MigrationSet(std::string name) : name_(std::move(name)) {
  if (name_.starts_with(own_names)) refuse_set(name_, "names that begin with _c_ are the recipe's own");
  if (name_.find('/') != std::string::npos) refuse_set(name_, "the name is not one component of a path");
  try {
    (void)(Path() / name_);
  } catch (const Error& error) {
    refuse_set(name_, error.detail());
  }
}

void MigrationSet::require_step(const std::string& step) const {
  if (step.empty()) refuse_set(name_, "a step has no name");
  const auto same = [&](const MigrationStep& one) { return one.name == step; };
  if (std::any_of(steps_.begin(), steps_.end(), same)) refuse_set(name_, fmt::format("two steps are \"{}\"", step));
}

MigrationSet& MigrationSet::add(std::string step, Transaction changes) {
  require_step(step);
  if (changes.operations().empty()) refuse_set(name_, fmt::format("step \"{}\" changes nothing", step));
  for (const Transaction::Operation& operation : changes.operations()) {
    const auto* check = std::get_if<Check>(&operation);
    if (check != nullptr && check->session)
      refuse_set(name_, fmt::format("step \"{}\" checks {} for one session only", step, check->path.str()));
    const auto* create = std::get_if<Transaction::Create>(&operation);
    const bool stays = create == nullptr || create->mode == CreateMode::persistent ||
                       create->mode == CreateMode::persistent_sequential;
    if (!stays) refuse_set(name_, fmt::format("step \"{}\" makes {}, which does not stay", step, create->path.str()));
  }
  steps_.push_back({std::move(step), std::move(changes), {}});
  return *this;
}

MigrationSet& MigrationSet::add(std::string step, Optimistic::Function function) {
  require_step(step);
  if (!function) refuse_set(name_, fmt::format("step \"{}\" has no function", step));
  steps_.push_back({std::move(step), {}, std::move(function)});
  return *this;
}

// --- Migrations -----------------------------------------------------------------------------------------------------

struct Migrations::State {
  SharedPtr shared;
};

Migrations::Migrations(zkclient::Client client, Path lock, Path records, MigrationsOptions options)
    : state_(std::make_unique<State>(
          State{make_shared_migrations(std::move(client), std::move(lock), std::move(records), std::move(options))})) {}
Migrations::~Migrations() = default;
Migrations::Migrations(Migrations&&) noexcept = default;
Migrations& Migrations::operator=(Migrations&&) noexcept = default;

const Path& Migrations::path() const noexcept { return state_->shared->records; }

std::vector<std::string> Migrations::migrate(const MigrationSet& set, const CallOptions& call) {
  const SharedPtr shared = state_->shared;
  return migrate_now(*shared, set, call);
}
void Migrations::async_migrate(MigrationSet set, zkclient::Handler<std::vector<std::string>> handler,
                               const CallOptions& call) {
  start_blocking<std::vector<std::string>>(state_->shared, std::move(set), migrating, migrate_now, std::move(handler),
                                           call);
}

std::vector<PendingStep> Migrations::pending(const MigrationSet& set, const CallOptions& call) const {
  const SharedPtr shared = state_->shared;
  return plan_now(*shared, set, call);
}
void Migrations::async_pending(MigrationSet set, zkclient::Handler<std::vector<PendingStep>> handler,
                               const CallOptions& call) const {
  start_blocking<std::vector<PendingStep>>(state_->shared, std::move(set), planning, plan_now, std::move(handler),
                                           call);
}

}  // namespace zkrecipes
