#include "tools/zkr/cli/base64.hpp"

#include <cstdint>

namespace zkr {
namespace {

constexpr std::string_view digits = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";

}  // namespace

std::string to_base64(std::string_view bytes) {
  std::string text;
  for (; !bytes.empty(); bytes.remove_prefix(std::min<std::size_t>(3, bytes.size()))) {
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 3; ++i)
      group = group << 8U | (i < bytes.size() ? static_cast<unsigned char>(bytes[i]) : 0U);
    for (std::size_t i = 0; i < 4; ++i)
      text += i <= bytes.size() ? digits[group >> (18U - 6U * i) & 63U] : '=';
  }
  return text;
}

std::optional<std::string> from_base64(std::string_view text) {
  if (text.size() % 4 != 0) return std::nullopt;
  std::string bytes;
  for (; !text.empty(); text.remove_prefix(4)) {
    const std::size_t padding = text.size() > 4 ? 0 : text.substr(2, 2) == "==" ? 2 : text[3] == '=' ? 1 : 0;
    std::uint32_t group = 0;
    for (std::size_t i = 0; i < 4; ++i) {
      const std::size_t digit = i < 4 - padding ? digits.find(text[i]) : 0;
      if (digit == std::string_view::npos) return std::nullopt;
      group = group << 6U | static_cast<std::uint32_t>(digit);
    }
    for (std::size_t i = 0; i < 3 - padding; ++i)
      bytes += static_cast<char>(group >> (16U - 8U * i) & 255U);
    if (to_base64(std::string_view(bytes).substr(bytes.size() - (3 - padding))) != text.substr(0, 4))
      return std::nullopt;
  }
  return bytes;
}

}  // namespace zkr
