#pragma once

#include <sys/eventfd.h>

#include <mutex>
#include <optional>
#include <utility>

#include <zkclient/result.hpp>

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/run/descriptor.hpp"

namespace zkr {

/// The result of an asynchronous call, for a thread that waits for signals as well. Thread safety: put() on any thread.
template <typename T>
class Awaited {
 public:
  Awaited() : news_(::eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    if (!news_) throw Failure(exit_system, "eventfd");
  }

  void put(zkclient::Result<T> result) {
    const std::lock_guard lock(mutex_);
    result_.emplace(std::move(result));
    ::eventfd_write(news_.get(), 1);
  }
  /// Readable when it is there.
  int get() const { return news_.get(); }
  bool is_there() const { return readable_now(news_.get()); }
  zkclient::Result<T> take() {
    const std::lock_guard lock(mutex_);
    return std::move(*result_);
  }

 private:
  Descriptor news_;
  std::mutex mutex_;
  std::optional<zkclient::Result<T>> result_;
};

}  // namespace zkr
