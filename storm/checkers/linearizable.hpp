#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

/// A judge of what clients did to one object, be it a register or a number that is counted.
namespace storm {

/// What a client did to one object, and when by one clock. Values are numbers; `absent` is one of them. The kinds with
/// versions have ZooKeeper's meaning; an object has either those or the ones without.
struct Operation {
  enum Kind : std::uint8_t {
    read,            ///< It found `value`, in `version`.
    write,           ///< It set `value`, whatever there was.
    change,          ///< It set `value` because it found `expected`.
    refuse,          ///< It changed nothing because it found something else than `expected`.
    add,             ///< It added `value`, and does not know to what. One that knows is a change.
    create,          ///< It made `value`, where there was nothing, in version 0.
    set,             ///< It set `value` because it found `version`, which it made greater by one.
    remove,          ///< It removed what had `version`.
    refuse_version,  ///< It changed nothing because it found another version than `version`.
  };
  static constexpr std::int64_t absent = -1;
  static constexpr std::int64_t any_version = -1;
  static constexpr std::int64_t never = std::numeric_limits<std::int64_t>::max();

  Kind kind = read;
  std::int64_t begin = 0;
  std::int64_t end = 0;  ///< `never`: in doubt. It was applied at any time since `begin`, or not at all.
  std::int64_t value = absent;
  std::int64_t expected = absent;
  /// `any_version` suits a read that has not seen it, a removal, and a set in doubt. (Any other set knows it.)
  std::int64_t version = any_version;

  friend bool operator==(const Operation&, const Operation&) = default;
};

std::string to_string(const Operation& operation);

/// Whether operations can be put into an order that respects which ended before which began, and in which each one
/// finds what the one before it has left.
struct LinearizabilityVerdict {
  enum Answer : std::uint8_t {
    linearizable,
    refused,
    undecided,  ///< Too much work: nothing is known.
  };
  Answer answer = linearizable;
  /// If refused: the shortest prefix of the history that no order explains ends with the end of this one.
  Operation culprit;
  std::uint64_t steps = 0;  ///< Of the search, without that for the culprit.
};

/// The search of Wing and Gong, with Lowe's memory of where it has been. One that ends well takes about a step for each
/// operation; one that does not tries all orders, which are not many as long as few operations run at once.
LinearizabilityVerdict judge_operations(const std::vector<Operation>& operations,
                                        std::int64_t initial = Operation::absent, std::uint64_t most_steps = 400'000);

}  // namespace storm
