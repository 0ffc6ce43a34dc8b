#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkclient/result.hpp>

#include "recipes/commit/commit_decider.hpp"
#include "recipes/commit/commit_tree.hpp"

namespace zkrecipes::detail {

/// A transaction that is on its way to its end, driven from here. What waits for it is told by `told`.
struct TransactionDrive {
  std::string id;
  TransactionHeader header;
  LoopTime deadline;
  bool owner = false;                       ///< Began it, and waits for its acknowledgements for as long as that takes.
  std::string unwanted = {};                ///< Set: abort it, if it is still open.
  std::optional<LoopTime> settled_at = {};  ///< When an abort need no longer be acknowledged.

  std::optional<Decision> decision = {};
  std::optional<zkclient::Error> failure = {};
  bool applied = false;   ///< All have acknowledged.
  bool finished = false;  ///< It is not driven any more.
  std::shared_ptr<zk::Signal> wake;
  std::vector<std::shared_ptr<zk::Signal>> told = {};

  void tell() const {
    for (const auto& signal : told)
      signal->set();
  }
};
using DrivePtr = std::shared_ptr<TransactionDrive>;

/// Drives transactions to their end: those that were begun here, and those that others have left. On the loop thread only.
class TransactionDriver : public std::enable_shared_from_this<TransactionDriver> {
 public:
  TransactionDriver(TreePtr tree, std::chrono::milliseconds absence_grace)
      : tree_(std::move(tree)), roster_(std::make_shared<Roster>(tree_, absence_grace)) {}

  const TreePtr& tree() const noexcept { return tree_; }
  const std::shared_ptr<Roster>& roster() const noexcept { return roster_; }
  bool drives(const std::string& id) const { return active_.contains(id); }
  std::size_t active() const noexcept { return active_.size(); }

  DrivePtr start(std::string id, TransactionHeader header, LoopTime deadline, bool owner, std::string unwanted = {});
  /// Creates the transaction; the failure, if there is one.
  zk::Awaitable<std::optional<zkclient::Error>> begin(std::string id, TransactionHeader header, zk::Call call);

  /// What is to be finished: every transaction without a coordinator that is not driven from here.
  zk::Awaitable<zkclient::Result<std::vector<std::string>>> orphans(zk::Call call);
  /// Drives one of them; null if there is nothing to do (it is gone, foreign, or kept).
  zk::Awaitable<zkclient::Result<DrivePtr>> adopt(std::string id, zk::Call call);
  /// A transaction as it is.
  zk::Awaitable<zkclient::Result<CommitStatus>> look(std::string id, zk::Call call);

 private:
  class Run;
  static zk::Awaitable<void> drive(std::shared_ptr<TransactionDriver> self, DrivePtr transaction);

  const TreePtr tree_;
  const std::shared_ptr<Roster> roster_;
  std::map<std::string, DrivePtr> active_;
};

}  // namespace zkrecipes::detail
