#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <zkrecipes/participant_log.hpp>

/// The bytes of a participant's log: a header, then frames of entries. A frame is there as a whole or not at all.
namespace zkrecipes::detail::log_format {

inline constexpr std::string_view magic = "zkrecipes 2pc log 1\n";
inline constexpr std::size_t identity_size = 36;
inline constexpr std::size_t header_size = magic.size() + identity_size + 1;
inline constexpr std::string_view frame_mark = "2PCF";
inline constexpr std::size_t frame_header = 12;
inline constexpr std::size_t entry_header = 7;
inline constexpr std::size_t max_id = 0xFFFF;
inline constexpr std::size_t max_frame = 0x7FFF'FFFF;

std::string encode_entry(LogEntry entry, std::string_view id, std::string_view data);

struct DecodedEntry {
  LogEntry kind;
  std::string_view id;
  std::string_view data;
};
/// The entry that `bytes` begin with, which hold at least `entry_header` of them; nullopt if it is longer than they
/// are.
std::optional<DecodedEntry> entry_at(std::string_view bytes);

std::string encode_frame(std::string_view entries);
/// The entries of the frame that `bytes` begin with; nullopt if they do not begin with a whole one.
std::optional<std::string_view> frame_at(std::string_view bytes);

}  // namespace zkrecipes::detail::log_format
