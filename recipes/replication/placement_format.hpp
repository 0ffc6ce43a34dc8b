#pragma once

#include <optional>
#include <string>
#include <string_view>

#include <zkclient/export.hpp>

#include "recipes/replication/placement_decider.hpp"

/// What is in the nodes of a placement. Foreign text is refused, and never throws.
///
///   hosts/<id>              "host 1 <weight> <rack>"; the rack "-" is none
///   placement/<partition>   "placement 1", then a line "<id> wanted" or "<id> leaving" for each host, ordered by id;
///                           at least one
namespace zkrecipes::detail {

/// Nothing if it is good, else what is wrong.
ZKRECIPES_INTERNAL_API const char* host_defect(const ReplicaHost& host) noexcept;

/// Without the id, which is the name of its node.
ZKRECIPES_INTERNAL_API std::string encode(const ReplicaHost& host);
ZKRECIPES_INTERNAL_API std::optional<ReplicaHost> decode_host(std::string_view id, std::string_view text);

ZKRECIPES_INTERNAL_API std::string encode(const PlacementNode& node);
ZKRECIPES_INTERNAL_API std::optional<PlacementNode> decode_placement(std::string_view text);

}  // namespace zkrecipes::detail
