#include "tools/zkr/commands/hold_until_eof.hpp"

#include <unistd.h>

#include <CLI/CLI.hpp>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <string>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/exit_code.hpp"
#include "tools/zkr/commands/commands.hpp"

namespace zkr {
namespace {

/// "held", and the token where there is one.
std::string held_line() {
  const char* token = std::getenv("ZKR_TOKEN");
  return token != nullptr ? "held " + std::string(token) + "\n" : "held\n";
}

int hold_until_end_of_input() {
  const std::string line = held_line();
  if (::write(STDOUT_FILENO, line.data(), line.size()) < 0) return exit_system;
  std::array<char, 4096> ignored{};
  while (true) {
    const ssize_t size = ::read(STDIN_FILENO, ignored.data(), ignored.size());
    if (size == 0) return exit_success;
    if (size < 0 && errno != EINTR) return exit_system;
  }
}

}  // namespace

void add_hold_until_eof(CLI::App& app, Context& context) {
  CLI::App* hold = app.add_subcommand(std::string(hold_command), "What lock --hold runs");
  hold->group("");  // Not in --help.
  hold->callback([&context] { context.action = hold_until_end_of_input; });
}

}  // namespace zkr
