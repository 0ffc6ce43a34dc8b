#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <zkclient/error.hpp>

#include "recipes/commit/commit_decider.hpp"
#include "recipes/commit/commit_tree.hpp"
#include "recipes/commit/roster.hpp"
#include "recipes/commit/vote_tally.hpp"

namespace zkrecipes::detail {

/// A transaction that this process drives to its end. A change sets the signals in `told`.
struct TransactionDrive {
  std::string id;
  TransactionHeader header;
  LoopTime deadline;
  bool owner = false;                       ///< Began it, and waits for its acknowledgements for as long as that takes.
  std::string unwanted = {};                ///< Set: abort it, if it is still open.
  std::optional<LoopTime> settled_at = {};  ///< When an abort need no longer be acknowledged.

  std::optional<Decision> decision = {};
  std::optional<zkclient::Error> failure = {};
  bool applied = false;              ///< All have acknowledged.
  bool finished = false;             ///< It is not driven any more.
  std::shared_ptr<zk::Signal> wake;  ///< Has the driver look again.
  std::vector<std::shared_ptr<zk::Signal>> told = {};

  void tell() const {
    for (const auto& signal : told)
      signal->set();
  }
};
using DrivePtr = std::shared_ptr<TransactionDrive>;

/// Takes one transaction from open to decided, and from decided to removed. Each step looks at what is known, decides,
/// and does it.
class TransactionRun {
 public:
  TransactionRun(TreePtr tree, std::shared_ptr<Roster> roster, DrivePtr drive);

  zk::Awaitable<void> until_decided();
  zk::Awaitable<void> until_removed();
  /// Removes the coordinator's node, however the run has ended: a sweep must not believe that a coordinator still
  /// waits.
  void release() const;

 private:
  bool over() const { return drive_->failure || gone_ || tree_->client->closing(); }
  bool counts() const;
  zk::Awaitable<bool> count();
  Roster::Absence missing() const;
  DriveFacts facts(std::optional<std::string> gone) const;
  zk::Awaitable<void> look();
  zk::Awaitable<void> decide(DriveStep step);
  void take(const DecisionFound& found);
  zk::Awaitable<void> failed(zk::Reply reply);
  zk::Awaitable<void> remove();
  std::vector<std::string> expected() const;
  zk::Awaitable<zk::Reply> list(std::vector<std::string>& nodes);

  const TreePtr tree_;
  const std::shared_ptr<Roster> roster_;
  const DrivePtr drive_;
  const NodeEvents events_;
  const zk::Call call_ = {};
  VoteTally votes_;
  VoteTally acks_;
  NodeEvents::WatchPtr decision_;
  bool gone_ = false;
  bool released_ = false;  // Our node.
};

}  // namespace zkrecipes::detail
