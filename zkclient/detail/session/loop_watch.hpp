#pragma once

#include <memory>
#include <string>

#include <zkclient/export.hpp>

#include "zkclient/detail/session/core.hpp"
#include "zkclient/detail/watches/watch_registry.hpp"

namespace zkclient::detail {

/// A one-shot watch for code on the loop; dropping it removes it.
class ZKRECIPES_INTERNAL_API LoopWatch {
 public:
  LoopWatch(std::shared_ptr<ClientCore> core, WatchRegistry::Kind kind, WatchRegistry::Callback callback)
      : core_(std::move(core)), kind_(kind), callback_(std::move(callback)) {}
  ~LoopWatch();
  LoopWatch(const LoopWatch&) = delete;
  LoopWatch& operator=(const LoopWatch&) = delete;

  void arm(const std::string& path);

 private:
  const std::shared_ptr<ClientCore> core_;
  const WatchRegistry::Kind kind_;
  WatchRegistry::Callback callback_;
  std::shared_ptr<SessionState> session_;
  WatchRegistry::Id id_ = 0;
};

}  // namespace zkclient::detail
