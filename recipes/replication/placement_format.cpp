#include "recipes/replication/placement_format.hpp"

#include <algorithm>
#include <charconv>

#include <fmt/format.h>
#include <zkrecipes/hashing.hpp>

#include "recipes/replication/replica_format.hpp"

namespace zkrecipes::detail {
namespace {

constexpr std::string_view host_word = "host 1 ";
constexpr std::string_view placement_word = "placement 1\n";
constexpr std::string_view wanted_word = " wanted";
constexpr std::string_view leaving_word = " leaving";
constexpr std::string_view no_rack = "-";
// More than any placer has reason to write, and less than a node can hold.
constexpr std::size_t most_assigned = 4096;

bool drop_suffix(std::string_view& line, std::string_view word) {
  if (!line.ends_with(word)) return false;
  line.remove_suffix(word.size());
  return true;
}

}  // namespace

const char* host_defect(const ReplicaHost& host) noexcept {
  if (const char* defect = replica_id_defect(host.id)) return defect;
  if (!host.rack.empty() && replica_id_defect(host.rack) != nullptr)
    return "the rack is no such name as an id is, or longer than 128 bytes";
  return host.weight > max_weight ? "the weight is too large" : nullptr;
}

std::string encode(const ReplicaHost& host) {
  return fmt::format("{}{} {}", host_word, host.weight, host.rack.empty() ? no_rack : std::string_view(host.rack));
}

std::optional<ReplicaHost> decode_host(std::string_view id, std::string_view text) {
  if (!text.starts_with(host_word)) return std::nullopt;
  text.remove_prefix(host_word.size());
  ReplicaHost host{std::string(id)};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), host.weight);
  if (error != std::errc()) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(end - text.data()));
  if (!text.starts_with(' ')) return std::nullopt;
  text.remove_prefix(1);
  if (text.empty()) return std::nullopt;
  if (text != no_rack) host.rack = text;
  return host_defect(host) == nullptr ? std::optional(std::move(host)) : std::nullopt;
}

std::string encode(const PlacementNode& node) {
  std::string text(placement_word);
  for (const std::string& id : node.assigned) {
    const bool wanted = std::binary_search(node.wanted.begin(), node.wanted.end(), id);
    text.append(id).append(wanted ? wanted_word : leaving_word).append("\n");
  }
  return text;
}

std::optional<PlacementNode> decode_placement(std::string_view text) {
  if (!text.starts_with(placement_word)) return std::nullopt;
  text.remove_prefix(placement_word.size());
  PlacementNode node;
  while (!text.empty()) {
    const std::size_t end = text.find('\n');
    if (end == std::string_view::npos || node.assigned.size() == most_assigned) return std::nullopt;
    std::string_view line = text.substr(0, end);
    text.remove_prefix(end + 1);
    const bool wanted = drop_suffix(line, wanted_word);
    if (!wanted && !drop_suffix(line, leaving_word)) return std::nullopt;
    if (replica_id_defect(line) != nullptr) return std::nullopt;
    if (!node.assigned.empty() && node.assigned.back() >= line) return std::nullopt;
    node.assigned.emplace_back(line);
    if (wanted) node.wanted.emplace_back(line);
  }
  if (node.assigned.empty()) return std::nullopt;  // No placer writes that: it would close all replicas.
  return node;
}

}  // namespace zkrecipes::detail
