#pragma once

#include <exception>
#include <memory>
#include <optional>
#include <utility>
#include <variant>

#include "recipes/kernel/prepared_call.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// How a swap ended: it was done, and the update gives `value`; or another client was faster, and `seen` is there now.
/// With neither, what is there is not known.
template <typename Seen, typename Value>
struct Swapped {
  std::optional<Value> value = {};
  std::optional<Seen> seen = {};
};

/// What an update does with what it has seen: swap it, or end with a value because nothing is to be written.
template <typename Seen, typename Value>
using UpdateStep = std::variant<Value, PreparedCall<Swapped<Seen, Value>>>;

// An update of a value: look, let the user's function decide, swap; again if another client was faster. One deadline is
// for all of it. An Update says what is particular:
//
//   Function                what the user's function is
//   Seen, Value             what it is called with, and what the update gives
//   client(), operation(), path()
//                           of the errors
//   known()                 Seen that needs no look, or nullopt; any thread
//   look(again)             the call that gives Seen; `again`: after another client was faster
//   step(function, seen)    an UpdateStep; it calls the function

/// Errors: invalid_argument.
template <typename Update>
void require_function(const Update& update, const typename Update::Function& function) {
  if (!function) throw Error(Errc::invalid_argument, update.operation(), update.path(), "there is no function");
}

template <typename Update>
zkclient::CallOptions update_limits(const Update& update, zkclient::CallOptions call) {
  if (!call.deadline) call.deadline = update.client()->default_deadline();
  return call;
}

/// The blocking form. The function runs in the caller's thread, and what it throws leaves this.
template <typename Update>
typename Update::Value wait_for_update(const Update& update, const typename Update::Function& function,
                                       const zkclient::CallOptions& call) {
  using Seen = typename Update::Seen;
  using Value = typename Update::Value;
  require_function(update, function);
  const zkclient::CallOptions limits = update_limits(update, call);
  std::optional<Seen> seen = update.known();
  for (bool again = false;; again = true) {
    if (!seen) seen = update.look(again).wait(limits);
    UpdateStep<Seen, Value> step = update.step(function, *seen);
    if (Value* ended = std::get_if<Value>(&step)) return std::move(*ended);
    Swapped<Seen, Value> swapped = std::get<1>(std::move(step)).wait(limits);
    if (swapped.value) return std::move(*swapped.value);
    seen = swapped.seen ? std::move(swapped.seen) : update.known();
  }
}

/// The asynchronous form. Its steps run on the callback executor.
template <typename Update>
class StartedUpdate : public std::enable_shared_from_this<StartedUpdate<Update>> {
 public:
  using Seen = typename Update::Seen;
  using Value = typename Update::Value;
  using Function = typename Update::Function;

  StartedUpdate(Update update, Function function, zkclient::Handler<Value> handler, const zkclient::CallOptions& call)
      : update_(std::move(update)),
        function_(std::move(function)),
        handler_(std::move(handler)),
        limits_(update_limits(update_, call)) {}

  void look(bool again) {
    auto looked = [self = this->shared_from_this()](Result<Seen> seen) {
      seen ? self->swap(*seen) : self->handler_(seen.error());
    };
    update_.look(again).start(std::move(looked), limits_);
  }

 private:
  void swap(const Seen& seen) {
    const auto fail = [this](const char* why) {
      handler_(Error(Errc::invalid_argument, update_.operation(), update_.path(), why));
    };
    std::optional<UpdateStep<Seen, Value>> step;
    try {
      step.emplace(update_.step(function_, seen));
    } catch (const Error& error) {
      return handler_(error);
    } catch (const std::exception& error) {
      return fail(error.what());
    } catch (...) {
      return fail("the function threw no std::exception");
    }
    if (Value* ended = std::get_if<Value>(&*step)) return handler_(std::move(*ended));
    auto swapped = [self = this->shared_from_this()](Result<Swapped<Seen, Value>> end) {
      if (!end) return self->handler_(end.error());
      if (end->value) return self->handler_(std::move(*end->value));
      end->seen ? self->swap(*end->seen) : self->look(true);
    };
    std::get<1>(std::move(*step)).start(std::move(swapped), limits_);
  }

  const Update update_;
  const Function function_;
  zkclient::Handler<Value> handler_;
  const zkclient::CallOptions limits_;
};

template <typename Update>
void start_update(Update update, typename Update::Function function, zkclient::Handler<typename Update::Value> handler,
                  const zkclient::CallOptions& call) {
  require_function(update, function);
  zk::require_handler(handler, update.operation(), update.path());
  std::make_shared<StartedUpdate<Update>>(std::move(update), std::move(function), std::move(handler), call)
      ->look(false);
}

}  // namespace zkrecipes::detail
