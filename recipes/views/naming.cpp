#include <zkrecipes/naming.hpp>

#include <algorithm>
#include <iterator>
#include <utility>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/acquirer.hpp"
#include "recipes/kernel/contend.hpp"
#include "recipes/kernel/exactly_once_writer.hpp"
#include "recipes/kernel/prepared_call.hpp"
#include "recipes/kernel/single_node.hpp"
#include "recipes/kernel/single_node_decider.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes {

using namespace words;
using detail::Acquirer;
using detail::ExactlyOnceWriter;
using detail::Patience;
using detail::PreparedCall;
using detail::SingleNodeSpec;
using detail::Written;

namespace {

constexpr const char* recipe = "naming";
constexpr const char* binding = "naming bind";
constexpr const char* making_unique = "naming make_unique";
constexpr const char* binding_for_good = "naming bind_permanent";
constexpr const char* rebinding = "naming rebind";
constexpr const char* unbinding = "naming unbind";
constexpr const char* resolving = "naming resolve";
constexpr const char* listing = "naming list";

constexpr std::string_view own_prefix = detail::holding_prefix;
constexpr const char* slots_name = "_c_writes";
constexpr std::size_t uuid_size = 36;

using Operations = std::vector<Transaction::Operation>;

/// The names of one directory. Shared, because every call needs it until its end.
struct Names {
  std::shared_ptr<zk::ClientCore> client;
  zkclient::Path path;    // As the user wrote it.
  std::string directory;  // The same, full.
  NamingOptions options;
  std::shared_ptr<ExactlyOnceWriter> writer;

  std::string node(std::string_view name) const { return zk::child_path(directory, std::string(name)); }
  std::string shown(std::string_view name) const { return (path / name).str(); }
};
using NamesPtr = std::shared_ptr<const Names>;

NamesPtr make_names(const zkclient::Client& client, const zkclient::Path& path, NamingOptions options) {
  detail::require_acl(recipe, path, options.acl);
  std::string directory = client.impl()->full(path);
  auto writer = ExactlyOnceWriter::make(client.impl(), zk::child_path(directory, slots_name), options.acl);
  return std::make_shared<const Names>(
      Names{client.impl(), path, std::move(directory), std::move(options), std::move(writer)});
}

void require_name(const Names& names, const char* operation, std::string_view name) {
  const auto refuse = [&](std::string_view why) {
    throw Error(Errc::invalid_argument, operation, names.path.str(), why);
  };
  if (name.empty()) refuse("the name is empty");
  if (name.find('/') != std::string_view::npos) refuse("the name has a slash: it is one component of a path");
  if (name.starts_with(own_prefix)) refuse("the name begins with _c_, as the recipe's own nodes do");
  try {
    (void)(names.path / name);
  } catch (const Error& error) {
    refuse("the name cannot be that of a node: the path " + error.detail());
  }
}

// --- Bindings with a lease ------------------------------------------------------------------------------------------

Acquirer make_acquirer(const zkclient::Client& owner, const Names& names, const char* operation, std::string_view name,
                       std::string_view data) {
  require_name(names, operation, name);
  SingleNodeSpec spec;
  spec.client = names.client;
  spec.path = names.shown(name);
  spec.directory = names.directory;
  spec.name = name;
  spec.acl = names.options.acl;
  spec.operation = operation;
  spec.watch_at_once = true;  // Names are held for long.
  spec.revocable = false;     // The data is the user's.
  spec.holding_data = detail::describe_process(names.options.id);
  auto get = [shared = std::make_shared<const SingleNodeSpec>(std::move(spec)), data = std::string(data)](
                 Patience patience, Call call) {
    return detail::contend_for_node(shared, data, patience, std::move(call));
  };
  detail::Acquisition acquisition{owner, names.path / name, recipe, operation, std::move(get)};
  return Acquirer(std::move(acquisition));
}

// --- Permanent bindings ---------------------------------------------------------------------------------------------

Error held_error(const Names& names, const char* operation, std::string_view name) {
  return Error(Errc::foreign_node, operation, names.shown(name), "a holder has the name, and its lease ends that");
}

// The failure of a write that was not done.
Error error_of(Written written, const Names& names, const char* operation, std::string_view name) {
  const bool held = written.outcome == Written::Outcome::refused && written.code == zk::rc::no_children_for_ephemerals;
  return held ? held_error(names, operation, name) : std::move(written).error(operation, names.shown(name));
}

// These fail if the name is a holder's: an ephemeral node has no children. A version would not tell, since it begins at
// 0 in each binding.
Operations permanence_check(const Names& names, std::string_view name) {
  const std::string child = zk::child_path(names.node(name), std::string(own_prefix) + zk::make_uuid());
  Operations operations;
  operations.emplace_back(
      Transaction::Create{zkclient::Path(child), std::string(), CreateMode::persistent, names.options.acl});
  operations.emplace_back(Transaction::Remove{zkclient::Path(child), any_version});
  return operations;
}

// If an operator deletes the node of a holder, the holder's second node is left until the holder knows. Its release
// would take a node that was made meanwhile for its own, so what is left of it goes first.
Operations removal_of_leftovers(const Names& names, const std::vector<std::string>& listed, std::string_view name) {
  Operations operations;
  for (const std::string& node : listed) {
    if (!detail::is_holding(node, name)) continue;
    operations.emplace_back(Transaction::Remove{zkclient::Path(names.node(node)), any_version});
  }
  return operations;
}

Awaitable<Reply> list_fresh(NamesPtr names, Call call) {
  Request list = zk::make_request(OpType::children, names->directory);
  Reply listed = co_await zk::fresh(names->client, std::move(list), call);
  co_return listed;
}

// The name was just bound for good. A holder that came and was robbed after the first list has left something, too. No
// other one can follow while the name is bound, so what this leaves stays. no_node: it is not bound any more.
Awaitable<Reply> settle_behind_robbed(NamesPtr names, std::string name, Call call) {
  for (;;) {
    Reply listed = co_await list_fresh(names, call);
    if (!listed.ok()) co_return listed;
    const bool bound = std::find(listed.names.begin(), listed.names.end(), name) != listed.names.end();
    if (!bound) listed.error = Errc::no_node;
    Operations operations = removal_of_leftovers(*names, listed.names, name);
    if (!bound || operations.empty()) co_return listed;
    // Not if the name was unbound meanwhile, and it is a new holder's.
    Operations checked = permanence_check(*names, name);
    const std::size_t checks = checked.size();
    std::move(operations.begin(), operations.end(), std::back_inserter(checked));
    Written written = co_await ExactlyOnceWriter::write(names->writer, std::move(checked), call);
    if (written.outcome == Written::Outcome::done) co_return listed;
    if (written.outcome != Written::Outcome::refused) co_return std::move(written.reply);
    if (written.code == zk::rc::no_children_for_ephemerals) co_return listed;
    if (written.code == zk::rc::no_node && written.index >= checks) continue;  // It went by itself.
    written.reply.error = zk::rc::to_errc(written.code);
    co_return std::move(written.reply);
  }
}

Awaitable<Result<void>> bind_permanent_on_loop(NamesPtr names, std::string name, std::string data, Call call) {
  for (;;) {
    Reply listed = co_await list_fresh(names, call);
    if (listed.failed(Errc::no_node)) {
      listed = co_await zk::ensure(names->client, names->directory, CreateMode::container, names->options.acl, call);
    }
    if (!listed.ok()) co_return zk::to_error(listed, binding_for_good, names->shown(name));
    Operations operations = removal_of_leftovers(*names, listed.names, name);
    const std::size_t creation = operations.size();
    operations.emplace_back(
        Transaction::Create{zkclient::Path(names->node(name)), data, CreateMode::persistent, names->options.acl});
    Written written = co_await ExactlyOnceWriter::write(names->writer, std::move(operations), call);
    if (written.outcome == Written::Outcome::done) {
      Reply settled = co_await settle_behind_robbed(names, name, call);
      if (settled.ok()) co_return Result<void>();
      // It was bound, and is not any more, or maybe not for long. Not again: that may have been an unbind.
      if (settled.failed(Errc::no_node)) settled.detail = "it was bound, but is not any more";
      settled.error = Errc::in_doubt;
      co_return zk::to_error(settled, binding_for_good, names->shown(name));
    }
    // A leftover went by itself, or the directory was removed: look again.
    const bool changed = written.outcome == Written::Outcome::refused && written.code == zk::rc::no_node;
    if (changed && written.index <= creation) continue;
    co_return error_of(std::move(written), *names, binding_for_good, name);
  }
}

Awaitable<Result<std::int32_t>> rebind_on_loop(NamesPtr names, std::string name, std::string data,
                                               std::int32_t expected, Call call) {
  for (;;) {
    std::int32_t version = expected;
    if (expected == any_version) {
      Request look = zk::make_request(OpType::exists, names->node(name));
      Reply seen = co_await zk::fresh(names->client, std::move(look), call);
      // A leader answers a sync before it has applied what clients of other servers know already.
      if (seen.failed(Errc::no_node)) {
        Request again = zk::make_request(OpType::exists, names->node(name));
        seen = co_await zk::fresh_by_quorum(names->client, std::move(again), call);
      }
      if (!seen.ok()) co_return zk::to_error(seen, rebinding, names->shown(name));
      version = seen.stat.version;
    }
    Operations operations = permanence_check(*names, name);
    operations.emplace_back(Transaction::Set{zkclient::Path(names->node(name)), data, version});
    Written written = co_await ExactlyOnceWriter::write(names->writer, std::move(operations), call);
    // The reply may have been lost, but each version is made by one write.
    if (written.outcome == Written::Outcome::done) {
      co_return static_cast<std::int32_t>(static_cast<std::uint32_t>(version) + 1);
    }
    const bool changed = written.outcome == Written::Outcome::refused && written.code == zk::rc::bad_version;
    if (changed && expected == any_version) continue;
    co_return error_of(std::move(written), *names, rebinding, name);
  }
}

Awaitable<Result<void>> unbind_on_loop(NamesPtr names, std::string name, std::int32_t expected, Call call) {
  Operations operations = permanence_check(*names, name);
  operations.emplace_back(Transaction::Remove{zkclient::Path(names->node(name)), expected});
  Written written = co_await ExactlyOnceWriter::write(names->writer, std::move(operations), call);
  if (written.outcome == Written::Outcome::done) co_return Result<void>();
  co_return error_of(std::move(written), *names, unbinding, name);
}

// --- Looking --------------------------------------------------------------------------------------------------------

Awaitable<Result<std::optional<Binding>>> resolve_on_loop(NamesPtr names, std::string name, Call call) {
  Request get = zk::make_request(OpType::get, names->node(name));
  Reply node = co_await names->client->perform(std::move(get), call);
  if (node.failed(Errc::no_node)) co_return std::optional<Binding>();
  if (!node.ok()) co_return zk::to_error(node, resolving, names->shown(name));
  std::optional<Binding> found(std::in_place);
  found->name = std::move(name);
  found->data = std::move(node.data);
  found->version = node.stat.version;
  found->token.value = node.stat.czxid;
  found->permanent = !detail::is_ephemeral(node.stat);
  co_return found;
}

Awaitable<Result<std::vector<std::string>>> list_on_loop(NamesPtr names, Call call) {
  Request children = zk::make_request(OpType::children, names->directory);
  Reply listed = co_await names->client->perform(std::move(children), call);
  if (listed.failed(Errc::no_node)) co_return std::vector<std::string>();
  if (!listed.ok()) co_return zk::to_error(listed, listing, names->path.str());
  std::vector<std::string> bound = std::move(listed.names);
  std::erase_if(bound, [](const std::string& name) { return name.starts_with(own_prefix); });
  std::sort(bound.begin(), bound.end());
  co_return bound;
}

// --- From a call to its coroutine -----------------------------------------------------------------------------------

zk::CallForm form_of(const NamesPtr& names, const char* operation, std::string_view name) {
  require_name(*names, operation, name);
  return zk::CallForm(names->client, operation, names->shown(name));
}

PreparedCall<void> prepare_bind(const NamesPtr& names, std::string_view name, std::string_view data) {
  zk::CallForm form = form_of(names, binding_for_good, name).payload(data.size());
  auto work = [names, name = std::string(name), data = std::string(data)](Call limits) {
    return bind_permanent_on_loop(names, name, data, std::move(limits));
  };
  return {std::move(form), std::move(work)};
}

PreparedCall<std::int32_t> prepare_rebind(const NamesPtr& names, std::string_view name, std::string_view data,
                                          std::int32_t expected) {
  zk::CallForm form = form_of(names, rebinding, name).payload(data.size());
  auto work = [names, name = std::string(name), data = std::string(data), expected](Call limits) {
    return rebind_on_loop(names, name, data, expected, std::move(limits));
  };
  return {std::move(form), std::move(work)};
}

PreparedCall<void> prepare_unbind(const NamesPtr& names, std::string_view name, std::int32_t expected) {
  zk::CallForm form = form_of(names, unbinding, name);
  auto work = [names, name = std::string(name), expected](Call limits) {
    return unbind_on_loop(names, name, expected, std::move(limits));
  };
  return {std::move(form), std::move(work)};
}

PreparedCall<std::optional<Binding>> prepare_resolve(const NamesPtr& names, std::string_view name) {
  zk::CallForm form = form_of(names, resolving, name);
  auto work = [names, name = std::string(name)](Call limits) {
    return resolve_on_loop(names, name, std::move(limits));
  };
  return {std::move(form), std::move(work)};
}

PreparedCall<std::vector<std::string>> prepare_list(const NamesPtr& names) {
  return {zk::CallForm(names->client, listing, names->path.str()),
          [names](Call limits) { return list_on_loop(names, std::move(limits)); }};
}

}  // namespace

struct Naming::State {
  State(zkclient::Client client, const zkclient::Path& directory, NamingOptions options)
      : owner(std::move(client)), names(make_names(owner, directory, std::move(options))) {}

  Acquirer binder(std::string_view name, std::string_view data) const {
    return make_acquirer(owner, *names, binding, name, data);
  }
  Acquirer unique(std::string_view prefix, std::string_view data) const {
    return make_acquirer(owner, *names, making_unique, std::string(prefix) + zk::make_uuid(), data);
  }

  zkclient::Client owner;  // Stays open for as long as it is used here.
  NamesPtr names;
};

Naming::Naming(zkclient::Client client, zkclient::Path directory, NamingOptions options)
    : state_(std::make_unique<State>(std::move(client), directory, std::move(options))) {}
Naming::~Naming() = default;
Naming::Naming(Naming&&) noexcept = default;
Naming& Naming::operator=(Naming&&) noexcept = default;

const zkclient::Path& Naming::path() const noexcept { return state_->names->path; }

Lease Naming::bind(std::string_view name, std::string_view data, const CallOptions& call) {
  return state_->binder(name, data).acquire(call);
}
void Naming::async_bind(std::string_view name, std::string_view data, zkclient::Handler<Lease> handler,
                        const CallOptions& call) {
  state_->binder(name, data).async_acquire(std::move(handler), call);
}

std::optional<Lease> Naming::try_bind(std::string_view name, std::string_view data, const CallOptions& call) {
  return state_->binder(name, data).try_acquire(call);
}
void Naming::async_try_bind(std::string_view name, std::string_view data,
                            zkclient::Handler<std::optional<Lease>> handler, const CallOptions& call) {
  state_->binder(name, data).async_try_acquire(std::move(handler), call);
}

std::optional<Lease> Naming::try_bind_for(std::string_view name, std::string_view data, Timeout timeout,
                                          WaitOptions options) {
  return state_->binder(name, data).try_acquire_for(timeout.get(), options);
}
std::optional<Lease> Naming::try_bind_until(std::string_view name, std::string_view data,
                                            std::chrono::steady_clock::time_point deadline, WaitOptions options) {
  return state_->binder(name, data).try_acquire_until(deadline, options);
}

Lease Naming::make_unique(std::string_view prefix, std::string_view data, const CallOptions& call) {
  return state_->unique(prefix, data).acquire(call);
}
void Naming::async_make_unique(std::string_view prefix, std::string_view data, zkclient::Handler<Lease> handler,
                               const CallOptions& call) {
  state_->unique(prefix, data).async_acquire(std::move(handler), call);
}

std::string Naming::name_of(const Lease& lease) {
  const std::string node = lease.node();
  const std::size_t begin = node.rfind('/') + 1 + own_prefix.size() + uuid_size + 1;
  return begin < node.size() ? node.substr(begin) : std::string();
}

void Naming::bind_permanent(std::string_view name, std::string_view data, const CallOptions& call) {
  prepare_bind(state_->names, name, data).wait(call);
}
void Naming::async_bind_permanent(std::string_view name, std::string_view data, zkclient::Handler<void> handler,
                                  const CallOptions& call) {
  prepare_bind(state_->names, name, data).start(std::move(handler), call);
}

std::int32_t Naming::rebind(std::string_view name, std::string_view data, std::int32_t expected_version,
                            const CallOptions& call) {
  return prepare_rebind(state_->names, name, data, expected_version).wait(call);
}
void Naming::async_rebind(std::string_view name, std::string_view data, std::int32_t expected_version,
                          zkclient::Handler<std::int32_t> handler, const CallOptions& call) {
  prepare_rebind(state_->names, name, data, expected_version).start(std::move(handler), call);
}

void Naming::unbind(std::string_view name, std::int32_t expected_version, const CallOptions& call) {
  prepare_unbind(state_->names, name, expected_version).wait(call);
}
void Naming::async_unbind(std::string_view name, std::int32_t expected_version, zkclient::Handler<void> handler,
                          const CallOptions& call) {
  prepare_unbind(state_->names, name, expected_version).start(std::move(handler), call);
}

std::optional<Binding> Naming::resolve(std::string_view name, const CallOptions& call) const {
  return prepare_resolve(state_->names, name).wait(call);
}
void Naming::async_resolve(std::string_view name, zkclient::Handler<std::optional<Binding>> handler,
                           const CallOptions& call) const {
  prepare_resolve(state_->names, name).start(std::move(handler), call);
}

std::vector<std::string> Naming::list(const CallOptions& call) const { return prepare_list(state_->names).wait(call); }
void Naming::async_list(zkclient::Handler<std::vector<std::string>> handler, const CallOptions& call) const {
  prepare_list(state_->names).start(std::move(handler), call);
}

}  // namespace zkrecipes
