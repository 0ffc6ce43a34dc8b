#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>

#include "zkclient/detail/calls/calls.hpp"
#include "zkclient/detail/calls/watch_state.hpp"
#include "zkclient/detail/session/core.hpp"

/// The calls of Client that are one request each, in their blocking and their asynchronous form.
namespace zkclient::detail {

using CorePtr = std::shared_ptr<ClientCore>;

/// A single request, and how its reply becomes the caller's result.
template <typename T>
struct Plan {
  Request request;
  std::string path;  // As the caller wrote it.
  std::function<T(Reply&)> convert;
  std::shared_ptr<SessionState> bound = {};
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
  if (const auto refusal = reply.refusal()) {
    return Error(Errc::transaction_failed, to_string(plan.request.type), plan.path, reply.detail,
                 RefusedOperation{refusal->index, rc::to_errc(refusal->code)});
  }
  return to_error(reply, to_string(plan.request.type), plan.path);
}

template <typename T>
std::shared_ptr<Op> make_op(const CorePtr& core, Plan<T>& plan, const CallOptions& call) {
  auto op = std::make_shared<Op>();
  op->request = std::move(plan.request);
  plan.request.type = op->request.type;
  op->deadline = call.deadline.value_or(core->default_deadline());
  op->bound = plan.bound;
  op->record = core->record(to_string(op->request.type), plan.path, false, plan.also_success);
  return op;
}

template <typename T>
Result<T> run(const CorePtr& core, Plan<T> plan, const CallOptions& call) {
  BlockedCall<Reply> blocked;
  const auto op = make_op(core, plan, call);
  op->done = [&blocked](Reply reply) { blocked.fill(std::move(reply)); };
  core->submit(op, call.stop);
  Reply reply = blocked.take();
  return to_result(plan, reply);
}

template <typename T>
void start(const CorePtr& core, Plan<T> plan, const CallOptions& call, Handler<T> handler) {
  require_handler(handler, to_string(plan.request.type), plan.path);
  const auto op = make_op(core, plan, call);
  op->done = [core, plan = std::move(plan), handler = std::move(handler)](Reply reply) mutable {
    Admission held(core, reply.size());
    core->callbacks()->post([held = std::move(held), plan = std::move(plan), handler = std::move(handler),
                             reply = std::move(reply)]() mutable { handler(to_result(plan, reply)); });
  };
  core->submit(op, call.stop);
}

template <typename T>
T take(Result<T> result, std::error_code& error) {
  error = result.code();
  if constexpr (!std::is_void_v<T>) return result ? std::move(*result) : T{};
}

inline Payload own(DataView data) { return data ? Payload(*data) : Payload(); }

inline void check_acl(const char* operation, const Path& path, const AclList& acl) {
  if (const char* why = acl_defect(acl)) throw Error(Errc::invalid_acl, operation, path.str(), why);
}

/// The op of a read that arms a watch, which is registered on the loop before anything else can happen there.
template <typename T>
std::shared_ptr<Op> make_watching_op(const CorePtr& core, Plan<T>& plan, WatchRegistry::Kind kind,
                                     const std::shared_ptr<WatchState>& state, Op::Done done, const CallOptions& call) {
  plan.request.watch = true;
  const bool watch_absent = plan.also_success == Errc::no_node;
  const auto op = make_op(core, plan, call);
  op->done = [state, kind, watch_absent, path = op->request.path, done = std::move(done)](Reply reply) mutable {
    if (reply.ok() || (watch_absent && reply.failed(Errc::no_node))) state->arm(kind, path, reply.session);
    done(std::move(reply));
  };
  return op;
}

template <typename T>
Result<Watched<T>> to_watched(const Plan<T>& plan, Reply& reply, std::shared_ptr<WatchState> state) {
  Result<T> result = to_result(plan, reply);
  if (!result) return result.error();
  return Watched<T>{std::move(*result), Watch(std::move(state))};
}

template <typename T>
Result<Watched<T>> run_watched(const CorePtr& core, Plan<T> plan, WatchRegistry::Kind kind, WatchHandler handler,
                               const CallOptions& call) {
  require_handler(handler, to_string(plan.request.type), plan.path);
  auto state = std::make_shared<WatchState>(core, plan.path, std::move(handler));
  BlockedCall<Reply> blocked;
  Op::Done done = [&blocked](Reply reply) { blocked.fill(std::move(reply)); };
  const auto op = make_watching_op(core, plan, kind, state, std::move(done), call);
  core->submit(op, call.stop);
  Reply reply = blocked.take();
  return to_watched(plan, reply, std::move(state));
}

template <typename T>
void start_watched(const CorePtr& core, Plan<T> plan, WatchRegistry::Kind kind, WatchHandler watch_handler,
                   Handler<Watched<T>> handler, const CallOptions& call) {
  require_handler(watch_handler, to_string(plan.request.type), plan.path);
  require_handler(handler, to_string(plan.request.type), plan.path);
  auto state = std::make_shared<WatchState>(core, plan.path, std::move(watch_handler), true);
  const auto shared_plan = std::make_shared<Plan<T>>(std::move(plan));
  Op::Done done = [core, shared_plan, state, handler = std::move(handler)](Reply reply) mutable {
    Admission held(core, reply.size());
    core->callbacks()->post(
        [held = std::move(held), shared_plan, state, handler = std::move(handler), reply = std::move(reply)]() mutable {
          const struct Release {  // Also when the handler throws.
            WatchState& state;
            ~Release() { state.release(); }
          } release{*state};
          handler(to_watched(*shared_plan, reply, state));
        });
  };
  core->submit(make_watching_op(core, *shared_plan, kind, state, std::move(done), call), call.stop);
}

}  // namespace zkclient::detail
