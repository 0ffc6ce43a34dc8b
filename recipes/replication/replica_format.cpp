#include "recipes/replication/replica_format.hpp"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <limits>

#include <fmt/format.h>

namespace zkrecipes::detail {
namespace {

constexpr std::int64_t longest_term_ms = 24LL * 60 * 60 * 1000;
constexpr std::int64_t no_limit = std::numeric_limits<std::int64_t>::max();
constexpr std::size_t longest_state = 256 + most_replicas * (2 * longest_replica_id + 24);
constexpr std::string_view nobody = "-";

/// Digits only, without leading zeros: one number has one spelling.
template <typename Number>
bool read_number(std::string_view text, std::int64_t most, Number& number) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  const bool whole = error == std::errc() && end == text.data() + text.size() && !text.empty();
  const bool plain = whole && (text.size() == 1 || text.front() != '0');
  if (!plain || (most != no_limit && value > static_cast<std::uint64_t>(most))) return false;
  number = static_cast<Number>(value);
  return true;
}

bool read_time(std::string_view text, std::chrono::milliseconds& time) {
  std::int64_t number = 0;
  if (!read_number(text, longest_term_ms, number)) return false;
  time = std::chrono::milliseconds(number);
  return true;
}

/// The text up to the next `end`, which goes with it; all of it if there is none.
std::string_view take_until(std::string_view& text, char end) {
  const std::size_t at = text.find(end);
  const std::string_view taken = text.substr(0, at);
  text.remove_prefix(at == std::string_view::npos ? text.size() : at + 1);
  return taken;
}

bool take_prefix(std::string_view& text, std::string_view prefix) {
  if (!text.starts_with(prefix)) return false;
  text.remove_prefix(prefix.size());
  return true;
}

/// The value of the field that comes next; "" if that is another one.
std::string_view take_field(std::string_view& line, std::string_view name) {
  std::string_view field = take_until(line, ' ');
  return take_prefix(field, name) && take_prefix(field, "=") ? field : std::string_view();
}

bool read_fields(std::string_view line, ReplicaState& state) {
  constexpr std::int64_t most_epochs = no_limit - 1;
  if (!read_number(take_field(line, "epoch"), most_epochs, state.epoch)) return false;
  const std::string_view primary = take_field(line, "primary");
  if (primary != nobody) {
    if (replica_id_defect(primary) != nullptr) return false;
    state.primary = primary;
  }
  if (!read_number(take_field(line, "minimum"), most_replicas, state.minimum) || state.minimum == 0) return false;
  if (!read_number(take_field(line, "forced"), most_epochs, state.forced)) return false;
  return read_time(take_field(line, "leaving"), state.leaving) && line.empty();
}

bool read_replica(std::string_view line, InSyncReplica& replica) {
  replica.id = take_until(line, ' ');
  replica.storage = take_until(line, ' ');
  const bool named = replica_id_defect(replica.id) == nullptr && replica_id_defect(replica.storage) == nullptr;
  return named && read_time(line, replica.term);
}

ReplicaDefect read_state(std::string_view text, ReplicaState& state) {
  if (text.size() > longest_state) return ReplicaDefect::too_long;
  std::string_view first = take_until(text, '\n');
  if (!take_prefix(first, "replicas ")) return ReplicaDefect::other_kind;
  if (take_until(first, ' ') != "1") return ReplicaDefect::unknown_version;
  if (!read_fields(first, state)) return ReplicaDefect::bad_field;
  while (!text.empty()) {
    if (state.in_sync.size() == most_replicas) return ReplicaDefect::too_long;
    InSyncReplica replica;
    if (!read_replica(take_until(text, '\n'), replica)) return ReplicaDefect::bad_replica;
    const bool ordered = state.in_sync.empty() || state.in_sync.back().id < replica.id;
    if (!ordered) return ReplicaDefect::not_ordered;
    state.in_sync.push_back(std::move(replica));
  }
  return ReplicaDefect::none;
}

}  // namespace

const char* replica_id_defect(std::string_view id) noexcept {
  if (id.empty()) return "it is empty";
  if (id.size() > longest_replica_id) return "it is longer than 128 bytes";
  if (id == nobody) return "\"-\" stands for none";
  if (id == "." || id == "..") return "it makes no name of a node";
  const bool printable = std::all_of(id.begin(), id.end(), [](char c) { return c > ' ' && c < 0x7f && c != '/'; });
  return printable ? nullptr : "it has a character that is not printable ASCII, a space or a slash";
}

const char* replica_address_defect(std::string_view address) noexcept {
  return address.size() > longest_replica_address ? "the address is longer than 1024 bytes" : nullptr;
}

const char* to_string(ReplicaDefect defect) noexcept {
  switch (defect) {
    case ReplicaDefect::none: return "nothing";
    case ReplicaDefect::other_kind: return "it is not the state of a replica group";
    case ReplicaDefect::unknown_version: return "a later version of this library has written it";
    case ReplicaDefect::too_long: return "it is too long";
    case ReplicaDefect::bad_field: return "its first line is malformed";
    case ReplicaDefect::bad_replica: return "the line of a member is malformed";
    case ReplicaDefect::not_ordered: return "its members are not in order";
    case ReplicaDefect::any_version: return "its version is -1, which means any: set it once more, as it is";
  }
  return "?";
}

std::string encode(const ReplicaState& state) {
  std::string text = fmt::format("replicas 1 epoch={} primary={} minimum={} forced={} leaving={}\n", state.epoch,
                                 state.primary.empty() ? nobody : std::string_view(state.primary), state.minimum,
                                 state.forced, state.leaving.count());
  for (const InSyncReplica& replica : state.in_sync)
    text += fmt::format("{} {} {}\n", replica.id, replica.storage, replica.term.count());
  return text;
}

std::optional<ReplicaState> decode_replica_state(std::string_view text, ReplicaDefect* defect) {
  ReplicaState state;
  const ReplicaDefect found = read_state(text, state);
  if (defect != nullptr) *defect = found;
  if (found != ReplicaDefect::none) return std::nullopt;
  return state;
}

std::optional<ReplicaState> read_replica_state(std::string_view text, std::int32_t version, ReplicaDefect& defect) {
  std::optional<ReplicaState> state = decode_replica_state(text, &defect);
  if (!state || version != zkclient::any_version) return state;
  defect = ReplicaDefect::any_version;
  return std::nullopt;
}

std::string encode(const ReplicaMember& member) {
  return fmt::format("replica 1 {} {} {} {}", member.storage, member.term.count(), member.version, member.address);
}

std::optional<ReplicaMember> decode_replica_member(std::string_view id, std::string_view text) {
  if (replica_id_defect(id) != nullptr || !take_prefix(text, "replica 1 ")) return std::nullopt;
  ReplicaMember member;
  member.id = id;
  member.storage = take_until(text, ' ');
  if (replica_id_defect(member.storage) != nullptr) return std::nullopt;
  if (!read_time(take_until(text, ' '), member.term)) return std::nullopt;
  if (!read_number(take_until(text, ' '), no_limit, member.version)) return std::nullopt;
  if (replica_address_defect(text) != nullptr) return std::nullopt;
  member.address = text;
  return member;
}

}  // namespace zkrecipes::detail
