#pragma once

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// Adds `enter` to `barrier`. `context` must live as long as it.
void add_barrier_enter(CLI::App& barrier, Context& context);

}  // namespace zkr
