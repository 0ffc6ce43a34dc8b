#pragma once

#include <zkrecipes/two_phase_commit.hpp>

#include "tools/zkr/cli/context.hpp"

namespace CLI {
class App;
}

namespace zkr {

/// A line, or with --json an object: the transaction and what became of it.
void write_outcome(const Context& context, const zkrecipes::CommitOutcome& outcome);

// Each adds subcommands to `commit`. `context` must live as long as it.
void add_commit_run(CLI::App& commit, Context& context);
void add_commit_participate(CLI::App& commit, Context& context);

}  // namespace zkr
