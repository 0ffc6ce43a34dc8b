#include "recipes/replication/fair_shares.hpp"

#include <algorithm>

namespace zkrecipes::detail {
namespace {

__extension__ using Wide = unsigned __int128;

struct Fraction {
  Wide above = 0;
  Wide below = 1;
};

struct Want {
  Wide weight = 0;
  Wide most = 0;
  bool full = false;
  Fraction share = {};
};

/// Those that would get too much get the most they can have, and the rest is shared out by weight among the others.
void share_out(Fraction total, std::vector<Want>& wants) {
  for (bool changed = true; changed;) {
    changed = false;
    Wide weights = 0;
    for (const Want& want : wants)
      weights += want.full ? 0 : want.weight;
    const Fraction left = total;
    for (Want& want : wants) {
      if (want.full) continue;
      want.share = {left.above * want.weight, left.below * weights};
      want.full = want.share.above >= want.most * want.share.below;
      if (!want.full) continue;
      want.share = {want.most};
      total.above -= want.most * total.below;
      changed = true;
    }
  }
}

std::vector<std::size_t> rack_sizes(const std::vector<ShareTaker>& takers) {
  std::vector<std::size_t> sizes;
  for (const ShareTaker& taker : takers) {
    sizes.resize(std::max(sizes.size(), taker.rack + 1));
    ++sizes[taker.rack];
  }
  return sizes;
}

/// The smallest number with which the racks have room for all replicas of a partition.
std::size_t least_per_rack(const std::vector<std::size_t>& sizes, std::size_t replicas) {
  for (std::size_t most = 1;; ++most) {
    std::size_t room = 0;
    for (const std::size_t size : sizes)
      room += std::min(size, most);
    if (room >= replicas) return most;
  }
}

}  // namespace

FairShares fair_shares(std::size_t partitions, std::size_t replicas, const std::vector<ShareTaker>& takers) {
  FairShares shares;
  shares.replicas = std::min(replicas, takers.size());
  shares.of.resize(takers.size());
  if (takers.empty()) return shares;
  const std::vector<std::size_t> sizes = rack_sizes(takers);
  shares.per_rack = least_per_rack(sizes, shares.replicas);

  std::vector<Want> racks;
  for (const std::size_t size : sizes)
    racks.push_back({.most = Wide{partitions} * std::min(size, shares.per_rack)});
  for (const ShareTaker& taker : takers)
    racks[taker.rack].weight += taker.weight;
  share_out({Wide{partitions} * shares.replicas}, racks);
  for (std::size_t rack = 0; rack < racks.size(); ++rack) {
    std::vector<Want> wants;
    for (const ShareTaker& taker : takers) {
      if (taker.rack == rack) wants.push_back({taker.weight, partitions});
    }
    share_out(racks[rack].share, wants);
    std::size_t next = 0;
    for (std::size_t i = 0; i < takers.size(); ++i) {
      if (takers[i].rack != rack) continue;
      const Fraction share = wants[next++].share;
      const Wide low = share.above / share.below;
      shares.of[i] = {static_cast<std::size_t>(low),
                      static_cast<std::size_t>(low + (share.above % share.below != 0 ? 1 : 0))};
    }
  }
  return shares;
}

}  // namespace zkrecipes::detail
