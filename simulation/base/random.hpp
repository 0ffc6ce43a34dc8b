#pragma once

#include <cstdint>

namespace zktesting::simulated {

/// Random numbers that are the same on every machine for the same seed, which the standard's distributions are not.
/// The generator is xoshiro256**; splitmix64 fills its state.
class Random {
 public:
  explicit Random(std::uint64_t seed) {
    for (std::uint64_t& word : state_)
      word = mixed(seed += 0x9E3779B97F4A7C15u);
  }

  std::uint64_t next() {
    const std::uint64_t result = rotated(state_[1] * 5, 7) * 9;
    const std::uint64_t shifted = state_[1] << 17;
    state_[2] ^= state_[0];
    state_[3] ^= state_[1];
    state_[1] ^= state_[2];
    state_[0] ^= state_[3];
    state_[2] ^= shifted;
    state_[3] = rotated(state_[3], 45);
    return result;
  }
  /// 0 to `end` - 1. The bias is below 2^-32 for what a simulation asks for.
  std::uint64_t below(std::uint64_t end) { return end == 0 ? 0 : next() % end; }
  std::int64_t between(std::int64_t first, std::int64_t last) {
    return first + static_cast<std::int64_t>(below(static_cast<std::uint64_t>(last - first) + 1));
  }
  /// True in one of `n` cases.
  bool one_in(std::uint64_t n) { return below(n) == 0; }
  /// A seed for a generator of its own.
  Random fork() { return Random(next()); }

 private:
  static std::uint64_t rotated(std::uint64_t word, int by) { return (word << by) | (word >> (64 - by)); }
  static std::uint64_t mixed(std::uint64_t word) {
    word = (word ^ (word >> 30)) * 0xBF58476D1CE4E5B9u;
    word = (word ^ (word >> 27)) * 0x94D049BB133111EBu;
    return word ^ (word >> 31);
  }

  std::uint64_t state_[4];
};

}  // namespace zktesting::simulated
