#include "recipes/views/name_judge.hpp"

#include <cstddef>
#include <exception>

#include <fmt/format.h>

namespace zkrecipes::detail {

namespace zk = zkclient::detail;

std::optional<std::vector<bool>> judge(NamePredicate& include, const std::vector<std::string>& paths) {
  std::vector<bool> included(paths.size(), true);
  std::size_t thrown = 0;
  std::string first;
  const auto note = [&](const std::string& path, const char* what) {
    if (thrown++ == 0) first = fmt::format("{}: {}", path, what);
  };
  for (std::size_t i = 0; i < paths.size(); ++i) {
    try {
      included[i] = include.holds(paths[i]);
    } catch (const std::exception& error) {
      note(paths[i], error.what());
    } catch (...) {
      note(paths[i], "no std::exception");
    }
  }
  if (include.stopped()) return std::nullopt;
  if (thrown != 0) {  // One line for all of them.
    zk::log(zkclient::LogLevel::warning,
            fmt::format("cache: include threw for {} of {} names, which are in the view; for {}", thrown, paths.size(),
                        first),
            {.source = "zkrecipes"});
  }
  return included;
}

}  // namespace zkrecipes::detail
