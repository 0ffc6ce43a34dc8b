#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "recipes/commit/node_events.hpp"

namespace zkrecipes::detail {

/// Follows the votes (or acknowledgements) of a transaction with one watch at a time: on one of the missing ones,
/// chosen at random. When that one comes, about half of the others are there as well. So n of them take about 2 log2(n)
/// requests, and not n.
class VoteTally {
 public:
  VoteTally(TreePtr tree, const NodeEvents& events, std::string id, std::string_view prefix,
            const std::vector<std::string>& names);

  const std::set<std::string, std::less<>>& seen() const noexcept { return seen_; }
  bool complete() const noexcept { return missing_.empty(); }
  /// Takes in a list of the transaction's children that another step has read.
  void note(const Ballot& ballot);
  /// Looks again at the next advance().
  void list_next() noexcept { list_ = true; }
  /// Takes in what has happened, and has one missing name watched (or there are none). no_node: the transaction is
  /// gone.
  zk::Awaitable<zk::Reply> advance(zk::Call call);

 private:
  void mark(const std::string& name);
  zk::Awaitable<zk::Reply> list(zk::Call call);

  const TreePtr tree_;
  const NodeEvents& events_;
  const std::string id_;
  const std::string prefix_;
  std::set<std::string, std::less<>> seen_;
  std::vector<std::string> missing_;  // The last one is watched next.
  NodeEvents::WatchPtr watch_;
  bool list_ = false;
};

}  // namespace zkrecipes::detail
