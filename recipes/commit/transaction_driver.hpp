#pragma once

#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/error.hpp>
#include <zkclient/result.hpp>

#include "recipes/commit/commit_tree.hpp"
#include "recipes/commit/roster.hpp"
#include "recipes/commit/transaction_run.hpp"

namespace zkrecipes::detail {

/// Drives transactions to their end: those that were begun here, and those that their coordinators have left. On the
/// loop thread only.
class TransactionDriver : public std::enable_shared_from_this<TransactionDriver> {
 public:
  TransactionDriver(TreePtr tree, std::chrono::milliseconds absence_grace)
      : tree_(std::move(tree)), roster_(std::make_shared<Roster>(tree_, absence_grace)) {}

  const TreePtr& tree() const noexcept { return tree_; }
  const std::shared_ptr<Roster>& roster() const noexcept { return roster_; }
  bool drives(const std::string& id) const { return active_.contains(id); }
  std::size_t active() const noexcept { return active_.size(); }

  DrivePtr start(std::string id, TransactionHeader header, LoopTime deadline, bool owner, std::string unwanted = {});

  /// The transactions to be finished: all that are not driven from here.
  zk::Awaitable<zkclient::Result<std::vector<std::string>>> orphans(zk::Call call);
  /// Drives one of them; null if there is nothing to do (it is gone, foreign, or kept).
  zk::Awaitable<zkclient::Result<DrivePtr>> adopt(std::string id, zk::Call call);
  /// A transaction as it is. If that cannot be read, or it is not there any more, one of ours whose outcome is known.
  zk::Awaitable<zkclient::Result<CommitStatus>> look(std::string id, zk::Call call);

 private:
  static zk::Awaitable<void> drive(std::shared_ptr<TransactionDriver> self, DrivePtr transaction);
  zk::Awaitable<zkclient::Result<CommitStatus>> read(std::string id, zk::Call call);
  std::optional<CommitOutcome> known_outcome(const std::string& id) const;
  void remember(const DrivePtr& transaction);

  const TreePtr tree_;
  const std::shared_ptr<Roster> roster_;
  std::map<std::string, DrivePtr> active_;
  std::deque<CommitOutcome> ended_;  // The newest ones of those that were begun here, whose callers may still ask.
};

}  // namespace zkrecipes::detail
