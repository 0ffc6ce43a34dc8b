#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <zkclient/export.hpp>
#include <zkclient/types.hpp>

namespace zkrecipes {

/// How a recipe names its nodes. All programs that share a path must use layouts that understand each other:
/// `curator()` with Apache Curator (and with a kazoo lock whose `_NODE_NAME` is "-lock-"), `kazoo()` with stock kazoo.
/// Curator and stock kazoo do not see each other on one path, whatever this library does.
///
/// Thread safety: a value type.
class ZKRECIPES_API Layout {
 public:
  /// `_c_<uuid>-lock-<sequence>` below a container node: Apache Curator's InterProcessMutex and LeaderLatch.
  /// Readers are `_c_<uuid>-__READ__<sequence>` and writers `_c_<uuid>-__WRIT__<sequence>`.
  static Layout curator() { return Layout(Style::curator); }
  /// `<uuid>__lock__<sequence>` below a persistent node: kazoo's Lock, WriteLock and Election; readers are
  /// `<uuid>__rlock__<sequence>`.
  static Layout kazoo() { return Layout(Style::kazoo); }

  /// The mode of missing parents.
  zkclient::CreateMode parent_mode() const noexcept {
    return style_ == Style::curator ? zkclient::CreateMode::container : zkclient::CreateMode::persistent;
  }

  /// The unique beginning of one contender's node name, by which a node is found whose create was in doubt.
  std::string marker(std::string_view uuid, std::string_view kind) const;
  /// The whole name but for the sequence number. `kind` is "lock", "latch", "lease", "read" or "write".
  std::string name(std::string_view uuid, std::string_view kind) const;

 private:
  enum class Style { curator, kazoo };
  explicit Layout(Style style) noexcept : style_(style) {}
  Style style_;
};

}  // namespace zkrecipes
