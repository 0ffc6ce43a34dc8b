#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/commit/commit_record.hpp"
#include "recipes/kernel/timed.hpp"
#include "recipes/kernel/words.hpp"

/// The nodes of a two-phase commit, as its coordinators and participants read and write them. On the loop thread only.
namespace zkrecipes::detail {

using LoopTime = std::chrono::steady_clock::time_point;
inline constexpr const char* transaction_operation = "two-phase commit";  // In errors.
inline constexpr auto pause_after_failure = std::chrono::milliseconds(200);

/// Where everything is. All paths are full ones.
struct CommitTree {
  CommitTree(std::shared_ptr<zk::ClientCore> core, const zkclient::Path& where, zkclient::AclList list);

  std::string presence(std::string_view name) const;
  std::string inbox(std::string_view name) const;
  std::string inbox_entry(std::string_view name, std::string_view id) const;
  std::string transaction(std::string_view id) const;
  std::string child(std::string_view id, std::string_view name) const;
  std::string child(std::string_view id, std::string_view prefix, std::string_view name) const;
  std::string shown(std::string_view id) const;  ///< The transaction as the user knows it.

  std::shared_ptr<zk::ClientCore> client;
  std::string path;  ///< As the user wrote it.
  std::string participants;
  std::string inboxes;
  std::string transactions;
  zkclient::AclList acl;
};
using TreePtr = std::shared_ptr<const CommitTree>;

/// Whether a transaction can have this id. Other clients may have made a node, or the data of an inbox, with any text.
bool is_transaction_id(const CommitTree& tree, std::string_view id);

/// Creates the persistent nodes above, and what else is wanted.
zk::Awaitable<zk::Reply> ensure_tree(TreePtr tree, std::vector<std::string> wanted, zk::Call call);
/// Whether a node exists, of which no server may lag behind: ok, no_node, or a failure.
zk::Awaitable<zk::Reply> certain(TreePtr tree, std::string path, zk::Call call);
/// The operation at which a transaction has failed because another client was faster. Any other reason (access rights,
/// a quota) becomes the reply's error.
std::optional<zk::Refusal> failed_operation(zk::Reply& reply);

/// A decision that was read or made. `gone`: there is no such transaction. Without either it is open, or `failure` says
/// why nothing is known.
struct DecisionFound {
  std::optional<Decision> decision = {};
  bool gone = false;
  zk::Reply failure = {};
};
zk::Awaitable<DecisionFound> read_decision(TreePtr tree, std::string id, zk::Call call);
/// Creates the decision, if it is still open. A commit is refused (open) if a vote is missing or to abort.
zk::Awaitable<DecisionFound> make_decision(TreePtr tree, std::string id, std::vector<std::string> participants,
                                           Decision wanted, zk::Call call);
/// The same where a full quota has no room for the decision: `node`, which can be done without, is removed in the same
/// flight, so that others have little time to take the room. `gone` becomes true once that is known; it must outlive the
/// call.
zk::Awaitable<DecisionFound> make_decision_in_place_of(TreePtr tree, std::string node, bool& gone, std::string id,
                                                       std::vector<std::string> participants, Decision wanted,
                                                       zk::Call call);

}  // namespace zkrecipes::detail
