#pragma once

#include <string>
#include <vector>

namespace zkr {

/// What a call of `zkr` has left.
struct Called {
  std::string output;
  std::string errors;
  int code = -1;  // The exit code; 128 and the signal that has ended it.
};

/// Calls the program, without a terminal, and waits until it has ended. Of the configuration of whoever runs the test it
/// sees nothing. `environment`: "NAME=value", besides that of the test.
Called call_zkr(std::vector<std::string> words, const std::string& input = "",
                const std::vector<std::string>& environment = {});

/// The program, for what goes on while the test does something.
std::string zkr_program();

}  // namespace zkr
