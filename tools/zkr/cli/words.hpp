#pragma once

#include <string>
#include <vector>

namespace zkr {

/// The words of a call. What follows the first "--" belongs to the command, and nobody else reads it.
struct CallWords {
  std::vector<std::string> own;      // Without the program's name.
  std::vector<std::string> command;  // Exactly as they were given.
  bool divided = false;              // There was a "--".
};

CallWords split_words(int argc, char** argv);

}  // namespace zkr
