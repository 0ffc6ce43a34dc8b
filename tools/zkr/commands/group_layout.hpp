#pragma once

#include <string>

#include <zkrecipes/group.hpp>

namespace CLI {
class App;
}

namespace zkr {

/// The option that says whose names the members of a group have. `word` must live as long as `command`.
void add_group_layout(CLI::App& command, std::string& word);
zkrecipes::GroupLayout group_layout(const std::string& word);

}  // namespace zkr
