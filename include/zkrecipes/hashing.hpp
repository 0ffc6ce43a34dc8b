#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <zkclient/export.hpp>

/// Which member gets what, worked out by everybody alike: the same on every machine, with every compiler, in every
/// version of this library. All of it is pure: no I/O, no state. Throws std::bad_alloc, and what is said.
namespace zkrecipes {

/// 64 bits of a text: FNV-1a over its bytes (offset cbf29ce484222325, prime 100000001b3), then the finaliser of
/// splitmix64 (xor with >> 30, times bf58476d1ce4e5b9, xor with >> 27, times 94d049bb133111eb, xor with >> 31), which
/// lets every bit of the text reach every bit of the result. Not for secrets. hash_of("") is f52a15e9a9b5e89b.
ZKRECIPES_API std::uint64_t hash_of(std::string_view text) noexcept;

/// The number of the partition that a key belongs to, from 0 to `count` - 1: hash_of(key) modulo `count`. A `count` that
/// changes moves most keys: choose it once, larger than there will ever be members. Requires `count` > 0.
ZKRECIPES_API std::size_t partition_of(std::string_view key, std::size_t count) noexcept;

/// A member that gets a share by its weight.
struct WeightedMember {
  std::string id;            ///< No other member of the list has it.
  std::uint32_t weight = 1;  ///< 0: it gets nothing. At most max_weight.

  friend bool operator==(const WeightedMember&, const WeightedMember&) = default;
};

/// The greatest weight.
inline constexpr std::uint32_t max_weight = 1'000'000;

/// For each partition the index of its member in `members`; nullopt if no member has weight.
///
/// Rendezvous hashing: each pair of a partition and a member has a score, and a partition goes to the member with the
/// best one that has room for it. Room: ceil(max_load * P * w / W) partitions, for P partitions, a member's weight w, and
/// the sum W of all weights. A member that is full keeps the partitions of the best scores (deferred acceptance), so the
/// result depends neither on the order of the partitions nor on that of the members.
///
/// max_load 1 balances best; more of it moves less when members come and go. Measured, with 1,024 partitions and a member
/// that joins ten others: 11.6 % move at 1.0 and 9.2 % at 1.25, where 9.1 % is the least. What a member that leaves had
/// moves, and what that pushes out where there is no room.
///
/// `max_load` is rounded up to thousandths. Time: P * M for M members, and a little more. Errors: invalid_argument
/// (max_load is below 1 or above 1,000, a weight above max_weight, two members with one id, or two partitions of one
/// name).
ZKRECIPES_API std::vector<std::optional<std::size_t>> assign(const std::vector<std::string>& partitions,
                                                             const std::vector<WeightedMember>& members,
                                                             double max_load = 1.0);

/// Consistent hashing by a ring: each member has `points` places on it for each unit of its weight (virtual nodes), and
/// a key belongs to the member whose place comes next. For keys without number, where assign() would need a list of
/// them: a member that joins N others takes about 1 / (N + 1) of all keys, and no other key moves. Shares differ by
/// some 10 % with 128 points.
///
/// Thread safety: immutable, copies share nothing.
class ZKRECIPES_API HashRing {
 public:
  /// Errors: invalid_argument (a weight above max_weight, two members with one id, no points, or more than ten million
  /// places in all).
  explicit HashRing(std::vector<WeightedMember> members, std::size_t points = 128);

  /// The member that has this key; null if no member has weight. Good for as long as this object.
  const WeightedMember* owner(std::string_view key) const noexcept;
  /// The owner, and the members that come after it, each once: for `count` replicas. Fewer if there are not so many.
  std::vector<const WeightedMember*> owners(std::string_view key, std::size_t count) const;

 private:
  std::size_t place(std::string_view key) const noexcept;

  std::vector<WeightedMember> members_;                        // Ordered by id.
  std::vector<std::pair<std::uint64_t, std::size_t>> places_;  // Hash and member, ordered.
};

}  // namespace zkrecipes
