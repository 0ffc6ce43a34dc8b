#include <zkrecipes/counter.hpp>

#include <utility>

#include "recipes/kernel/update_call.hpp"
#include "recipes/kernel/words.hpp"
#include "recipes/values/counter_kind.hpp"
#include "recipes/values/value_recipe.hpp"

namespace zkrecipes {

using namespace words;
using detail::CounterAnswer;
using detail::CounterCore;
using detail::CounterKind;
using detail::CounterRequest;
using detail::PreparedCall;

namespace {

constexpr const char* counter_recipe = "counter";
constexpr const char* adding = "counter add";
constexpr const char* getting_number = "counter get";
constexpr const char* setting_number = "counter set";
constexpr const char* comparing_number = "counter compare_set";
constexpr const char* updating_number = "counter update";

using SharedCounter = detail::ValueRecipe<CounterKind>;
using SharedCounterPtr = std::shared_ptr<const SharedCounter>;
using CounterTarget = SharedCounter::Target;

void require_number(const SharedCounter& shared, std::int64_t value, const char* operation) {
  if (detail::fits(value, shared.kind.encoding)) return;
  throw Error(Errc::invalid_argument, operation, shared.path.str(), "the encoding has no such number");
}

// --- On the loop ----------------------------------------------------------------------------------------------------

Awaitable<Result<CounterAnswer>> change_on_loop(CounterTarget target, CounterRequest request, Call call) {
  CounterCore::Outcome outcome = co_await CounterCore::change(target.core, request, std::move(call));
  if (!outcome.reply.ok()) co_return target.error(outcome.reply);
  co_return outcome.answer;
}

Awaitable<Result<CounterChange>> add_on_loop(CounterTarget target, CounterRequest request, Call call) {
  Result<CounterAnswer> answer = co_await change_on_loop(std::move(target), request, std::move(call));
  if (!answer) co_return answer.error();
  co_return answer->change;
}

Awaitable<Result<void>> set_on_loop(CounterTarget target, CounterRequest request, Call call) {
  Result<CounterAnswer> answer = co_await change_on_loop(std::move(target), request, std::move(call));
  if (!answer) co_return answer.error();
  co_return Result<void>();
}

Awaitable<Result<bool>> compare_set_on_loop(CounterTarget target, CounterRequest request, Call call) {
  Result<CounterAnswer> answer = co_await change_on_loop(std::move(target), request, std::move(call));
  if (!answer) co_return answer.error();
  co_return answer->matched;
}

Result<std::int64_t> number_of(const CounterTarget& target, CounterKind kind, const Reply& reply) {
  if (reply.failed(Errc::no_node)) return std::int64_t{0};
  if (!reply.ok()) return target.error(reply);
  const std::optional<std::int64_t> value = detail::decode_counter(reply.data, kind.encoding);
  if (value) return *value;
  return Error(Errc::foreign_node, target.operation, target.path, "the data of the node is no number of this encoding");
}

Awaitable<Result<std::int64_t>> get_on_loop(CounterTarget target, CounterKind kind, Call call) {
  zk::Request get = zk::make_request(zk::OpType::get, target.node);
  const Reply reply = co_await target.client->perform(std::move(get), call);
  co_return number_of(target, kind, reply);
}

Awaitable<Result<std::int64_t>> look_on_loop(CounterTarget target, CounterKind kind, Call call) {
  const Reply reply = co_await CounterCore::look(target.core, std::move(call));
  co_return number_of(target, kind, reply);
}

// --- From a call to its coroutine -----------------------------------------------------------------------------------

template <typename T>
PreparedCall<T> prepare_change(const SharedCounter& shared, const char* operation, CounterRequest request,
                               Awaitable<Result<T>> (*coroutine)(CounterTarget, CounterRequest, Call)) {
  return shared.prepare(operation, request, 0, coroutine);
}

PreparedCall<CounterChange> prepare_add(const SharedCounter& shared, std::int64_t delta) {
  return prepare_change(shared, adding, CounterRequest{CounterRequest::Kind::add, delta, 0}, add_on_loop);
}

PreparedCall<void> prepare_set(const SharedCounter& shared, std::int64_t value) {
  require_number(shared, value, setting_number);
  return prepare_change(shared, setting_number, CounterRequest{CounterRequest::Kind::set, value, 0}, set_on_loop);
}

PreparedCall<bool> prepare_compare_set(const SharedCounter& shared, std::int64_t expected, std::int64_t desired) {
  require_number(shared, desired, comparing_number);
  return prepare_change(shared, comparing_number, CounterRequest{CounterRequest::Kind::compare_set, desired, expected},
                        compare_set_on_loop);
}

PreparedCall<std::int64_t> prepare_number(const SharedCounter& shared, const char* operation,
                                          Awaitable<Result<std::int64_t>> (*coroutine)(CounterTarget, CounterKind,
                                                                                       Call)) {
  auto work = [target = shared.target(operation), kind = shared.kind, coroutine](Call limits) {
    return coroutine(target, kind, std::move(limits));
  };
  return {shared.form(operation), std::move(work)};
}

PreparedCall<std::int64_t> prepare_get(const SharedCounter& shared) {
  return prepare_number(shared, getting_number, get_on_loop);
}

// --- An update ------------------------------------------------------------------------------------------------------

using SwappedCounter = detail::Swapped<std::int64_t, CounterChange>;

Awaitable<Result<SwappedCounter>> swap_on_loop(CounterTarget target, CounterRequest request, Call call) {
  Result<CounterAnswer> answer = co_await change_on_loop(std::move(target), request, std::move(call));
  if (!answer) co_return answer.error();
  if (answer->matched) co_return SwappedCounter{.value = answer->change};
  co_return SwappedCounter{.seen = answer->change.before};
}

struct CounterUpdate {
  using Function = Counter::Function;
  using Seen = std::int64_t;
  using Value = CounterChange;

  SharedCounterPtr shared;

  const std::shared_ptr<zk::ClientCore>& client() const { return shared->client.impl(); }
  const char* operation() const { return updating_number; }
  std::string path() const { return shared->path.str(); }

  std::optional<Seen> known() const { return std::nullopt; }
  PreparedCall<Seen> look(bool) const { return prepare_number(*shared, updating_number, look_on_loop); }
  detail::UpdateStep<Seen, Value> step(const Function& function, Seen before) const {
    const std::int64_t desired = function(before).value_or(before);
    require_number(*shared, desired, updating_number);
    const CounterRequest request{CounterRequest::Kind::compare_set, desired, before};
    return prepare_change(*shared, updating_number, request, swap_on_loop);
  }
};

SharedCounterPtr make_shared_counter(zkclient::Client client, Path path, CounterOptions options) {
  detail::ValueOptions limits{std::move(options.acl), options.durable, options.max_marker_age};
  return SharedCounter::make(counter_recipe, std::move(client), std::move(path), CounterKind{options.encoding},
                             std::move(limits));
}

}  // namespace

struct Counter::State {
  SharedCounterPtr shared;
};

Counter::Counter(zkclient::Client client, zkclient::Path path, CounterOptions options)
    : state_(
          std::make_unique<State>(State{make_shared_counter(std::move(client), std::move(path), std::move(options))})) {
}
Counter::~Counter() = default;
Counter::Counter(Counter&&) noexcept = default;
Counter& Counter::operator=(Counter&&) noexcept = default;

const zkclient::Path& Counter::path() const noexcept { return state_->shared->path; }

CounterChange Counter::add(std::int64_t delta, const CallOptions& call) {
  return prepare_add(*state_->shared, delta).wait(call);
}
void Counter::async_add(std::int64_t delta, zkclient::Handler<CounterChange> handler, const CallOptions& call) {
  prepare_add(*state_->shared, delta).start(std::move(handler), call);
}

std::int64_t Counter::get(const CallOptions& call) const { return prepare_get(*state_->shared).wait(call); }
void Counter::async_get(zkclient::Handler<std::int64_t> handler, const CallOptions& call) const {
  prepare_get(*state_->shared).start(std::move(handler), call);
}

void Counter::set(std::int64_t value, const CallOptions& call) { prepare_set(*state_->shared, value).wait(call); }
void Counter::async_set(std::int64_t value, zkclient::Handler<void> handler, const CallOptions& call) {
  prepare_set(*state_->shared, value).start(std::move(handler), call);
}

bool Counter::compare_set(std::int64_t expected, std::int64_t desired, const CallOptions& call) {
  return prepare_compare_set(*state_->shared, expected, desired).wait(call);
}
void Counter::async_compare_set(std::int64_t expected, std::int64_t desired, zkclient::Handler<bool> handler,
                                const CallOptions& call) {
  prepare_compare_set(*state_->shared, expected, desired).start(std::move(handler), call);
}

CounterChange Counter::update(const Function& function, const CallOptions& call) {
  return detail::wait_for_update(CounterUpdate{state_->shared}, function, call);
}
void Counter::async_update(Function function, zkclient::Handler<CounterChange> handler, const CallOptions& call) {
  detail::start_update(CounterUpdate{state_->shared}, std::move(function), std::move(handler), call);
}

}  // namespace zkrecipes
