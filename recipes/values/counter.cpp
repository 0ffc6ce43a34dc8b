#include <zkrecipes/counter.hpp>

#include <exception>
#include <utility>

#include "recipes/kernel/acl_check.hpp"
#include "recipes/kernel/prepared_call.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/counter_kind.hpp"

namespace zkrecipes {

using namespace words;
using detail::CounterAnswer;
using detail::CounterCore;
using detail::CounterRequest;
using detail::PreparedCall;

namespace {

constexpr const char* recipe = "counter";
constexpr const char* adding = "counter add";
constexpr const char* getting = "counter get";
constexpr const char* setting = "counter set";
constexpr const char* comparing = "counter compare_set";
constexpr const char* updating = "counter update";

/// What every call of a Counter needs until its end.
struct Shared {
  zkclient::Client client;  // Stays open for as long as it is used here.
  zkclient::Path path;      // As the user wrote it.
  std::string node;         // The same, full.
  CounterOptions options;
  std::shared_ptr<CounterCore> core;

  zk::CallForm form(const char* operation) const { return zk::CallForm(client.impl(), operation, path.str()); }
  void require(std::int64_t value, const char* operation) const {
    if (detail::fits(value, options.encoding)) return;
    throw Error(Errc::invalid_argument, operation, path.str(), "the encoding has no such number");
  }
};
using SharedPtr = std::shared_ptr<const Shared>;

// --- On the loop ----------------------------------------------------------------------------------------------------

/// `shared` without its client, which no call may keep open.
struct Target {
  std::shared_ptr<CounterCore> core;
  const char* operation;
  std::string path;
};

Awaitable<Result<CounterAnswer>> change_on_loop(Target target, CounterRequest request, Call call) {
  CounterCore::Outcome outcome = co_await CounterCore::change(target.core, request, std::move(call));
  if (!outcome.reply.ok()) co_return zk::to_error(outcome.reply, target.operation, target.path);
  co_return outcome.answer;
}

Awaitable<Result<CounterChange>> add_on_loop(Target target, CounterRequest request, Call call) {
  Result<CounterAnswer> answer = co_await change_on_loop(std::move(target), request, std::move(call));
  if (!answer) co_return answer.error();
  co_return answer->change;
}

Awaitable<Result<void>> set_on_loop(Target target, CounterRequest request, Call call) {
  Result<CounterAnswer> answer = co_await change_on_loop(std::move(target), request, std::move(call));
  if (!answer) co_return answer.error();
  co_return Result<void>();
}

Awaitable<Result<bool>> compare_set_on_loop(Target target, CounterRequest request, Call call) {
  Result<CounterAnswer> answer = co_await change_on_loop(std::move(target), request, std::move(call));
  if (!answer) co_return answer.error();
  co_return answer->matched;
}

Result<std::int64_t> number_of(const Reply& reply, CounterEncoding encoding, const char* operation,
                               std::string_view path) {
  if (reply.failed(Errc::no_node)) return std::int64_t{0};
  if (!reply.ok()) return zk::to_error(reply, operation, path);
  const std::optional<std::int64_t> value = detail::decode_counter(reply.data, encoding);
  if (!value) return Error(Errc::foreign_node, operation, path, "the data of the node is no number of this encoding");
  return *value;
}

Awaitable<Result<std::int64_t>> get_on_loop(std::shared_ptr<zk::ClientCore> client, std::string node,
                                            CounterEncoding encoding, std::string path, Call call) {
  zk::Request get = zk::make_request(zk::OpType::get, std::move(node));
  const Reply reply = co_await client->perform(std::move(get), call);
  co_return number_of(reply, encoding, getting, path);
}

Awaitable<Result<std::int64_t>> look_on_loop(Target target, CounterEncoding encoding, Call call) {
  const Reply reply = co_await CounterCore::look(target.core, std::move(call));
  co_return number_of(reply, encoding, target.operation, target.path);
}

// --- From a call to its coroutine -----------------------------------------------------------------------------------

Target target_of(const SharedPtr& shared, const char* operation) {
  return Target{shared->core, operation, shared->path.str()};
}

template <typename T>
PreparedCall<T> prepare(const SharedPtr& shared, const char* operation, CounterRequest request,
                        Awaitable<Result<T>> (*coroutine)(Target, CounterRequest, Call)) {
  return {shared->form(operation), [target = target_of(shared, operation), request, coroutine](Call limits) {
            return coroutine(target, request, std::move(limits));
          }};
}

PreparedCall<CounterChange> prepare_add(const SharedPtr& shared, std::int64_t delta) {
  return prepare(shared, adding, CounterRequest{CounterRequest::Kind::add, delta, 0}, add_on_loop);
}

PreparedCall<void> prepare_set(const SharedPtr& shared, std::int64_t value) {
  shared->require(value, setting);
  return prepare(shared, setting, CounterRequest{CounterRequest::Kind::set, value, 0}, set_on_loop);
}

PreparedCall<bool> prepare_compare_set(const SharedPtr& shared, std::int64_t expected, std::int64_t desired) {
  shared->require(desired, comparing);
  return prepare(shared, comparing, CounterRequest{CounterRequest::Kind::compare_set, desired, expected},
                 compare_set_on_loop);
}

PreparedCall<std::int64_t> prepare_get(const SharedPtr& shared) {
  auto work = [client = shared->client.impl(), node = shared->node, encoding = shared->options.encoding,
               path = shared->path.str()](Call limits) {
    return get_on_loop(client, node, encoding, path, std::move(limits));
  };
  return {shared->form(getting), std::move(work)};
}

// --- An update: look, let the function decide, swap; again if another client was faster -----------------------------

PreparedCall<std::int64_t> prepare_look(const SharedPtr& shared) {
  auto work = [target = target_of(shared, updating), encoding = shared->options.encoding](Call limits) {
    return look_on_loop(target, encoding, std::move(limits));
  };
  return {shared->form(updating), std::move(work)};
}

PreparedCall<CounterAnswer> prepare_swap(const SharedPtr& shared, std::int64_t before,
                                         const Counter::Function& function) {
  const std::int64_t desired = function(before).value_or(before);
  shared->require(desired, updating);
  return prepare(shared, updating, CounterRequest{CounterRequest::Kind::compare_set, desired, before}, change_on_loop);
}

// One deadline for all of it.
CallOptions limited(const SharedPtr& shared, CallOptions call) {
  if (!call.deadline) call.deadline = shared->client.impl()->default_deadline();
  return call;
}

/// The asynchronous form. Its steps run on the callback executor.
class Update : public std::enable_shared_from_this<Update> {
 public:
  Update(SharedPtr shared, Counter::Function function, zkclient::Handler<CounterChange> handler, CallOptions call)
      : shared_(std::move(shared)),
        function_(std::move(function)),
        handler_(std::move(handler)),
        call_(std::move(call)) {}

  void begin() {
    prepare_look(shared_).start(
        [self = shared_from_this()](Result<std::int64_t> seen) {
          seen ? self->swap(*seen) : self->handler_(seen.error());
        },
        call_);
  }

 private:
  void swap(std::int64_t before) {
    std::optional<PreparedCall<CounterAnswer>> next;
    try {
      next.emplace(prepare_swap(shared_, before, function_));
    } catch (const Error& error) {
      handler_(error);
    } catch (const std::exception& error) {
      handler_(Error(Errc::invalid_argument, updating, shared_->path.str(), error.what()));
    } catch (...) {
      handler_(Error(Errc::invalid_argument, updating, shared_->path.str(), "the function threw no std::exception"));
    }
    if (!next) return;
    std::move(*next).start([self = shared_from_this()](Result<CounterAnswer> answer) { self->swapped(answer); }, call_);
  }
  void swapped(const Result<CounterAnswer>& answer) {
    if (!answer) {
      handler_(answer.error());
    } else if (answer->matched) {
      handler_(answer->change);
    } else {
      swap(answer->change.before);
    }
  }

  const SharedPtr shared_;
  const Counter::Function function_;
  zkclient::Handler<CounterChange> handler_;
  const CallOptions call_;
};

SharedPtr make_shared_state(zkclient::Client client, zkclient::Path path, CounterOptions options) {
  detail::require_acl(recipe, path, options.acl);
  if (options.max_marker_age.count() <= 0) {
    throw Error(Errc::invalid_argument, recipe, path.str(), "the age of a marker is not positive");
  }
  if (path.str() == "/") throw Error(Errc::invalid_argument, recipe, path.str(), "the root is no counter");
  std::string node = client.impl()->full(path);
  const detail::ValueOptions limits{options.acl, options.durable, options.max_marker_age};
  auto core = CounterCore::make(client.impl(), node, detail::CounterKind{options.encoding}, limits);
  return std::make_shared<const Shared>(
      Shared{std::move(client), std::move(path), std::move(node), std::move(options), std::move(core)});
}

void require_function(const Shared& shared, const Counter::Function& function) {
  if (!function) throw Error(Errc::invalid_argument, updating, shared.path.str(), "there is no function");
}

}  // namespace

struct Counter::State {
  SharedPtr shared;
};

Counter::Counter(zkclient::Client client, zkclient::Path path, CounterOptions options)
    : state_(
          std::make_unique<State>(State{make_shared_state(std::move(client), std::move(path), std::move(options))})) {}
Counter::~Counter() = default;
Counter::Counter(Counter&&) noexcept = default;
Counter& Counter::operator=(Counter&&) noexcept = default;

const zkclient::Path& Counter::path() const noexcept { return state_->shared->path; }

CounterChange Counter::add(std::int64_t delta, const CallOptions& call) {
  return prepare_add(state_->shared, delta).wait(call);
}
void Counter::async_add(std::int64_t delta, zkclient::Handler<CounterChange> handler, const CallOptions& call) {
  prepare_add(state_->shared, delta).start(std::move(handler), call);
}

std::int64_t Counter::get(const CallOptions& call) const { return prepare_get(state_->shared).wait(call); }
void Counter::async_get(zkclient::Handler<std::int64_t> handler, const CallOptions& call) const {
  prepare_get(state_->shared).start(std::move(handler), call);
}

void Counter::set(std::int64_t value, const CallOptions& call) { prepare_set(state_->shared, value).wait(call); }
void Counter::async_set(std::int64_t value, zkclient::Handler<void> handler, const CallOptions& call) {
  prepare_set(state_->shared, value).start(std::move(handler), call);
}

bool Counter::compare_set(std::int64_t expected, std::int64_t desired, const CallOptions& call) {
  return prepare_compare_set(state_->shared, expected, desired).wait(call);
}
void Counter::async_compare_set(std::int64_t expected, std::int64_t desired, zkclient::Handler<bool> handler,
                                const CallOptions& call) {
  prepare_compare_set(state_->shared, expected, desired).start(std::move(handler), call);
}

CounterChange Counter::update(const Function& function, const CallOptions& call) {
  const SharedPtr shared = state_->shared;
  require_function(*shared, function);
  const CallOptions limits = limited(shared, call);
  std::int64_t before = prepare_look(shared).wait(limits);
  for (;;) {
    const CounterAnswer answer = prepare_swap(shared, before, function).wait(limits);
    if (answer.matched) return answer.change;
    before = answer.change.before;
  }
}
void Counter::async_update(Function function, zkclient::Handler<CounterChange> handler, const CallOptions& call) {
  const SharedPtr& shared = state_->shared;
  require_function(*shared, function);
  zk::require_handler(handler, updating, shared->path.str());
  std::make_shared<Update>(shared, std::move(function), std::move(handler), limited(shared, call))->begin();
}

}  // namespace zkrecipes
