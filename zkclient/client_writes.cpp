// Writes: create, set, remove, transactions.

#include <zkclient/client.hpp>

#include "zkclient/detail/calls/deletes.hpp"
#include "zkclient/detail/calls/operations.hpp"
#include "zkclient/detail/calls/plan.hpp"
#include "zkclient/detail/uuid.hpp"

namespace zkclient {

using detail::Awaitable;
using detail::Call;
using detail::CallForm;
using detail::CorePtr;
using detail::make_request;
using detail::OpType;
using detail::own;
using detail::Plan;
using detail::Reply;
using detail::Request;
using detail::run;
using detail::start;
using detail::take;
using detail::Work;

namespace {

bool is_ttl(CreateMode mode) {
  return mode == CreateMode::persistent_ttl || mode == CreateMode::persistent_sequential_ttl;
}

bool is_ephemeral(CreateMode mode) { return mode == CreateMode::ephemeral || mode == CreateMode::ephemeral_sequential; }

void check_create(const Path& path, const CreateOptions& options) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, "create", path.str(), why); };
  if (is_ttl(options.mode) != (options.ttl.count() != 0)) refuse("a TTL mode needs a ttl, and only a TTL mode has one");
  if (options.ttl.count() < 0 || options.ttl.count() > 0xFF'FFFF'FFFF) refuse("the ttl is out of range");
  if (options.parent_mode != CreateMode::container && options.parent_mode != CreateMode::persistent) {
    refuse("parents are containers or persistent nodes");
  }
  detail::check_acl("create", path, options.acl);
  if (options.parents) detail::check_acl("create parents of", path, options.parent_acl);
}

Plan<Created> plan_create(const CorePtr& core, const Path& path, DataView data, const CreateOptions& options) {
  check_create(path, options);
  Request request = make_request(OpType::create, core->full(path));
  request.data = own(data);
  request.mode = options.mode;
  request.ttl_ms = is_ttl(options.mode) ? options.ttl.count() : -1;
  request.acl = options.acl;
  return {std::move(request), path.str(), [core](Reply& reply) {
            return Created{core->stripped(reply.path), reply.stat};
          }};
}

// Creates that take more than one request: parents first, or a name that can be found again.
Awaitable<Result<Created>> create_with_care(CorePtr core, Plan<Created> plan, CreateOptions options, Call call) {
  const std::string path = plan.request.path;
  const std::size_t slash = path.rfind('/');
  const std::string parent = slash == 0 ? "/" : path.substr(0, slash);
  for (;;) {
    Reply reply;
    if (options.protection) {
      if (is_ephemeral(options.mode)) {
        Reply connected = co_await core->connected(call);
        if (!connected.ok()) co_return detail::to_error(connected, "create", plan.path);
        call.bound = connected.session;
      }
      const std::shared_ptr<detail::SessionState> sender = core->current();
      const std::string marker = "_c_" + detail::make_uuid() + "-";
      Request request = plan.request;
      request.path = path;
      request.path.insert(slash + 1, marker);
      reply = co_await detail::create_marked(core, std::move(request), parent, marker, call);
      if (reply.failed(Errc::in_doubt)) {
        if (is_ephemeral(options.mode)) {
          detail::delete_marked_in_background(core, parent, marker, call.bound);
        } else {
          detail::delete_lasting_in_background(core, parent, marker, sender);
        }
      }
      const bool foreign = is_ephemeral(options.mode) && reply.ok() && reply.stat.ephemeral_owner != call.bound->id();
      if (foreign) {  // No other client can know our unique id, unless the session was replaced under us.
        detail::delete_in_background(core, reply.path, nullptr);
        continue;
      }
    } else {
      Request request = plan.request;
      reply = co_await core->perform(std::move(request), call);
    }
    if (options.parents && reply.failed(Errc::no_node) && parent != "/") {
      Reply above = co_await detail::ensure(core, parent, options.parent_mode, options.parent_acl, call);
      if (!above.ok()) co_return detail::to_error(above, "create parents of", plan.path);
      continue;
    }
    co_return to_result(plan, reply);
  }
}

// Of a call that takes several requests.
CallForm form(const char* operation, const CorePtr& core, const Path& path, DataView data) {
  CallForm form(core, operation, path.str());
  return form.payload(path.str().size() + (data ? data->size() : 0));
}

Work<Created> careful_create(const CorePtr& core, const Path& path, DataView data, const CreateOptions& options) {
  return [core, plan = plan_create(core, path, data, options), options](Call call) {
    return create_with_care(core, plan, options, std::move(call));
  };
}

Plan<Stat> plan_set(const CorePtr& core, const Path& path, DataView data, std::int32_t version) {
  Request request = make_request(OpType::set, core->full(path));
  request.data = own(data);
  request.version = version;
  return {std::move(request), path.str(), [](Reply& reply) { return reply.stat; }};
}

Plan<void> plan_remove(const CorePtr& core, const Path& path, std::int32_t version) {
  Request request = make_request(OpType::remove, core->full(path));
  request.version = version;
  return {std::move(request), path.str(), {}};
}

Plan<std::vector<OperationResult>> plan_commit(const CorePtr& core, const Transaction& transaction) {
  Request request = make_request(OpType::multi, "/");
  Plan<std::vector<OperationResult>> plan;
  for (const Transaction::Operation& operation : transaction.operations()) {
    Transaction::Operation full = operation;
    std::visit([&](auto& op) { op.path = Path(core->full(op.path)); }, full);
    if (const auto* check = std::get_if<Check>(&operation); check != nullptr && check->session) {
      auto session = std::const_pointer_cast<detail::SessionState>(check->session->impl());
      if (plan.bound != nullptr && plan.bound != session) {
        throw Error(Errc::invalid_argument, "commit", check->path.str(), "guards of two different sessions");
      }
      if (session != nullptr && session->is_of_another(core.get())) {
        throw Error(Errc::invalid_argument, "commit", check->path.str(),
                    "the guard is of another Client: commit there");
      }
      plan.bound = std::move(session);
    }
    request.operations.push_back(std::move(full));
  }
  plan.request = std::move(request);
  if (transaction.operations().empty()) {
    throw Error(Errc::invalid_argument, "commit", "", "the transaction is empty");
  }
  plan.path = std::visit([](const auto& op) { return op.path.str(); }, transaction.operations().front());
  plan.convert = [core](Reply& reply) {
    for (OperationResult& result : reply.results)
      result.path = core->stripped(result.path);
    return std::move(reply.results);
  };
  return plan;
}

Result<Created> run_create(const CorePtr& core, const Path& path, DataView data, const CreateOptions& options,
                           const CallOptions& call) {
  if (!options.parents && !options.protection) return run(core, plan_create(core, path, data, options), call);
  return form("create", core, path, data).result(call, careful_create(core, path, data, options));
}

// A set that can be told from those of other clients.
Work<Stat> resolving_set(const CorePtr& core, const Path& path, std::string_view data, const Stat& expected) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, "set_resolving", path.str(), why); };
  if (data.empty()) refuse("empty data cannot be told from other clients' data");
  if (expected.czxid == 0 || expected.version < 0) refuse("`expected` has to be a Stat that was read from the node");
  Request request = make_request(OpType::set, core->full(path));
  request.data = std::string(data);
  request.version = expected.version;
  return [core, request = std::move(request), expected, user_path = path.str()](Call limits) {
    return [](CorePtr owner, Request set, Stat before, std::string name, Call call) -> Awaitable<Result<Stat>> {
      Reply reply = co_await detail::set_resolving(owner, std::move(set), before, std::move(call));
      if (!reply.ok()) co_return detail::to_error(reply, "set_resolving", name);
      co_return reply.stat;
    }(core, request, expected, user_path, std::move(limits));
  };
}

}  // namespace

Created Client::create(const Path& path, DataView data, const CreateOptions& options, const CallOptions& call) const {
  return run_create(impl(), path, data, options, call).value();
}
Created Client::create(const Path& path, DataView data, const CreateOptions& options, const CallOptions& call,
                       std::error_code& error) const {
  return take(run_create(impl(), path, data, options, call), error);
}
void Client::async_create(const Path& path, DataView data, const CreateOptions& options, Handler<Created> handler,
                          const CallOptions& call) const {
  if (!options.parents && !options.protection) {
    start(impl(), plan_create(impl(), path, data, options), call, std::move(handler));
  } else {
    form("create", impl(), path, data).start(call, careful_create(impl(), path, data, options), std::move(handler));
  }
}

Stat Client::set(const Path& path, DataView data, std::int32_t version, const CallOptions& call) const {
  return run(impl(), plan_set(impl(), path, data, version), call).value();
}
Stat Client::set(const Path& path, DataView data, std::int32_t version, const CallOptions& call,
                 std::error_code& error) const {
  return take(run(impl(), plan_set(impl(), path, data, version), call), error);
}
void Client::async_set(const Path& path, DataView data, std::int32_t version, Handler<Stat> handler,
                       const CallOptions& call) const {
  start(impl(), plan_set(impl(), path, data, version), call, std::move(handler));
}

Stat Client::set_resolving(const Path& path, std::string_view data, const Stat& expected,
                           const CallOptions& call) const {
  return form("set_resolving", impl(), path, data).wait(call, resolving_set(impl(), path, data, expected));
}
Stat Client::set_resolving(const Path& path, std::string_view data, const Stat& expected, const CallOptions& call,
                           std::error_code& error) const {
  return take(form("set_resolving", impl(), path, data).result(call, resolving_set(impl(), path, data, expected)),
              error);
}
void Client::async_set_resolving(const Path& path, std::string_view data, const Stat& expected, Handler<Stat> handler,
                                 const CallOptions& call) const {
  form("set_resolving", impl(), path, data)
      .start(call, resolving_set(impl(), path, data, expected), std::move(handler));
}

void Client::remove(const Path& path, std::int32_t version, const CallOptions& call) const {
  run(impl(), plan_remove(impl(), path, version), call).value();
}
void Client::remove(const Path& path, std::int32_t version, const CallOptions& call, std::error_code& error) const {
  take(run(impl(), plan_remove(impl(), path, version), call), error);
}
void Client::async_remove(const Path& path, std::int32_t version, Handler<void> handler,
                          const CallOptions& call) const {
  start(impl(), plan_remove(impl(), path, version), call, std::move(handler));
}

std::vector<OperationResult> Client::commit(const Transaction& transaction, const CallOptions& call) const {
  return run(impl(), plan_commit(impl(), transaction), call).value();
}
std::vector<OperationResult> Client::commit(const Transaction& transaction, const CallOptions& call,
                                            std::error_code& error) const {
  return take(run(impl(), plan_commit(impl(), transaction), call), error);
}
void Client::async_commit(const Transaction& transaction, Handler<std::vector<OperationResult>> handler,
                          const CallOptions& call) const {
  start(impl(), plan_commit(impl(), transaction), call, std::move(handler));
}

}  // namespace zkclient
