#include "recipes/values/id_generator.hpp"

#include <algorithm>
#include <charconv>

namespace zkrecipes {

namespace {

constexpr int time_bits_at_least = 41;
constexpr int id_bits = 63;

std::int64_t since_1970(std::chrono::system_clock::time_point time) {
  return std::chrono::floor<std::chrono::milliseconds>(time.time_since_epoch()).count();
}

std::int64_t mask(int bits) { return (std::int64_t{1} << bits) - 1; }

}  // namespace

IdParts IdLayout::parts_of(std::int64_t id) const {
  IdParts parts;
  parts.time = epoch + std::chrono::milliseconds(id >> (worker_bits + sequence_bits));
  parts.worker = static_cast<int>(id >> sequence_bits & mask(worker_bits));
  parts.sequence = static_cast<int>(id & mask(sequence_bits));
  return parts;
}

namespace detail {

const char* layout_defect(const IdLayout& layout) noexcept {
  if (layout.worker_bits < 1 || layout.sequence_bits < 1) return "worker_bits and sequence_bits must be positive";
  const int most = id_bits - time_bits_at_least;
  const bool fits =
      layout.worker_bits < most && layout.sequence_bits < most && layout.worker_bits + layout.sequence_bits <= most;
  return fits ? nullptr : "worker_bits and sequence_bits are more than 22 together";
}

std::int64_t latest_time(const IdLayout& layout) {
  return since_1970(layout.epoch) + mask(id_bits - layout.worker_bits - layout.sequence_bits);
}

IdGenerator::IdGenerator(const IdLayout& layout, std::int64_t worker, std::int64_t floor)
    : epoch_(since_1970(layout.epoch)),
      latest_(latest_time(layout)),
      worker_bits_(layout.worker_bits),
      sequence_bits_(layout.sequence_bits),
      worker_(worker),
      last_(std::clamp(floor, epoch_ - 1, latest_)),
      sequence_(mask(sequence_bits_)),
      reserved_(last_) {}

void IdGenerator::reserve(std::int64_t until) { reserved_ = std::clamp(until, reserved_, latest_); }

std::int64_t IdGenerator::left(std::int64_t now) const noexcept { return reserved_ - std::max(now, last_); }

std::optional<std::int64_t> IdGenerator::next(std::int64_t now) {
  if (now > last_ && now <= reserved_) {
    last_ = now;
    sequence_ = 0;
  } else if (sequence_ < mask(sequence_bits_)) {
    ++sequence_;
  } else if (last_ < reserved_) {
    ++last_;
    sequence_ = 0;
  } else {
    return std::nullopt;
  }
  return (last_ - epoch_) << (worker_bits_ + sequence_bits_) | worker_ << sequence_bits_ | sequence_;
}

std::string encode_time(std::int64_t time) { return std::to_string(time); }

std::optional<std::int64_t> decode_time(std::string_view data, std::int64_t latest) {
  std::int64_t time = 0;
  const char* end = data.data() + data.size();
  const auto [stopped, error] = std::from_chars(data.data(), end, time);
  const bool whole = error == std::errc() && stopped == end;
  return whole && time <= latest ? std::optional(time) : std::nullopt;
}

}  // namespace detail

}  // namespace zkrecipes
