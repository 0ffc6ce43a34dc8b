#pragma once

#include <chrono>
#include <map>
#include <mutex>
#include <optional>
#include <string>

#include "recipes/values/transaction_set.hpp"

namespace zkrecipes::detail {

/// What the last transaction of an Optimistic has left, which the next one may begin with: it checks what it has read, so
/// that may be old. Any thread.
class NodeMemory {
 public:
  using Clock = std::chrono::steady_clock;
  /// A node that was deleted and made again may reach the same version once more; so this is short.
  static constexpr std::chrono::milliseconds trust{10};
  /// Who remembers needs one round trip for a change, others two: they would be refused for ever. So each transaction
  /// of this number in a row leaves nothing.
  static constexpr unsigned in_a_row = 16;

  /// A transaction was applied at `now`, and left `nodes`, each with what it holds.
  void keep(std::map<std::string, SeenNode> nodes, Clock::time_point now) {
    const std::lock_guard lock(mutex_);
    nodes_ = std::move(nodes);
    if (++kept_ % in_a_row == 0) nodes_.clear();
    until_ = now + trust;
  }
  void forget() {
    const std::lock_guard lock(mutex_);
    nodes_.clear();
  }
  std::optional<SeenNode> recall(const std::string& path, Clock::time_point now) const {
    const std::lock_guard lock(mutex_);
    const auto found = nodes_.find(path);
    if (found == nodes_.end() || now >= until_) return std::nullopt;
    return found->second;
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, SeenNode> nodes_;
  Clock::time_point until_;
  unsigned kept_ = 0;
};

}  // namespace zkrecipes::detail
