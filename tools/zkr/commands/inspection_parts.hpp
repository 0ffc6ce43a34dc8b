#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include <zkrecipes/inspect.hpp>

#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/doctor/server_state.hpp"

/// What is told of latches, periodic jobs, migrations, placements and persistent nodes besides their contenders.
namespace zkr {

/// For a heading: "2 of 3 left", "3 partitions, 1 moving, 1 below its minimum". "": there is nothing to be told.
std::string parts_text(const zkrecipes::Inspection& found);

/// Tables of runs, steps, hosts, partitions. "": there are none.
std::string parts_tables(const zkrecipes::Inspection& found);

/// Adds what such a recipe has.
void add_parts(json::object& object, const zkrecipes::Inspection& found);

/// What is dangerous there, gravest last. `path` is the check that the findings are of.
std::vector<Finding> judge_parts(const std::string& path, const zkrecipes::Inspection& found);

/// How many nodes a look has to read.
std::size_t count_nodes(const zkrecipes::Inspection& found);

}  // namespace zkr
