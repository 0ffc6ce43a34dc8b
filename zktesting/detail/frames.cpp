#include "zktesting/detail/frames.hpp"

#include <algorithm>

namespace zktesting::detail {
namespace {

constexpr std::size_t length_size = 4;
constexpr std::size_t type_end = 8;              // xid and type
constexpr std::size_t head_size = 12;            // in a reply: xid and zxid
constexpr std::size_t handshake_head_size = 16;  // in a reply: version, timeout, session id
// A four-letter word, read as a length, is greater than any real one.
constexpr std::uint32_t largest_frame = 0x2000'0000;

std::uint32_t number_at(std::string_view bytes, std::size_t position) {
  std::uint32_t value = 0;
  for (const char byte : bytes.substr(position, 4)) {
    value = (value << 8) | static_cast<unsigned char>(byte);
  }
  return value;
}

}  // namespace

FrameScanner::Step FrameScanner::next(std::string_view bytes, std::size_t& position) {
  const std::size_t skipped = std::min(skip_, bytes.size() - position);
  skip_ -= skipped;
  position += skipped;
  const std::size_t left = bytes.size() - position;
  if (left < length_size) {
    return Step::need;
  }
  const std::uint32_t length = number_at(bytes, position);
  if (length > largest_frame) {
    return Step::not_ours;
  }
  const std::size_t wanted = std::min<std::size_t>(length, first_ ? handshake_head_size : head_size);
  if (left < length_size + wanted) {
    return Step::need;
  }
  frame_size_ = length_size + length;
  head_ = {.first = first_, .xid = {}, .type = {}};
  if (!first_ && wanted >= 4) {
    head_.xid = static_cast<std::int32_t>(number_at(bytes, position + length_size));
  }
  if (!first_ && wanted >= type_end) {
    head_.type = static_cast<std::int32_t>(number_at(bytes, position + length_size + 4));
  }
  return Step::head;
}

void FrameScanner::accept() {
  skip_ = frame_size_;
  first_ = false;
}

}  // namespace zktesting::detail
