#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <string>

#include <zkrecipes/inspect.hpp>

#include "tools/zkr/cli/json.hpp"
#include "tools/zkr/commands/session_addresses.hpp"

/// How `who`, `top` and `metrics` tell what is at a path.
namespace zkr {

struct ContenderCounts {
  std::size_t holders = 0;
  std::size_t waiters = 0;
  std::size_t foreign = 0;
};
ContenderCounts count_contenders(const zkrecipes::Inspection& found);

/// Since when the first of those who hold (or else of those who wait) does so. Nothing: there is none.
std::optional<std::chrono::system_clock::time_point> oldest_contender(const zkrecipes::Inspection& found, bool holds);

bool is_queue(zkrecipes::RecipeKind kind);

/// `addresses`: also where the contenders' clients are connected from.
json::object inspection_json(const std::string& path, const zkrecipes::Inspection& found,
                             const SessionAddresses* addresses = nullptr);

/// A heading, a table of the contenders, and tables of what the recipe has besides.
std::string inspection_text(const std::string& path, const zkrecipes::Inspection& found,
                            const SessionAddresses* addresses = nullptr);

}  // namespace zkr
