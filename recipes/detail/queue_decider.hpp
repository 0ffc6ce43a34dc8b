#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace zkrecipes::detail {

/// What a contender does after it has read the list of children.
struct QueueStep {
  enum class Kind {
    acquired,  ///< Nobody is before us.
    watch,     ///< Wait for `node` to go.
    vanished,  ///< Our own node is not in the list.
  };
  Kind kind = Kind::vanished;
  std::string node = {};
  /// Only `node` is before us: once it is gone, nobody is.
  bool last_obstacle = false;

  friend bool operator==(const QueueStep&, const QueueStep&) = default;
};

/// The rule of every fair queue (mutex, election): whoever was created first has it, everybody else waits for the
/// nearest one before. Children without a sequence number after one of `infixes` are not contenders.
QueueStep decide_queue(const std::vector<std::string>& children, std::string_view self,
                       const std::vector<std::string_view>& infixes);

}  // namespace zkrecipes::detail
