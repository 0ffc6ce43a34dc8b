#pragma once

#include <memory>
#include <string>

#include <CLI/CLI.hpp>

#include "tools/zkr/cli/context.hpp"
#include "tools/zkr/cli/failure.hpp"

namespace zkr {

/// A command with what its options say.
template <typename Options>
struct Subcommand {
  CLI::App* app;
  Options* options;  // As long as `app` lives.

  CLI::App* operator->() const { return app; }
};

/// Adds a command: `run` is what it does, when all words have been read. Words behind "--" are refused, unless
/// `takes_words`.
template <typename Options>
Subcommand<Options> add_subcommand(CLI::App& app, Context& context, const std::string& name, const std::string& help,
                                   int (*run)(const Context&, const Options&), bool takes_words = false) {
  const auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(name, help);
  command->callback([&context, options, run, takes_words] {
    if (context.words.divided && !takes_words) throw Failure(exit_usage, "words behind -- make no sense here");
    context.action = [&context, options, run] { return run(context, *options); };
  });
  return {command, options.get()};
}

}  // namespace zkr
