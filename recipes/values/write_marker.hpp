#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <string>

#include "recipes/kernel/words.hpp"

namespace zkrecipes::detail {

/// A persistent node that one writer sets in each of its transactions, beside a slot of its ExactlyOnceWriter. Its version
/// tells whether the last one was applied, also when the session that sent it is over.
///
///   markers (container)
///    '-- <uuid>     persistent, empty; its version counts the transactions
///
/// One transaction is on its way at a time. A marker whose writer is gone is removed by a later writer. Loop thread only.
class WriteMarker {
 public:
  /// What became of the last transaction.
  enum class Fate { applied, not_applied, unknown };

  /// `directory`: of the markers. `max_age`: one that was written for the last time so long ago has no writer any more.
  WriteMarker(std::shared_ptr<zk::ClientCore> client, std::string directory, zkclient::AclList acl,
              std::chrono::milliseconds max_age);
  /// The node goes, in the background.
  ~WriteMarker();
  WriteMarker(const WriteMarker&) = delete;
  WriteMarker& operator=(const WriteMarker&) = delete;

  /// Makes the node, if there is none.
  zk::Awaitable<zk::Reply> prepare(zk::Call call);
  /// What makes a transaction one of this writer. After prepare().
  zkclient::Transaction::Operation operation() const;
  /// The transaction was applied.
  void count() noexcept { ++version_; }
  /// The node is not what it was: the next transaction gets another one.
  void abandon();
  /// For a transaction with operation() whose answer did not come, and will not. `slot`: the one that it was sent with.
  zk::Awaitable<Fate> find_fate(std::string slot, zk::Call call);

 private:
  static zk::Awaitable<void> sweep(std::shared_ptr<zk::ClientCore> client, std::string directory, std::string family,
                                   std::string own, std::chrono::milliseconds max_age);

  const std::shared_ptr<zk::ClientCore> client_;
  const std::string directory_;
  const zkclient::AclList acl_;
  const std::chrono::milliseconds max_age_;
  std::string node_;  // "": none.
  std::int32_t version_ = 0;
};

}  // namespace zkrecipes::detail
