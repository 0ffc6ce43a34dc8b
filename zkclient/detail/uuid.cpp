#include "zkclient/detail/uuid.hpp"

#include <array>

#include "zkclient/detail/random.hpp"

namespace zkclient::detail {

std::string make_uuid() {
  static constexpr char digits[] = "0123456789abcdef";
  std::array<unsigned char, 16> bytes{};
  fill_randomly(bytes.data(), bytes.size());
  bytes[6] = static_cast<unsigned char>((bytes[6] & 0x0f) | 0x40);
  bytes[8] = static_cast<unsigned char>((bytes[8] & 0x3f) | 0x80);
  std::string text;
  text.reserve(36);
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    if (i == 4 || i == 6 || i == 8 || i == 10) text += '-';
    text += digits[bytes[i] >> 4];
    text += digits[bytes[i] & 15];
  }
  return text;
}

}  // namespace zkclient::detail
