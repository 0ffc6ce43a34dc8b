#pragma once

#include <string>
#include <vector>

namespace CLI {
class App;
}

namespace zkr {

struct OptionDescription {
  std::vector<std::string> names;  // "-w", "--timeout"; of a positional one "PATH".
  std::string value;               // "DURATION"; "": it takes none.
  std::string help;
  std::string variable;  // Of the environment, which says the same.
  bool positional = false;
  bool several = false;  // A positional one that may be said more than once.
  bool required = false;
};

/// A command as its options and its help have it: what help, manual page and completions are made of.
struct CommandDescription {
  std::string name;
  std::string help;
  std::vector<OptionDescription> options;
  std::vector<CommandDescription> commands;
};

/// Hidden commands and options are left out.
CommandDescription describe(const CLI::App& app);

/// The completions of a shell: "bash", "zsh", "fish". Paths of nodes are asked of the servers, 300 ms at most.
std::string completion(const CommandDescription& program, const std::string& shell);

/// The manual page, in section 1.
std::string manual_page(const CommandDescription& program, const std::string& version);

}  // namespace zkr
