#include "zkclient/detail/requests/quota.hpp"

#include <charconv>

#include <fmt/format.h>

#include "zkclient/detail/requests/paths.hpp"

namespace zkclient::detail {

namespace {

constexpr std::string_view quota_folder = "/zookeeper/quota";

}  // namespace

QuotaFigures parse_quota(std::string_view data) {
  constexpr std::string_view separators = ",;=";
  QuotaFigures figures;
  std::string_view key;
  while (!data.empty()) {
    const std::size_t end = data.find_first_of(separators);
    const std::string_view word = data.substr(0, end);
    data.remove_prefix(end == std::string_view::npos ? data.size() : end + 1);
    if (word.empty()) continue;
    std::int64_t number = -1;
    const auto [rest, error] = std::from_chars(word.data(), word.data() + word.size(), number);
    if (error != std::errc()) {
      key = word;
      continue;
    }
    if (key == "count") figures.nodes = number;
    if (key == "bytes") figures.bytes = number;
    if (key == "countHardLimit") figures.hard_nodes = number;
    if (key == "byteHardLimit") figures.hard_bytes = number;
  }
  return figures;
}

std::vector<std::string> quota_holders(std::string path) {
  std::vector<std::string> holders;
  while (path.size() > 1) {
    std::string above = parent_of(path);
    holders.push_back(std::move(path));
    path = std::move(above);
  }
  return holders;
}

std::string quota_limits(const std::string& holder) {
  return fmt::format("{}{}/zookeeper_limits", quota_folder, holder);
}
std::string quota_usage(const std::string& holder) { return fmt::format("{}{}/zookeeper_stats", quota_folder, holder); }

std::string describe_quota(const Path& prefix, const std::string& holder, const QuotaFigures& limits,
                           const QuotaFigures& usage) {
  std::string used;
  if (limits.hard_nodes >= 0) used = fmt::format("{} of {} nodes", usage.nodes, limits.hard_nodes);
  if (limits.hard_bytes >= 0) {
    used += fmt::format("{}{} of {} bytes", used.empty() ? "" : " and ", usage.bytes, limits.hard_bytes);
  }
  if (used.empty()) used = "it has no hard limit any more";
  return fmt::format("the quota of {}: {}", without_prefix(prefix, holder), used);
}

}  // namespace zkclient::detail
