#pragma once

#include <memory>

#include "recipes/commit/participant_state.hpp"

namespace zkrecipes::detail {

/// The ephemeral node that says that a process serves under the participant's name.
class ParticipantPresence {
 public:
  ParticipantPresence(ParticipantStatePtr state, const NodeEvents& events)
      : state_(std::move(state)), events_(events) {}

  /// Makes sure that the node is ours, and has it watched. Ok while `session` of the state stays null: another process
  /// has our name, and the watch tells when it goes.
  zk::Awaitable<zk::Reply> hold(zk::Call call);
  /// Removes the node, if we are present, or may be.
  zk::Awaitable<void> remove();

 private:
  zk::Awaitable<zk::Reply> prepare(zk::Call call);
  zk::Awaitable<zk::Reply> claim(zk::Reply found, zk::Call call);

  const ParticipantStatePtr state_;
  const NodeEvents& events_;
  NodeEvents::WatchPtr watch_;
  std::shared_ptr<zk::SessionState> prepared_;  // The session that was brought up to date.
  std::shared_ptr<zk::SessionState> claimed_;   // In which the node was asked for last.
};

}  // namespace zkrecipes::detail
