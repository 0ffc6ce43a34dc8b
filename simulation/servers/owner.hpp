#pragma once

#include <cstdint>
#include <limits>

#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// What the number in a node's ephemeralOwner says. Clients see it for ephemeral nodes only.
enum class OwnerKind : std::int8_t { nobody, session, container, ttl };

constexpr std::int64_t container_owner = std::numeric_limits<std::int64_t>::min();
constexpr Millis longest_ttl = 0xffffffffff;
constexpr std::int64_t ttl_mark = std::int64_t{-1} << 56;

constexpr std::int64_t ttl_owner(Millis ttl) { return ttl_mark | ttl; }
constexpr Millis ttl_of(std::int64_t owner) { return owner & longest_ttl; }

constexpr OwnerKind kind_of(std::int64_t owner, bool extended_types) {
  if (owner == 0) return OwnerKind::nobody;
  if (owner == container_owner) return OwnerKind::container;
  if (extended_types && (owner & ttl_mark) == ttl_mark) return OwnerKind::ttl;
  return OwnerKind::session;
}

/// The modes of a create.
namespace mode {
constexpr std::int32_t persistent = 0;
constexpr std::int32_t ephemeral = 1;
constexpr std::int32_t persistent_sequential = 2;
constexpr std::int32_t ephemeral_sequential = 3;
constexpr std::int32_t container = 4;
constexpr std::int32_t ttl = 5;
constexpr std::int32_t ttl_sequential = 6;

constexpr bool is_valid(std::int32_t flags) { return flags >= persistent && flags <= ttl_sequential; }
constexpr bool is_ephemeral(std::int32_t flags) { return flags == ephemeral || flags == ephemeral_sequential; }
constexpr bool is_ttl(std::int32_t flags) { return flags == ttl || flags == ttl_sequential; }
constexpr bool is_sequential(std::int32_t flags) {
  return flags == persistent_sequential || flags == ephemeral_sequential || flags == ttl_sequential;
}
}  // namespace mode

}  // namespace zktesting::simulated
