#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zkrecipes::detail {

/// The next step of a contender after it has read the list of children.
struct WaitStep {
  enum class Kind {
    acquired,  ///< No contender is before us.
    watch,     ///< Wait for `node` to go.
    vanished,  ///< Our own node is not in the list.
  };
  Kind kind = Kind::vanished;
  std::string node = {};
  /// Only `node` is before us: once it is gone, no contender is.
  bool last_obstacle = false;

  friend bool operator==(const WaitStep&, const WaitStep&) = default;
};

/// The names that count, by what stands before the number: children that have none of these are no
/// contenders. Without `shared` ones all exclude each other.
struct ContenderNames {
  std::vector<std::string_view> exclusive;
  std::vector<std::string_view> shared = {};

  /// Both.
  std::vector<std::string_view> all() const;
  bool is_shared(std::string_view name) const;
};

/// The rule of every fair recipe (mutex, shared mutex, election): an exclusive contender waits for the nearest one
/// before it, a shared one for the nearest exclusive one before it; a contender without one is the holder.
///
/// Two nodes may have one number: an exclusive holder that becomes a shared one keeps its place. So when the exclusive
/// node goes that an exclusive contender waits for, there may be another one before it that was not in the list.
WaitStep decide_wait(const std::vector<std::string>& children, std::string_view self, const ContenderNames& names);

/// All of `children` for whom decide_wait() says acquired, as they stand there. For long lists: it takes n log n steps
/// in the place of n * n.
std::vector<std::string> holders(const std::vector<std::string>& children, const ContenderNames& names);

}  // namespace zkrecipes::detail
