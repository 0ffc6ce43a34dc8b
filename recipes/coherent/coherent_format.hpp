#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace zkrecipes::detail {

/// The node of a shard whose version is the shard's epoch.
struct Gate {
  bool open = true;
  std::int32_t version = 0;
  std::string id = {};     ///< Open: of the write that opened it; "": none did. Closed: of the writer that closed it.
  std::int64_t czxid = 0;  ///< Tells it from one that was made again.
};

/// The version that a gate has after its next change. -1 is left out: as a condition it means any version.
std::int32_t next_version(std::int32_t version) noexcept;

std::string format_gate(bool open, std::string_view id);
/// Nothing if the data is not that of a gate.
std::optional<Gate> parse_gate(std::string_view data, std::int32_t version);

/// A reader that may have items of a shard in its cache. The term is in the name, so that a writer learns it from the
/// list. The name is never used twice, so that a removal that is repeated never meets a later registration.
struct Registration {
  std::string name;
  std::chrono::milliseconds term{0};
};

std::string registration_name(std::string_view uuid, std::chrono::milliseconds term);
/// Nothing if the name is not that of a registration.
std::optional<Registration> parse_registration(std::string_view name);

/// The data of the cache's directory. All who use it must agree on the shards.
std::string format_directory(std::uint32_t shards);
/// Nothing if the data is not that of such a directory, or of a version that is not known.
std::optional<std::uint32_t> parse_directory(std::string_view data);

/// Of an item's name: the same in every process and for ever (FNV-1a, 64 bits).
inline std::uint64_t item_hash(std::string_view item) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : item) {
    hash ^= static_cast<unsigned char>(c);
    hash *= 0x100000001b3U;
  }
  return hash;
}
std::uint32_t shard_of(std::string_view item, std::uint32_t shards) noexcept;

}  // namespace zkrecipes::detail
