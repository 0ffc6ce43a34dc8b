#pragma once

#include <optional>
#include <utility>

#include <zkclient/path.hpp>

namespace zkrecipes {

namespace detail {

/// For recipes: what the names of a queue's items say besides their order.
enum class QueueKind : int {
  plain,        ///< Nothing.
  prioritized,  ///< A priority: PriorityQueue.
  delayed,      ///< When they are due: DelayQueue.
  identified,   ///< An id: IdQueue.
};

}  // namespace detail

/// Where a queue keeps its items and how they look, so that programs that use other libraries can push to it and take
/// from it. All programs that share a path must use the same one.
///
/// A consumer claims an item by an ephemeral node of the item's name in the queue's folder of claims. Programs that do
/// not look there (those of zookeeper(), kazoo(), and of Curator without a lock path) take claimed items all the same:
/// beside them, push and pop only.
///
/// Thread safety: a value type.
class QueueLayout {
 public:
  /// Whose nodes they are.
  enum class Style { standard, zookeeper, curator, kazoo, kazoo_locking };

  /// `path/items/item-<seq>`, claims in `path/claims`, the bytes as they are. In a PriorityQueue the names are
  /// `item-<priority as in curator()><seq>`, in a DelayQueue `item-|<time>|<seq>`, in an IdQueue `item-|<id>|<seq>`.
  static QueueLayout standard() { return QueueLayout(Style::standard); }
  /// ZooKeeper's own DistributedQueue, and Curator's SimpleDistributedQueue: `path/qn-<seq>`. Has no priorities.
  static QueueLayout zookeeper() { return QueueLayout(Style::zookeeper); }
  /// Curator's DistributedQueue, `path/queue-<seq>`, and DistributedPriorityQueue, `path/queue-<0 or 1><8 hex
  /// digits><seq>`; DistributedDelayQueue, `path/queue-|<hex digits>|<seq>`, and DistributedIdQueue,
  /// `path/queue-|<id>|<seq>`. A node may hold several items (putMulti): pop takes them one by one, a claim stands for
  /// all of them. `lock_path` is the one given to Curator's builder; claims go there. Without one they go to
  /// `path`-claims.
  static QueueLayout curator(std::optional<zkclient::Path> lock_path = {}) {
    return QueueLayout(Style::curator, std::move(lock_path));
  }
  /// kazoo's Queue: `path/entry-<priority, three digits>-<seq>`. Priorities are 0 to 999; a Queue pushes with 100.
  static QueueLayout kazoo() { return QueueLayout(Style::kazoo); }
  /// kazoo's LockingQueue: `path/entries/entry-<priority>-<seq>`, claims in `path/taken`.
  static QueueLayout kazoo_locking() { return QueueLayout(Style::kazoo_locking); }

  /// What it was made of.
  Style style() const noexcept { return style_; }
  const std::optional<zkclient::Path>& lock_path() const noexcept { return lock_path_; }

 private:
  explicit QueueLayout(Style style, std::optional<zkclient::Path> lock_path = {})
      : style_(style), lock_path_(std::move(lock_path)) {}

  Style style_;
  std::optional<zkclient::Path> lock_path_;
};

}  // namespace zkrecipes
