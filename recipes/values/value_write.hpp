#pragma once

namespace zkrecipes::detail {

/// What one transaction does to the node of a value, which was read before.
enum class ValueWrite {
  create,        ///< Create the node.
  set,           ///< Set the data if the version is the one that was read.
  set_twice,     ///< The same, and once more: the version that comes next means any.
  set_always,    ///< Set the data without a condition.
  check,         ///< Nothing changes: check that the version is the one that was read, since that may be old.
  check_absent,  ///< Nothing changes: create the node and remove it, which fails if it is there.
  nothing,       ///< Nothing changes, and nothing can be checked.
};

/// Whether what the transaction does may have to be found out; else it can be sent again.
constexpr bool changes(ValueWrite write) noexcept {
  return write != ValueWrite::check && write != ValueWrite::check_absent && write != ValueWrite::nothing;
}

/// Whether it rests on the version of the node that was read, which a node that was made again may have, too.
constexpr bool rests_on_version(ValueWrite write) noexcept {
  return write == ValueWrite::set || write == ValueWrite::set_twice || write == ValueWrite::check;
}

}  // namespace zkrecipes::detail
