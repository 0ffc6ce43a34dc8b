#pragma once

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/client.hpp>
#include <zkrecipes/presence.hpp>

#include "recipes/kernel/shown_presence.hpp"
#include "recipes/kernel/waiting_calls.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The constants of an owned node. Paths are full ones unless it says otherwise.
struct OwnedNodeSpec {
  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< The node's, as the user knows it.
  std::string node;
  zkclient::AclList acl;
  Conflict conflict = Conflict::wait;
  const char* operation = "";  ///< For error texts.
};

/// A node that its owner has put there, and asks about. There are two kinds, and they differ in how long the node lives,
/// and so in how the owner knows it from another's:
///
///   KeptNode      watched, and made again, until its owner has enough. Most are ephemeral: a second node made with such a
///                 one proves whose it is
///   StandingNode  persistent, and written by calls alone: lives on without its owner; its czxid and its data prove whose
///                 it is
class OwnedNode {
 public:
  using StateListener = ShownPresence::StateListener;

  OwnedNode(const OwnedNode&) = delete;
  OwnedNode& operator=(const OwnedNode&) = delete;

  // --- Any thread ---

  PresenceState state() const { return shown_.state(); }
  /// Why it is not there; nullopt: nothing is wrong.
  std::optional<zkclient::Error> problem() const;
  /// Errors: invalid_argument, forked.
  zkclient::Subscription on_state(StateListener listener);
  /// No listener is called afterwards, and those that run have returned, unless one of them calls this.
  void end_listeners() { shown_.end_listeners(); }

 protected:
  using Waiting = WaitingCalls::Waiting;

  /// Before a look is repeated that the server had no time for, or a connection that it refused.
  static constexpr std::chrono::milliseconds short_rest{500};
  /// Before what the server refused is tried again: no event tells of a right that was granted.
  static constexpr std::chrono::seconds long_rest{30};

  /// `spec` lives as long as this, and is not used before the constructor has returned.
  OwnedNode(const OwnedNodeSpec& spec, bool lease) : place_(spec), shown_(lease) {}
  ~OwnedNode() = default;

  // --- Loop thread ---

  void show(PresenceState state);
  void show_problem(zkclient::Errc code, std::string detail, bool definite);
  /// Of a wait for `awaited` that ended without it: says what there was last.
  zkclient::Error ended_wait(zkclient::Errc why, const char* operation, std::string_view awaited) const;

 private:
  const OwnedNodeSpec& place_;

 protected:
  ShownPresence shown_;
  WaitingCalls waiting_;
};

}  // namespace zkrecipes::detail
