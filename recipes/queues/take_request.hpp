#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "recipes/queues/queue_core.hpp"

namespace zkrecipes::detail {

/// A call that is to get an item.
struct QueueCore::TakeRequest {
  enum class State {
    waiting,  ///< For its turn.
    reading,  ///< An item was found for it and is being read; nothing was done yet.
    writing,  ///< The item is being taken.
    done,     ///< `outcome` is set, or the call has ended by itself.
  };
  TakeRequest(zk::EventLoop& events, TakeKind what, bool tries, std::uint64_t number)
      : kind(what), once(tries), serial(number), wake(events) {}

  const TakeKind kind;
  const bool once;  ///< Does not wait for an item.
  const std::uint64_t serial;
  State state = State::waiting;
  std::string item;  ///< The name of the one that is being taken.
  zk::Signal wake;
  std::optional<zkclient::Result<std::optional<Taken>>> outcome;

  /// Its caller waits for an item.
  static bool is_open(const TakeRequestPtr& request) { return request != nullptr && request->state != State::done; }
  void finish(zkclient::Result<std::optional<Taken>> with) {
    state = State::done;
    outcome.emplace(std::move(with));
    wake.set();
  }
};

}  // namespace zkrecipes::detail
