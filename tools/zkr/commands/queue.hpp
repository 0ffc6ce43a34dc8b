#pragma once

#include <optional>
#include <string>

#include <zkrecipes/inspect.hpp>

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// Which queue a command is about.
struct QueueOptions {
  std::string path;
  std::string layout;
  std::string kind;  ///< "" if none is named.

  std::optional<zkrecipes::RecipeKind> named_kind() const;
};

/// `options` must live as long as `command`.
void add_queue_options(CLI::App* command, QueueOptions& options);

/// The subcommand of `queue` that runs a command for each item.
void add_queue_work(CLI::App& queue, Context& context);

}  // namespace zkr
