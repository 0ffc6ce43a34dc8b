#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Every decoder of ours that reads what others wrote, with the properties it must have whatever the input is. The same
/// targets run under libFuzzer (option ZKRECIPES_FUZZ) and, over their seeds and random mutations, in the unit tests.
namespace fuzz {

struct Target {
  const char* name;
  /// Throws std::logic_error when a property does not hold.
  void (*check)(std::string_view input);
  std::vector<std::string> seeds;  ///< The corpus that both begin with.
};

const std::vector<Target>& targets();

}  // namespace fuzz
