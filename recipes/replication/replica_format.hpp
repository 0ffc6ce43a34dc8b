#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include <zkclient/export.hpp>

#include <zkrecipes/replica_group.hpp>

/// What is in the nodes of a replica group. Foreign text is refused, and never throws.
///
///   state     "replicas 1 epoch=7 primary=b minimum=2 forced=0 leaving=0", then a line "<id> <storage> <term>" for
///             each that is in sync; primary=- is none; times in milliseconds
///   a member  "replica 1 <storage> <term> <version> <address>"
namespace zkrecipes::detail {

constexpr std::size_t most_replicas = 64;
constexpr std::size_t longest_replica_id = 128;
constexpr std::size_t longest_replica_address = 1024;

/// Of an id or of a storage: nothing if it is good, else what is wrong.
ZKRECIPES_INTERNAL_API const char* replica_id_defect(std::string_view id) noexcept;
ZKRECIPES_INTERNAL_API const char* replica_address_defect(std::string_view address) noexcept;

enum class ReplicaDefect {
  none,
  other_kind,       ///< It is no such text.
  unknown_version,  ///< Of the format.
  too_long,         ///< More than any group can have written.
  bad_field,        ///< A field of the first line is missing, or not what it should be.
  bad_replica,      ///< A line is not "<id> <storage> <term>".
  not_ordered,      ///< By id, and each once.
  any_version,      ///< The version of its node is -1, so that no write could rest on it. Another program's doing.
};
ZKRECIPES_INTERNAL_API const char* to_string(ReplicaDefect defect) noexcept;

ZKRECIPES_INTERNAL_API std::string encode(const ReplicaState& state);
/// nullopt: then `defect`, unless it is null, says why.
ZKRECIPES_INTERNAL_API std::optional<ReplicaState> decode_replica_state(std::string_view text,
                                                                        ReplicaDefect* defect = nullptr);

/// As decode_replica_state(), of a node with this version.
ZKRECIPES_INTERNAL_API std::optional<ReplicaState> read_replica_state(std::string_view text, std::int32_t version,
                                                                      ReplicaDefect& defect);

ZKRECIPES_INTERNAL_API std::string encode(const ReplicaMember& member);
/// The id is the name of its node.
ZKRECIPES_INTERNAL_API std::optional<ReplicaMember> decode_replica_member(std::string_view id, std::string_view text);

}  // namespace zkrecipes::detail
