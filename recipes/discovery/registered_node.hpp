#pragma once

#include <memory>
#include <optional>
#include <string>

#include <zkclient/client.hpp>
#include <zkrecipes/lease.hpp>
#include <zkrecipes/presence.hpp>
#include <zkrecipes/service_instance.hpp>

#include "recipes/kernel/shown_presence.hpp"
#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// The node of a registration. A dynamic instance has a kept node, which lives with the session; a fixed or permanent
/// one has a standing node, which lives without. Thread safety: all members.
class RegisteredNode {
 public:
  using StateListener = ShownPresence::StateListener;

  virtual ~RegisteredNode() = default;

  virtual PresenceState state() const = 0;
  virtual FencingToken token() const = 0;
  virtual std::optional<zkclient::Error> problem() const = 0;
  virtual zkclient::Subscription on_state(StateListener listener) = 0;
  /// Its owner goes: so do its listeners, and the node unless it is to stay; not awaited.
  virtual void end() noexcept = 0;

  /// For a call to this node, `payload` bytes large.
  virtual zk::CallForm form(const char* operation, std::size_t payload = 0) const = 0;
  /// Waits until the node is there for the first time.
  virtual zk::CallForm entering_form(std::size_t payload) const = 0;
  virtual zk::Awaitable<zkclient::Result<void>> enter(zk::Call call) = 0;
  /// In place of enter(): without waiting.
  virtual void begin() = 0;
  virtual zk::Awaitable<zkclient::Result<void>> wait_present(zk::Call call) = 0;
  virtual zk::Awaitable<zkclient::Result<void>> write(std::string data, zk::Call call) = 0;
  virtual zk::Awaitable<zkclient::Result<void>> take_away(zk::Call call) = 0;
};
using RegisteredNodePtr = std::shared_ptr<RegisteredNode>;

/// What a registration asks for. Paths are full ones unless it says otherwise.
struct RegisteredNodeSpec {
  std::shared_ptr<zk::ClientCore> client;
  ServiceType type = ServiceType::dynamic;
  std::string path;  ///< The node's, as the user knows it.
  std::string node;
  std::string witnesses;  ///< Of kept nodes.
  zkclient::AclList acl;
  Conflict conflict = Conflict::wait;
  std::string data;
};

/// A dynamic one is on its way at once. Errors: as the loop refuses work (closed, forked).
RegisteredNodePtr make_registered_node(RegisteredNodeSpec spec);

/// The bytes of `instance`. Errors: invalid_argument, too_large, as `operation` on `node`.
std::string written_instance(const ServiceInstance& instance, const zkclient::Path& node, const char* operation);

}  // namespace zkrecipes::detail
