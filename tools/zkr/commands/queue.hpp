#pragma once

#include <string>

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// Which queue a command is about.
struct QueueOptions {
  std::string path;
  std::string layout;
};

/// `options` must live as long as `command`.
void add_queue_options(CLI::App* command, QueueOptions& options);

/// The subcommand of `queue` that runs a command for each item.
void add_queue_work(CLI::App& queue, Context& context);

}  // namespace zkr
