#include <zkrecipes/shared_value.hpp>

#include <exception>
#include <mutex>
#include <utility>
#include <vector>

#include <zkrecipes/node_cache.hpp>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/prepared_call.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/shared_value_kind.hpp"

namespace zkrecipes {

using namespace words;
using detail::PreparedCall;
using detail::SharedValueAnswer;
using detail::SharedValueCore;
using detail::SharedValueRequest;

namespace {

constexpr const char* shared_value_recipe = "shared value";
constexpr const char* getting_value = "shared value get";
constexpr const char* setting_value = "shared value set";
constexpr const char* comparing_value = "shared value compare_set";
constexpr const char* updating_value = "shared value update";

/// What every call of a SharedValue needs until its end.
struct SharedState {
  zkclient::Client client;  // Stays open for as long as it is used here.
  zkclient::Path path;      // As the user wrote it.
  std::string node;         // The same, full.
  std::shared_ptr<SharedValueCore> core;

  zk::CallForm form(const char* operation) const { return zk::CallForm(client.impl(), operation, path.str()); }
};
using SharedStatePtr = std::shared_ptr<const SharedState>;

// --- On the loop ----------------------------------------------------------------------------------------------------

/// What a call needs there: not its client, which no call may keep open.
struct ValueTarget {
  std::shared_ptr<zk::ClientCore> client;
  std::shared_ptr<SharedValueCore> core;
  std::string node;
  const char* operation;
  std::string path;
};

Awaitable<Result<VersionedValue>> read_value(ValueTarget target, Call call) {
  zk::Request get = zk::make_request(zk::OpType::get, target.node);
  const Reply reply = co_await target.client->perform(std::move(get), call);
  if (!reply.ok() && !reply.failed(Errc::no_node)) co_return zk::to_error(reply, target.operation, target.path);
  co_return detail::value_of(reply);
}

Awaitable<Result<SharedValueAnswer>> view_value(ValueTarget target, SharedValueRequest request, Call call) {
  SharedValueCore::Outcome outcome = co_await SharedValueCore::change(target.core, std::move(request), std::move(call));
  if (!outcome.reply.ok()) co_return zk::to_error(outcome.reply, target.operation, target.path);
  co_return std::move(outcome.answer);
}

Awaitable<Result<bool>> compare_value(ValueTarget target, SharedValueRequest request, Call call) {
  SharedValueCore::Outcome outcome = co_await SharedValueCore::change(target.core, std::move(request), std::move(call));
  if (!outcome.reply.ok()) co_return zk::to_error(outcome.reply, target.operation, target.path);
  co_return outcome.answer.matched;
}

Awaitable<Result<void>> set_value(ValueTarget target, SharedValueRequest request, Call call) {
  const Result<bool> done = co_await compare_value(std::move(target), std::move(request), std::move(call));
  if (!done) co_return done.error();
  co_return Result<void>();
}

// --- From a call to its coroutine -----------------------------------------------------------------------------------

ValueTarget value_target(const SharedStatePtr& shared, const char* operation) {
  return ValueTarget{shared->client.impl(), shared->core, shared->node, operation, shared->path.str()};
}

PreparedCall<VersionedValue> prepare_read(const SharedStatePtr& shared) {
  auto work = [target = value_target(shared, getting_value)](Call limits) {
    return read_value(target, std::move(limits));
  };
  return {shared->form(getting_value), std::move(work)};
}

template <typename T>
PreparedCall<T> prepare_change(const SharedStatePtr& shared, const char* operation, SharedValueRequest request,
                               Awaitable<Result<T>> (*coroutine)(ValueTarget, SharedValueRequest, Call)) {
  zk::CallForm form = shared->form(operation);
  form.payload(request.data.size());
  auto work = [target = value_target(shared, operation), request = std::move(request), coroutine](Call limits) {
    return coroutine(target, request, std::move(limits));
  };
  return {std::move(form), std::move(work)};
}

PreparedCall<void> prepare_set_value(const SharedStatePtr& shared, std::string_view data) {
  SharedValueRequest request{SharedValueRequest::Kind::set, std::string(data), ValueVersion()};
  return prepare_change(shared, setting_value, std::move(request), set_value);
}

PreparedCall<bool> prepare_compare_value(const SharedStatePtr& shared, const ValueVersion& expected,
                                         std::string_view data) {
  SharedValueRequest request{SharedValueRequest::Kind::compare_set, std::string(data), expected};
  return prepare_change(shared, comparing_value, std::move(request), compare_value);
}

PreparedCall<SharedValueAnswer> prepare_view(const SharedStatePtr& shared, SharedValueRequest::Kind kind) {
  SharedValueRequest request{kind, std::string(), ValueVersion()};
  return prepare_change(shared, updating_value, std::move(request), view_value);
}

PreparedCall<bool> prepare_swap(const SharedStatePtr& shared, const ValueVersion& expected, std::string_view data) {
  SharedValueRequest request{SharedValueRequest::Kind::swap, std::string(data), expected};
  return prepare_change(shared, updating_value, std::move(request), compare_value);
}

// --- An update: view, let the function decide, swap; again if another client was faster -----------------------------

/// What the function made of a value.
struct UpdateDecision {
  std::optional<std::string> wanted;
  std::exception_ptr thrown;

  /// That nothing is to be written has to rest on a read: what is remembered may be old.
  bool needs_a_read(const SharedValueAnswer& view) const { return !wanted && view.recalled; }
};

UpdateDecision decide_update(const SharedValue::Function& function, const VersionedValue& seen) {
  UpdateDecision decision;
  try {
    decision.wanted = function(seen);
  } catch (...) {
    decision.thrown = std::current_exception();
  }
  return decision;
}

// One deadline for all of it.
CallOptions limit_all(const SharedStatePtr& shared, CallOptions call) {
  if (!call.deadline) call.deadline = shared->client.impl()->default_deadline();
  return call;
}

std::optional<std::string> run_update(const SharedStatePtr& shared, const SharedValue::Function& function,
                                      const CallOptions& call) {
  SharedValueAnswer view = prepare_view(shared, SharedValueRequest::Kind::view).wait(call);
  for (;;) {
    UpdateDecision decision = decide_update(function, view.seen);
    if (decision.wanted) {
      if (prepare_swap(shared, view.seen.version, *decision.wanted).wait(call)) return std::move(decision.wanted);
      view = prepare_view(shared, SharedValueRequest::Kind::view).wait(call);
      continue;
    }
    const ValueVersion recalled = view.seen.version;
    const bool reads = decision.needs_a_read(view);
    if (reads) view = prepare_view(shared, SharedValueRequest::Kind::view_now).wait(call);
    if (view.seen.version != recalled) continue;
    if (decision.thrown) std::rethrow_exception(decision.thrown);
    return std::nullopt;
  }
}

/// The asynchronous form. Its steps run on the callback executor.
class ValueUpdate : public std::enable_shared_from_this<ValueUpdate> {
 public:
  ValueUpdate(SharedStatePtr shared, SharedValue::Function function,
              zkclient::Handler<std::optional<std::string>> handler, CallOptions call)
      : shared_(std::move(shared)),
        function_(std::move(function)),
        handler_(std::move(handler)),
        call_(std::move(call)) {}

  void view(SharedValueRequest::Kind how) {
    auto viewed = [self = shared_from_this()](Result<SharedValueAnswer> view) {
      view ? self->decide(*view) : self->handler_(view.error());
    };
    prepare_view(shared_, how).start(std::move(viewed), call_);
  }

 private:
  void decide(const SharedValueAnswer& view) {
    const bool confirmed = unwritten_ && view.seen.version == recalled_;
    if (!confirmed) unwritten_ = decide_update(function_, view.seen);
    recalled_ = view.seen.version;
    if (unwritten_->wanted) return swap();
    if (unwritten_->needs_a_read(view)) return this->view(SharedValueRequest::Kind::view_now);
    if (unwritten_->thrown) return fail();
    handler_(std::optional<std::string>());
  }
  void swap() {
    std::optional<std::string> wanted = std::exchange(unwritten_, std::nullopt)->wanted;
    const std::string data = *wanted;
    auto swapped = [self = shared_from_this(), wanted = std::move(wanted)](Result<bool> done) mutable {
      if (!done) return self->handler_(done.error());
      *done ? self->handler_(std::move(wanted)) : self->view(SharedValueRequest::Kind::view);
    };
    prepare_swap(shared_, recalled_, data).start(std::move(swapped), call_);
  }
  void fail() {
    const auto foreign = [this](std::string_view why) {
      handler_(Error(Errc::invalid_argument, updating_value, shared_->path.str(), why));
    };
    try {
      std::rethrow_exception(unwritten_->thrown);
    } catch (const Error& error) {
      handler_(error);
    } catch (const std::exception& error) {
      foreign(error.what());
    } catch (...) {
      foreign("the function threw no std::exception");
    }
  }

  const SharedStatePtr shared_;
  const SharedValue::Function function_;
  zkclient::Handler<std::optional<std::string>> handler_;
  const CallOptions call_;
  std::optional<UpdateDecision> unwritten_;
  ValueVersion recalled_;  // Of the value that it rests on.
};

SharedStatePtr make_value_state(zkclient::Client client, zkclient::Path path, const SharedValueOptions& options) {
  detail::require_acl(shared_value_recipe, path, options.acl);
  if (options.max_marker_age.count() <= 0) {
    throw Error(Errc::invalid_argument, shared_value_recipe, path.str(), "the age of a marker is not positive");
  }
  if (path.is_root())
    throw Error(Errc::invalid_argument, shared_value_recipe, path.str(), "the root is no shared value");
  std::string node = client.impl()->full(path);
  const detail::ValueOptions limits{options.acl, options.durable, options.max_marker_age};
  auto core = SharedValueCore::make(client.impl(), node, detail::SharedValueKind(), limits);
  return std::make_shared<const SharedState>(
      SharedState{std::move(client), std::move(path), std::move(node), std::move(core)});
}

void require_function(const SharedStatePtr& shared, const SharedValue::Function& function) {
  if (!function) throw Error(Errc::invalid_argument, updating_value, shared->path.str(), "there is no function");
}

VersionedValue value_of(const CachedNode& node) {
  return {true, node.data, ValueVersion{node.stat.czxid, node.stat.version}};
}

}  // namespace

struct SharedValue::State {
  explicit State(SharedStatePtr with) : shared(std::move(with)) {}

  const SharedStatePtr shared;
  std::mutex mutex;
  std::optional<NodeCache> cache;  // From the first listener on.
};

SharedValue::SharedValue(zkclient::Client client, zkclient::Path path, SharedValueOptions options)
    : state_(std::make_unique<State>(make_value_state(std::move(client), std::move(path), options))) {}
SharedValue::~SharedValue() = default;
SharedValue::SharedValue(SharedValue&&) noexcept = default;
SharedValue& SharedValue::operator=(SharedValue&&) noexcept = default;

const zkclient::Path& SharedValue::path() const noexcept { return state_->shared->path; }

VersionedValue SharedValue::get(const CallOptions& call) const { return prepare_read(state_->shared).wait(call); }
void SharedValue::async_get(zkclient::Handler<VersionedValue> handler, const CallOptions& call) const {
  prepare_read(state_->shared).start(std::move(handler), call);
}

void SharedValue::set(std::string_view data, const CallOptions& call) {
  prepare_set_value(state_->shared, data).wait(call);
}
void SharedValue::async_set(std::string_view data, zkclient::Handler<void> handler, const CallOptions& call) {
  prepare_set_value(state_->shared, data).start(std::move(handler), call);
}

bool SharedValue::compare_set(const ValueVersion& expected, std::string_view data, const CallOptions& call) {
  return prepare_compare_value(state_->shared, expected, data).wait(call);
}
void SharedValue::async_compare_set(const ValueVersion& expected, std::string_view data,
                                    zkclient::Handler<bool> handler, const CallOptions& call) {
  prepare_compare_value(state_->shared, expected, data).start(std::move(handler), call);
}

std::optional<std::string> SharedValue::update(const Function& function, const CallOptions& call) {
  const SharedStatePtr shared = state_->shared;
  require_function(shared, function);
  return run_update(shared, function, limit_all(shared, call));
}
void SharedValue::async_update(Function function, zkclient::Handler<std::optional<std::string>> handler,
                               const CallOptions& call) {
  const SharedStatePtr& shared = state_->shared;
  require_function(shared, function);
  zk::require_handler(handler, updating_value, shared->path.str());
  std::make_shared<ValueUpdate>(shared, std::move(function), std::move(handler), limit_all(shared, call))
      ->view(SharedValueRequest::Kind::view);
}

zkclient::Subscription SharedValue::on_change(Listener listener) const {
  State& state = *state_;
  if (!listener)
    throw Error(Errc::invalid_argument, shared_value_recipe, state.shared->path.str(), "there is no listener");
  const std::lock_guard lock(state.mutex);
  if (!state.cache) state.cache.emplace(state.shared->client, state.shared->path);
  return state.cache->on_change(
      [listener = std::move(listener), first = true](const std::vector<Change>& changes, const Snapshot& now) mutable {
        if (!std::exchange(first, false) && changes.empty()) return;
        const CachedNode* node = now.root();
        if (node == nullptr) return listener(VersionedValue());
        if (node->has_data) listener(value_of(*node));
      });
}

}  // namespace zkrecipes
