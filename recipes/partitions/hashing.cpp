#include <zkrecipes/hashing.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <compare>
#include <numeric>
#include <queue>
#include <tuple>

#include <zkclient/error.hpp>

namespace zkrecipes {

using zkclient::Errc;
using zkclient::Error;

namespace {

constexpr std::uint64_t thousand = 1'000;

constexpr std::uint64_t finalise(std::uint64_t bits) noexcept {
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

[[noreturn]] void refuse(const char* operation, std::string_view why, std::string_view which = {}) {
  throw Error(Errc::invalid_argument, operation, which, why);
}

/// Indices in the order of what `name` says. Refuses two of one name.
template <typename Name>
std::vector<std::size_t> ordered(std::size_t count, const char* operation, const char* what, Name name) {
  std::vector<std::size_t> order(count);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return name(a) < name(b); });
  const auto twice =
      std::adjacent_find(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return name(a) == name(b); });
  if (twice != order.end()) refuse(operation, what, name(*twice));
  return order;
}

void require_weights(const std::vector<WeightedMember>& members, const char* operation) {
  for (const WeightedMember& member : members) {
    if (member.weight > max_weight) refuse(operation, "the weight is too large", member.id);
  }
}

/// -log2(hash / 2^64), with 32 bits behind the point. In whole numbers: every machine gets the same.
std::uint64_t negative_log2(std::uint64_t hash) noexcept {
  __extension__ using Wide = unsigned __int128;
  constexpr int bits = 32;
  hash |= 1U;  // Nothing has a logarithm that is not.
  const int zeros = std::countl_zero(hash);
  std::uint64_t mantissa = hash << static_cast<unsigned>(zeros);  // From 1 to 2, with 63 bits behind the point.
  std::uint64_t fraction = 0;
  for (int i = 0; i < bits; ++i) {
    const Wide square = Wide{mantissa} * mantissa;
    const auto two_or_more = static_cast<std::uint64_t>(square >> 127U);
    fraction = fraction << 1U | two_or_more;
    mantissa = static_cast<std::uint64_t>(square >> (63U + two_or_more));
  }
  return (static_cast<std::uint64_t>(zeros + 1) << static_cast<unsigned>(bits)) - fraction;
}

/// How well a partition and a member fit; the smaller the better. (The time at which the first of a member's
/// `weight` runners arrives: members win by their shares of all weights.)
struct Fit {
  std::uint64_t cost = 0;
  std::uint64_t hash = 0;

  friend std::strong_ordering operator<=>(const Fit& a, const Fit& b) noexcept {
    return a.cost != b.cost ? a.cost <=> b.cost : b.hash <=> a.hash;
  }
  friend bool operator==(const Fit&, const Fit&) = default;
};

Fit fit_of(std::uint64_t partition, std::uint64_t member, std::uint32_t weight) noexcept {
  const std::uint64_t hash = finalise(partition ^ finalise(member));
  return {(negative_log2(hash) << 24U) / weight, hash};
}

/// Partitions ask the members, each the best one first; who has no room lets go what fits worst, which asks the next.
class Acceptance {
 public:
  struct Taker {
    std::uint64_t hash;
    std::uint32_t weight;
    std::size_t room;
  };

  Acceptance(std::vector<std::uint64_t> partitions, std::vector<Taker> takers)
      : partitions_(std::move(partitions)),
        takers_(std::move(takers)),
        refused_(partitions_.size()),
        held_(takers_.size()),
        fits_(partitions_.size() * takers_.size()) {
    for (std::size_t p = 0; p < partitions_.size(); ++p) {
      for (std::size_t t = 0; t < takers_.size(); ++t)
        fits_[p * takers_.size() + t] = fit_of(partitions_[p], takers_[t].hash, takers_[t].weight);
    }
  }

  /// The taker of each partition.
  std::vector<std::size_t> run() {
    std::vector<std::size_t> asking(partitions_.size());
    std::iota(asking.begin(), asking.end(), std::size_t{0});
    while (!asking.empty()) {
      const std::size_t partition = asking.back();
      asking.pop_back();
      const std::size_t taker = next_choice(partition);
      Held& held = held_[taker];
      held.emplace(fit(partition, taker), partition);
      if (held.size() <= takers_[taker].room) continue;
      const std::size_t worst = held.top().second;
      held.pop();
      refused_[worst] = Choice(fit(worst, taker), taker);
      asking.push_back(worst);
    }
    std::vector<std::size_t> taken(partitions_.size());
    for (std::size_t t = 0; t < takers_.size(); ++t) {
      for (; !held_[t].empty(); held_[t].pop())
        taken[held_[t].top().second] = t;
    }
    return taken;
  }

 private:
  using Choice = std::pair<Fit, std::size_t>;
  using Held = std::priority_queue<Choice>;  // The worst on top.

  const Fit& fit(std::size_t partition, std::size_t taker) const { return fits_[partition * takers_.size() + taker]; }
  // The best one behind the last that refused. There is one: together they have room for all.
  std::size_t next_choice(std::size_t partition) const {
    std::optional<Choice> best;
    for (std::size_t t = 0; t < takers_.size(); ++t) {
      const Choice choice(fit(partition, t), t);
      if (refused_[partition] && choice <= *refused_[partition]) continue;
      if (!best || choice < *best) best = choice;
    }
    return best->second;
  }

  const std::vector<std::uint64_t> partitions_;
  const std::vector<Taker> takers_;
  std::vector<std::optional<Choice>> refused_;
  std::vector<Held> held_;
  std::vector<Fit> fits_;
};

}  // namespace

std::uint64_t hash_of(std::string_view text) noexcept {
  std::uint64_t hash = 0xcbf29ce484222325U;
  for (const char c : text)
    hash = (hash ^ static_cast<unsigned char>(c)) * 0x100000001b3U;
  return finalise(hash);
}

std::size_t partition_of(std::string_view key, std::size_t count) noexcept { return hash_of(key) % count; }

std::vector<std::optional<std::size_t>> assign(const std::vector<std::string>& partitions,
                                               const std::vector<WeightedMember>& members, double max_load) {
  constexpr const char* operation = "assign";
  if (!(max_load >= 1 && max_load <= thousand)) refuse(operation, "max_load must be from 1 to 1,000");
  require_weights(members, operation);
  const auto partition_order = ordered(partitions.size(), operation, "two partitions have one name",
                                       [&](std::size_t i) -> const std::string& { return partitions[i]; });
  const auto member_order = ordered(members.size(), operation, "two members have one id",
                                    [&](std::size_t i) -> const std::string& { return members[i].id; });
  std::uint64_t weights = 0;
  for (const WeightedMember& member : members)
    weights += member.weight;
  std::vector<std::optional<std::size_t>> result(partitions.size());
  if (weights == 0) return result;

  std::vector<std::uint64_t> hashes;
  for (const std::size_t i : partition_order)
    hashes.push_back(hash_of(partitions[i]));
  const auto load = static_cast<std::uint64_t>(std::ceil(max_load * thousand));
  std::vector<Acceptance::Taker> takers;
  std::vector<std::size_t> taking;
  for (const std::size_t i : member_order) {
    if (members[i].weight == 0) continue;
    const std::uint64_t share = load * partitions.size() * members[i].weight;
    const std::uint64_t whole = weights * thousand;
    takers.push_back({hash_of(members[i].id), members[i].weight, (share + whole - 1) / whole});
    taking.push_back(i);
  }
  const std::vector<std::size_t> taken = Acceptance(std::move(hashes), std::move(takers)).run();
  for (std::size_t i = 0; i < taken.size(); ++i)
    result[partition_order[i]] = taking[taken[i]];
  return result;
}

// --- The ring --------------------------------------------------------------------------------------------------------

HashRing::HashRing(std::vector<WeightedMember> members, std::size_t points) : members_(std::move(members)) {
  constexpr const char* operation = "hash ring";
  constexpr std::size_t most = 10'000'000;
  if (points == 0 || points > most) refuse(operation, "the number of points must be from 1 to ten million");
  require_weights(members_, operation);
  std::sort(members_.begin(), members_.end(), [](const auto& a, const auto& b) { return a.id < b.id; });
  ordered(members_.size(), operation, "two members have one id",
          [&](std::size_t i) -> const std::string& { return members_[i].id; });
  std::size_t total = 0;
  for (const WeightedMember& member : members_)
    total += member.weight * points;
  if (total > most) refuse(operation, "there are more than ten million places");
  places_.reserve(total);
  for (std::size_t i = 0; i < members_.size(); ++i) {
    const std::uint64_t of_member = hash_of(members_[i].id);
    for (std::uint64_t place = 1; place <= members_[i].weight * points; ++place)
      places_.emplace_back(finalise(of_member ^ finalise(place)), i);
  }
  std::sort(places_.begin(), places_.end());
}

std::size_t HashRing::place(std::string_view key) const noexcept {
  const auto next = std::lower_bound(places_.begin(), places_.end(), std::pair(hash_of(key), std::size_t{0}));
  return next == places_.end() ? 0 : static_cast<std::size_t>(next - places_.begin());
}

const WeightedMember* HashRing::owner(std::string_view key) const noexcept {
  return places_.empty() ? nullptr : &members_[places_[place(key)].second];
}

std::vector<const WeightedMember*> HashRing::owners(std::string_view key, std::size_t count) const {
  std::vector<const WeightedMember*> owners;
  const std::size_t first = places_.empty() ? 0 : place(key);
  for (std::size_t i = 0; i < places_.size() && owners.size() < count; ++i) {
    const WeightedMember* next = &members_[places_[(first + i) % places_.size()].second];
    if (std::find(owners.begin(), owners.end(), next) == owners.end()) owners.push_back(next);
  }
  return owners;
}

}  // namespace zkrecipes
