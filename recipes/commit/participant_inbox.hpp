#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "recipes/commit/commit_decider.hpp"
#include "recipes/commit/participant_state.hpp"

namespace zkrecipes::detail {

/// The inbox of a participant: it learns there which transactions it takes part in.
class ParticipantInbox {
 public:
  using Arrived = std::function<void(const std::string& id)>;
  ParticipantInbox(ParticipantStatePtr state, const NodeEvents& events, Arrived arrived)
      : state_(std::move(state)), events_(events), arrived_(std::move(arrived)) {}

  /// Calls `arrived` for what came since the last time, and has the inbox watched. Only while the participant is
  /// present.
  zk::Awaitable<zk::Reply> read(zk::Call call);

 private:
  zk::Awaitable<zk::Reply> list(InboxVersion found, zk::Call call);

  const ParticipantStatePtr state_;
  const NodeEvents& events_;
  const Arrived arrived_;
  std::shared_ptr<zk::SessionState> session_;  // In which it was read.
  NodeEvents::WatchPtr watch_;
  std::optional<InboxVersion> known_;
};

zk::Awaitable<zk::Reply> ensure_inbox(ParticipantStatePtr state, zk::Call call);
/// After a pause: an operator has removed the tree, and may not be done. To make it anew at once, again and again,
/// would be in the way.
zk::Awaitable<zk::Reply> make_inbox_again(ParticipantStatePtr state, zk::Call call);

}  // namespace zkrecipes::detail
