#include "tools/zkr/cli/words.hpp"

namespace zkr {

CallWords split_words(int argc, char** argv) {
  CallWords words;
  for (int i = 1; i < argc; ++i) {
    const std::string word = argv[i];
    if (words.divided) {
      words.command.push_back(word);
    } else if (word == "--") {
      words.divided = true;
    } else {
      words.own.push_back(word);
    }
  }
  return words;
}

}  // namespace zkr
