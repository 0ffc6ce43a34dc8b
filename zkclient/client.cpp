#include <zkclient/client.hpp>

#include "zkclient/detail/calls.hpp"
#include "zkclient/detail/core.hpp"
#include "zkclient/detail/uuid.hpp"
#include "zkclient/detail/watch_state.hpp"

namespace zkclient {

using detail::Awaitable;
using detail::Call;
using detail::ClientCore;
using detail::Op;
using detail::OpType;
using detail::Reply;
using detail::Request;
using detail::WatchRegistry;

/// What the copies of a Client share.
struct Client::Handle {
  std::unique_ptr<Runtime> runtime;  // Only if the client made its own.
  std::shared_ptr<ClientCore> core;

  void close() {
    core->begin_close();
    core->finish_close();
    if (runtime != nullptr) runtime->impl()->stop();
  }
  ~Handle() {
    if (core == nullptr) return;
    if (!core->loop()->on_loop()) {
      close();
      return;
    }
    // The last copy was in something that the event loop let go, which must not wait for itself.
    const auto callbacks = core->callbacks();
    callbacks->post([runtime = std::move(runtime), core = std::move(core)] {
      core->begin_close();
      core->finish_close();
      if (runtime != nullptr) runtime->impl()->stop();
    });
  }
};

namespace {

using CorePtr = std::shared_ptr<ClientCore>;

/// A single request, and how its reply becomes the caller's result.
template <typename T>
struct Plan {
  Request request;
  std::string path;  // As the caller wrote it.
  std::function<T(Reply&)> convert;
  std::shared_ptr<detail::SessionState> bound = {};
  Errc also_success = Errc{};  // An "error" that is an answer (exists: no_node).
};

template <typename T>
Result<T> to_result(const Plan<T>& plan, Reply& reply) {
  if (reply.ok() || (plan.also_success != Errc{} && reply.failed(plan.also_success))) {
    if constexpr (std::is_void_v<T>) {
      return {};
    } else {
      return plan.convert(reply);
    }
  }
  return detail::to_error(reply, to_string(plan.request.type), plan.path);
}

template <typename T>
std::shared_ptr<Op> make_op(const CorePtr& core, Plan<T>& plan, const CallOptions& call) {
  auto op = std::make_shared<Op>();
  op->request = std::move(plan.request);
  plan.request.type = op->request.type;
  op->deadline = call.deadline.value_or(core->default_deadline());
  op->bound = plan.bound;
  return op;
}

template <typename T>
Result<T> run(const CorePtr& core, Plan<T> plan, const CallOptions& call) {
  detail::Slot<Reply> slot;
  const auto op = make_op(core, plan, call);
  op->done = [&slot](Reply reply) { slot.fill(std::move(reply)); };
  core->submit(op, call.stop);
  Reply reply = slot.take();
  return to_result(plan, reply);
}

template <typename T>
void start(const CorePtr& core, Plan<T> plan, const CallOptions& call, Handler<T> handler) {
  const auto op = make_op(core, plan, call);
  op->done = [core, plan = std::move(plan), handler = std::move(handler)](Reply reply) mutable {
    core->callbacks()->post([plan = std::move(plan), handler = std::move(handler), reply = std::move(reply)]() mutable {
      handler(to_result(plan, reply));
    });
  };
  core->submit(op, call.stop);
}

template <typename T>
T take(Result<T> result, std::error_code& error) {
  error = result.code();
  if constexpr (!std::is_void_v<T>) return result ? std::move(*result) : T{};
}

std::optional<std::string> own(DataView data) {
  if (!data) return std::nullopt;
  return std::string(*data);
}

bool is_ttl(CreateMode mode) {
  return mode == CreateMode::persistent_ttl || mode == CreateMode::persistent_sequential_ttl;
}

bool is_ephemeral(CreateMode mode) { return mode == CreateMode::ephemeral || mode == CreateMode::ephemeral_sequential; }

void check_create(const Path& path, const CreateOptions& options) {
  const auto refuse = [&](const char* why) { throw Error(Errc::invalid_argument, "create", path.str(), why); };
  if (is_ttl(options.mode) != (options.ttl.count() != 0)) refuse("a TTL mode needs a ttl, and only a TTL mode has one");
  if (options.ttl.count() < 0 || options.ttl.count() > 0xFF'FFFF'FFFF) refuse("the ttl is out of range");
  if (options.acl.empty()) throw Error(Errc::invalid_acl, "create", path.str(), "the list is empty");
}

void check_version(const char* operation, const Path& path, std::int32_t version) {
  if (version < any_version) throw Error(Errc::invalid_argument, operation, path.str(), "the version is negative");
}

Plan<Created> plan_create(const CorePtr& core, const Path& path, DataView data, const CreateOptions& options) {
  check_create(path, options);
  Request request = detail::make_request(OpType::create, core->full(path));
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
      const std::string marker = "_c_" + detail::make_uuid() + "-";
      Request request = plan.request;
      request.path = path;
      request.path.insert(slash + 1, marker);
      reply = co_await core->create_marked(std::move(request), parent, marker, call);
      if (reply.failed(Errc::in_doubt)) core->janitor_remove_marked(parent, marker, call.bound);
      const bool foreign = is_ephemeral(options.mode) && reply.ok() && reply.stat.ephemeral_owner != call.bound->id();
      if (foreign) {  // Nobody else can know our unique id, unless the session was replaced under us.
        core->janitor_remove(reply.path, nullptr);
        continue;
      }
    } else {
      Request request = plan.request;
      reply = co_await core->perform(std::move(request), call);
    }
    if (options.parents && reply.failed(Errc::no_node) && parent != "/") {
      Reply above = co_await core->ensure(parent, CreateMode::container, options.acl, call);
      if (!above.ok()) co_return detail::to_error(above, "create parents of", plan.path);
      continue;
    }
    co_return to_result(plan, reply);
  }
}

detail::Work<Created> careful_create(const CorePtr& core, const Path& path, DataView data,
                                     const CreateOptions& options) {
  return [core, plan = plan_create(core, path, data, options), options](Call call) {
    return create_with_care(core, plan, options, std::move(call));
  };
}

Plan<NodeData> plan_get(const CorePtr& core, const Path& path) {
  return {detail::make_request(OpType::get, core->full(path)), path.str(), [](Reply& reply) {
            return NodeData{std::move(reply.data), reply.is_null, reply.stat};
          }};
}

Plan<Stat> plan_set(const CorePtr& core, const Path& path, DataView data, std::int32_t version) {
  check_version("set", path, version);
  Request request = detail::make_request(OpType::set, core->full(path));
  request.data = own(data);
  request.version = version;
  return {std::move(request), path.str(), [](Reply& reply) { return reply.stat; }};
}

Plan<std::optional<Stat>> plan_exists(const CorePtr& core, const Path& path) {
  Plan<std::optional<Stat>> plan{detail::make_request(OpType::exists, core->full(path)), path.str(),
                                 [](Reply& reply) { return reply.ok() ? std::optional(reply.stat) : std::nullopt; }};
  plan.also_success = Errc::no_node;
  return plan;
}

Plan<Children> plan_children(const CorePtr& core, const Path& path) {
  return {detail::make_request(OpType::children, core->full(path)), path.str(), [](Reply& reply) {
            return Children{std::move(reply.names), reply.stat};
          }};
}

Plan<void> plan_remove(const CorePtr& core, const Path& path, std::int32_t version) {
  check_version("remove", path, version);
  Request request = detail::make_request(OpType::remove, core->full(path));
  request.version = version;
  return {std::move(request), path.str(), {}};
}

Plan<std::vector<OperationResult>> plan_commit(const CorePtr& core, const Transaction& transaction) {
  Request request = detail::make_request(OpType::multi, "/");
  Plan<std::vector<OperationResult>> plan;
  for (const Transaction::Operation& operation : transaction.operations()) {
    Transaction::Operation full = operation;
    std::visit([&](auto& op) { op.path = Path(core->full(op.path)); }, full);
    if (const auto* check = std::get_if<Check>(&operation); check != nullptr && check->session) {
      auto session = std::const_pointer_cast<detail::SessionState>(check->session->impl());
      if (plan.bound != nullptr && plan.bound != session) {
        throw Error(Errc::invalid_argument, "commit", check->path.str(), "guards of two different sessions");
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

// A read that arms a watch: the watch is registered on the loop, before anything else can happen there.
template <typename T>
Result<Watched<T>> run_watched(const CorePtr& core, Plan<T> plan, WatchRegistry::Kind kind, WatchHandler handler,
                               const CallOptions& call) {
  if (!handler) throw Error(Errc::invalid_argument, to_string(plan.request.type), plan.path, "no watch handler");
  plan.request.watch = true;
  auto state = std::make_shared<detail::WatchState>(core, plan.path, std::move(handler));
  const std::string full_path = plan.request.path;
  detail::Slot<Reply> slot;
  const bool watch_absent = plan.also_success == Errc::no_node;
  const auto op = make_op(core, plan, call);
  op->done = [&](Reply reply) {
    if (reply.ok() || (watch_absent && reply.failed(Errc::no_node))) {
      state->arm(kind, full_path, reply.session);
    }
    slot.fill(std::move(reply));
  };
  core->submit(op, call.stop);
  Reply reply = slot.take();
  Result<T> result = to_result(plan, reply);
  if (!result) return result.error();
  return Watched<T>{std::move(*result), Watch(std::move(state))};
}

}  // namespace

Client::Client(std::string_view hosts, ClientOptions options) : handle_(std::make_shared<Handle>()) {
  auto runtime = std::make_unique<Runtime>();
  handle_->core = ClientCore::start(runtime->impl(), hosts, std::move(options));
  handle_->runtime = std::move(runtime);
}

Client::Client(Runtime& runtime, std::string_view hosts, ClientOptions options) : handle_(std::make_shared<Handle>()) {
  handle_->core = ClientCore::start(runtime.impl(), hosts, std::move(options));
}

void Client::close() { handle_->close(); }
Session Client::session() const { return Session(handle_->core->session()); }
const Path& Client::prefix() const noexcept { return handle_->core->options().prefix; }
const std::shared_ptr<ClientCore>& Client::impl() const noexcept { return handle_->core; }

namespace {
Plan<Session> plan_connect() {
  return {detail::make_request(OpType::connect, "/"), "", [](Reply& reply) { return Session(reply.session); }};
}
}  // namespace

Session Client::connect(const CallOptions& call) const { return run(impl(), plan_connect(), call).value(); }
void Client::async_connect(Handler<Session> handler, const CallOptions& call) const {
  start(impl(), plan_connect(), call, std::move(handler));
}

Subscription Client::on_state_change(StateListener listener) const {
  if (!listener) throw Error(Errc::invalid_argument, "on_state_change", "", "no listener");
  return Subscription(impl()->subscribe(std::move(listener)));
}

namespace {
Result<Created> run_create(const CorePtr& core, const Path& path, DataView data, const CreateOptions& options,
                           const CallOptions& call) {
  if (!options.parents && !options.protection) return run(core, plan_create(core, path, data, options), call);
  return detail::wait_for_work<Created>(core, call, careful_create(core, path, data, options), "create", path.str());
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
    detail::start_work<Created>(impl(), call, careful_create(impl(), path, data, options), std::move(handler), "create",
                                path.str());
  }
}

void Client::ensure(const Path& path, CreateMode mode, const CallOptions& call) const {
  if (mode != CreateMode::container && mode != CreateMode::persistent) {
    throw Error(Errc::invalid_argument, "ensure", path.str(), "only container and persistent nodes can be parents");
  }
  detail::Work<void> work = [core = impl(), path, mode](Call limits) {
    return [](CorePtr owner, Path target, CreateMode kind, Call call_limits) -> Awaitable<Result<void>> {
      Reply reply = co_await owner->ensure(owner->full(target), kind, open_acl(), std::move(call_limits));
      if (!reply.ok()) co_return detail::to_error(reply, "ensure", target.str());
      co_return Result<void>();
    }(core, path, mode, std::move(limits));
  };
  detail::wait_for_work<void>(impl(), call, std::move(work), "ensure", path.str()).value();
}

NodeData Client::get(const Path& path, const CallOptions& call) const {
  return run(impl(), plan_get(impl(), path), call).value();
}
NodeData Client::get(const Path& path, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_get(impl(), path), call), error);
}
void Client::async_get(const Path& path, Handler<NodeData> handler, const CallOptions& call) const {
  start(impl(), plan_get(impl(), path), call, std::move(handler));
}
Watched<NodeData> Client::get_and_watch(const Path& path, WatchHandler handler, const CallOptions& call) const {
  return run_watched(impl(), plan_get(impl(), path), WatchRegistry::Kind::data, std::move(handler), call).value();
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

std::optional<Stat> Client::exists(const Path& path, const CallOptions& call) const {
  return run(impl(), plan_exists(impl(), path), call).value();
}
std::optional<Stat> Client::exists(const Path& path, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_exists(impl(), path), call), error);
}
void Client::async_exists(const Path& path, Handler<std::optional<Stat>> handler, const CallOptions& call) const {
  start(impl(), plan_exists(impl(), path), call, std::move(handler));
}
Watched<std::optional<Stat>> Client::exists_and_watch(const Path& path, WatchHandler handler,
                                                      const CallOptions& call) const {
  return run_watched(impl(), plan_exists(impl(), path), WatchRegistry::Kind::data, std::move(handler), call).value();
}

Children Client::children(const Path& path, const CallOptions& call) const {
  return run(impl(), plan_children(impl(), path), call).value();
}
Children Client::children(const Path& path, const CallOptions& call, std::error_code& error) const {
  return take(run(impl(), plan_children(impl(), path), call), error);
}
void Client::async_children(const Path& path, Handler<Children> handler, const CallOptions& call) const {
  start(impl(), plan_children(impl(), path), call, std::move(handler));
}
Watched<Children> Client::children_and_watch(const Path& path, WatchHandler handler, const CallOptions& call) const {
  return run_watched(impl(), plan_children(impl(), path), WatchRegistry::Kind::children, std::move(handler), call)
      .value();
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

void Client::remove_in_background(const Path& path, std::optional<Session> session) const {
  auto state = session ? std::const_pointer_cast<detail::SessionState>(session->impl()) : nullptr;
  impl()->loop()->post([core = impl(), full = impl()->full(path), state] { core->janitor_remove(full, state); });
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

void Client::sync(const Path& path, const CallOptions& call) const {
  const Plan<void> plan{detail::make_request(OpType::sync, impl()->full(path)), path.str(), {}};
  run(impl(), plan, call).value();
}

}  // namespace zkclient
