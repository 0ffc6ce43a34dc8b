#include "recipes/commit/log_format.hpp"

#include <array>
#include <cstdint>

namespace zkrecipes::detail::log_format {

namespace {

std::uint32_t crc32c(std::string_view bytes, std::uint32_t crc = 0) {
  static const auto table = [] {
    std::array<std::uint32_t, 256> made{};
    for (std::uint32_t i = 0; i < made.size(); ++i) {
      std::uint32_t value = i;
      for (int bit = 0; bit < 8; ++bit)
        value = (value & 1U) != 0 ? value >> 1U ^ 0x82F63B78U : value >> 1U;
      made[i] = value;
    }
    return made;
  }();
  crc = ~crc;
  for (const char c : bytes)
    crc = table[(crc ^ static_cast<unsigned char>(c)) & 0xFFU] ^ crc >> 8U;
  return ~crc;
}

void put(std::string& out, std::uint32_t value, unsigned bytes) {
  for (unsigned i = 0; i < bytes; ++i)
    out += static_cast<char>(value >> 8U * i & 0xFFU);
}

std::uint32_t number(std::string_view bytes) {
  std::uint32_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;)
    value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

}  // namespace

std::string encode_entry(LogEntry entry, std::string_view id, std::string_view data) {
  std::string text;
  text.reserve(entry_header + id.size() + data.size());
  text += static_cast<char>(entry);
  put(text, static_cast<std::uint32_t>(id.size()), 2);
  put(text, static_cast<std::uint32_t>(data.size()), 4);
  text += id;
  text += data;
  return text;
}

std::optional<DecodedEntry> entry_at(std::string_view bytes) {
  const auto kind = static_cast<LogEntry>(bytes[0]);
  const std::size_t id_size = number(bytes.substr(1, 2));
  const std::size_t data_size = number(bytes.substr(3, 4));
  bytes.remove_prefix(entry_header);
  if (id_size + data_size > bytes.size()) return std::nullopt;
  return DecodedEntry{kind, bytes.substr(0, id_size), bytes.substr(id_size, data_size)};
}

std::string encode_frame(std::string_view entries) {
  std::string frame(frame_mark);
  std::string length;
  put(length, static_cast<std::uint32_t>(entries.size()), 4);
  frame += length;
  put(frame, crc32c(entries, crc32c(length)), 4);
  frame += entries;
  return frame;
}

std::optional<std::string_view> frame_at(std::string_view bytes) {
  if (bytes.size() < frame_header || !bytes.starts_with(frame_mark)) return std::nullopt;
  const std::size_t length = number(bytes.substr(4, 4));
  if (length > bytes.size() - frame_header) return std::nullopt;
  const std::string_view entries = bytes.substr(frame_header, length);
  if (crc32c(entries, crc32c(bytes.substr(4, 4))) != number(bytes.substr(8, 4))) return std::nullopt;
  return entries;
}

}  // namespace zkrecipes::detail::log_format
