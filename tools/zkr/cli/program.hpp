#pragma once

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// All options and commands. `context` must live as long as `app`.
void set_up_program(CLI::App& app, Context& context);

/// `zkr`: reads the words, does what they say, returns the exit code. This process must have one thread.
int run_program(int argc, char** argv);

}  // namespace zkr
