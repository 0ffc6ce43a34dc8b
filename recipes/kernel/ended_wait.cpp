#include "recipes/kernel/ended_wait.hpp"

#include <fmt/format.h>

namespace zkrecipes::detail {

std::string wait_story(std::string_view awaited, std::string_view seen) {
  return fmt::format("waited for {}; last seen: {}", awaited, seen);
}

std::string counted(std::size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

std::string describe_view(const Snapshot& nodes, CacheState state, const std::optional<Error>& problem) {
  std::string seen = "nothing has been read yet";
  if (nodes.revision() != 0)
    seen = nodes.root() == nullptr ? "there is no node"
                                   : fmt::format("a node with {} below it", counted(nodes.size(), "node"));
  if (nodes.revision() != 0 && state == CacheState::stale) seen += ", when the connection broke";
  return problem ? fmt::format("{}; {}", seen, problem->what()) : seen;
}

bool is_ended_wait(const Error& error) noexcept {
  const Errc code = error.errc();
  return code == Errc::deadline_exceeded || code == Errc::cancelled || code == Errc::closed;
}

Error retold(const zk::ClientCore& client, const Error& error, const char* operation, const std::string& path,
             std::string_view story) {
  return zk::with_trouble(client, Error(error.errc(), operation, path, story, error.node()));
}

}  // namespace zkrecipes::detail
