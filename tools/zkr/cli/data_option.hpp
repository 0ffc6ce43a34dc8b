#pragma once

#include <optional>
#include <string>

#include "tools/zkr/cli/words.hpp"

namespace zkr {

/// Bytes to be written: a word, the one behind "--", or, for "-", what standard input has.
struct DataOption {
  std::optional<std::string> word;

  /// Empty if there are none. Errors: Failure (exit_usage).
  std::string bytes(const CallWords& words) const;
  /// The same; none is a Failure.
  std::string required_bytes(const CallWords& words) const;
};

}  // namespace zkr
