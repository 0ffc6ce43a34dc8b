#pragma once

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include <zkclient/watch.hpp>

#include "zkclient/detail/session/core.hpp"
#include "zkclient/detail/watches/watch_registry.hpp"

namespace zkclient::detail {

/// The state that a Watch object and the registry share.
class WatchState : public std::enable_shared_from_this<WatchState> {
 public:
  /// `held`: the event is kept until `release`.
  WatchState(std::shared_ptr<ClientCore> core, std::string path, WatchHandler handler, bool held = false)
      : core_(std::move(core)), path_(std::move(path)), handler_(std::move(handler)), held_(held) {}
  ~WatchState();
  WatchState(const WatchState&) = delete;
  WatchState& operator=(const WatchState&) = delete;

  /// Loop thread: the read that arms the watch has succeeded, on `session`.
  void arm(WatchRegistry::Kind kind, const std::string& full_path, const std::shared_ptr<SessionState>& session);
  /// Callback executor: the caller that asked for the watch has been told that it is armed, so that the event may
  /// follow.
  void release();
  /// Any thread: the Watch object is gone.
  void drop();
  bool armed() const;

 private:
  void deliver(WatchEventType type);
  void call(WatchEventType type);

  const std::shared_ptr<ClientCore> core_;
  const std::string path_;
  mutable std::mutex mutex_;
  WatchHandler handler_;  // Empty once called or dropped.
  std::shared_ptr<SessionState> session_;
  WatchRegistry::Id id_ = 0;
  bool held_;
  std::optional<WatchEventType> kept_;
};

}  // namespace zkclient::detail
