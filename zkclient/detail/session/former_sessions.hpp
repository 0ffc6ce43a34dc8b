#pragma once

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>

#include "zkclient/detail/connection/handle.hpp"
#include "zkclient/detail/loop/event_loop.hpp"
#include "zkclient/detail/loop/lifeline.hpp"
#include "zkclient/detail/requests/session_state.hpp"
#include "zkclient/detail/session/node_use.hpp"

namespace zkclient::detail {

/// Sessions that a client has given up without a word to the servers. These may keep such a session for a whole timeout
/// (after a restart they count it anew), and its nodes stand in the way of all, of the client's own next session too. So
/// each is resumed by a connection of its own and closed: once the client is connected again, and once no recipe needs
/// its nodes any more. If its server does not answer, that is tried again after a while, and by the client's next
/// connection. One that cannot be closed ends by its timeout. Lives on the loop thread.
class FormerSessions {
 public:
  /// How to reach a server that serves now; nullopt: there is none.
  using Reach = std::function<std::optional<HandleOptions>()>;

  FormerSessions(EventLoop& events, Lifeline client, Reach reach);
  ~FormerSessions();
  FormerSessions(const FormerSessions&) = delete;
  FormerSessions& operator=(const FormerSessions&) = delete;

  /// As use_nodes().
  NodeUse use(const SessionState& session);
  /// `session` is lost, and its holders were told.
  void add(std::shared_ptr<SessionState> session);
  /// Closes those that can be closed now.
  void pursue();
  /// Leaves the rest to their timeouts.
  void stop();

 private:
  class Closer;

  bool used(const SessionState& session) const;
  void keep(std::shared_ptr<SessionState> session);
  void take_back_from_elsewhere(const std::string& addresses);
  void try_again_after(std::chrono::milliseconds pause);
  /// False: no attempt can be made now.
  bool begin(const std::shared_ptr<SessionState>& session, HandleOptions options);

  EventLoop& events_;
  const Lifeline client_;
  const Reach reach_;
  std::map<std::int64_t, std::weak_ptr<void>> uses_;  // By session.
  std::deque<std::shared_ptr<SessionState>> waiting_;
  std::list<std::shared_ptr<Closer>> closers_;
  Timer next_try_;
  bool stopped_ = false;
};

}  // namespace zkclient::detail
