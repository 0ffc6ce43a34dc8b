#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recipes/commit/commit_tree.hpp"

namespace zkrecipes::detail {

/// Which participants serve, and since when the others have been gone. One watch serves all transactions of one object.
class Roster : public std::enable_shared_from_this<Roster> {
 public:
  Roster(TreePtr tree, std::chrono::milliseconds grace);
  ~Roster();
  Roster(const Roster&) = delete;
  Roster& operator=(const Roster&) = delete;

  /// From the first call on, the list is followed.
  void follow();
  /// A participant of `names`, not in `voted`, that has been gone for the grace time; `next`: when one will have been.
  struct Absence {
    std::optional<std::string> gone;
    std::optional<LoopTime> next;
  };
  Absence absence(const std::vector<std::string>& names, const std::set<std::string, std::less<>>& voted) const;
  /// Sets the signal at every change, for as long as its owner keeps it.
  void tell(const std::shared_ptr<zk::Signal>& signal);

 private:
  struct State;
  static zk::Awaitable<void> watch(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace zkrecipes::detail
