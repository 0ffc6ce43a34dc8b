#include "tools/zkr/cli/data_option.hpp"

#include "tools/zkr/cli/failure.hpp"
#include "tools/zkr/cli/output.hpp"

namespace zkr {

std::string DataOption::bytes(const CallWords& words) const {
  if (words.command.size() > 1 || (word && words.divided)) throw Failure(exit_usage, "more than one value");
  if (!words.command.empty()) return words.command.front();
  return word == "-" ? read_input() : word.value_or("");
}

std::string DataOption::required_bytes(const CallWords& words) const {
  if (!word && words.command.empty()) throw Failure(exit_usage, "no value: a word, or - for standard input");
  return bytes(words);
}

}  // namespace zkr
