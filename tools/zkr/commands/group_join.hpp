#pragma once

namespace CLI {
class App;
}

namespace zkr {

struct Context;

/// Adds `join` to `group`. `context` must live as long as it.
void add_group_join(CLI::App& group, Context& context);

}  // namespace zkr
