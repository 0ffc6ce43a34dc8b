#include "recipes/coherent/coherent_decider.hpp"

#include <algorithm>

namespace zkrecipes::detail {
namespace {

FillStep decide_under_lease(const FillFacts& facts) noexcept {
  if (facts.cached) return FillStep::hit;
  // A fetch of an earlier epoch may bring what was there before a write that ended before this read began.
  return facts.fetch_epoch == facts.epoch ? FillStep::join : FillStep::fetch;
}

ShardLease::TimePoint end_of_leases(const WriteFacts& facts) {
  ShardLease::TimePoint last = ShardLease::TimePoint::min();
  for (const Registration& one : facts.registered) {
    const auto place = facts.barred.find(one.name);
    const ShardLease::TimePoint since = place == facts.barred.end() ? facts.closed_at : place->second;
    last = std::max(last, since + patience_for(one.term));
  }
  return last;
}

WriteStep decide_behind_closed(const WriteFacts& facts) {
  if (facts.registered.empty()) return {WriteStep::commit};
  const ShardLease::TimePoint until = end_of_leases(facts);
  if (facts.now >= until) return {WriteStep::commit};
  return {WriteStep::wait_readers, until};
}

}  // namespace

FillStep decide_fill(const FillFacts& facts) noexcept {
  if (facts.lease_valid) return decide_under_lease(facts);
  if (facts.tried) return FillStep::uncached;
  if (facts.gate) return facts.gate->open ? FillStep::enroll : FillStep::uncached;
  return facts.grant_under_way ? FillStep::wait : FillStep::look;
}

bool may_cache(std::int32_t fetch_epoch, std::int32_t epoch, bool lease_valid) noexcept {
  return lease_valid && fetch_epoch == epoch;
}

ItemChange decide_change(const ItemWrite& write, std::int64_t revision) noexcept {
  using zkclient::Errc;
  const bool exists = revision != 0;
  const ItemChange written{exists ? ItemChange::set : ItemChange::make};
  const bool as_expected = write.expected == revision;
  switch (write.kind) {
    case ItemWrite::put: return written;
    case ItemWrite::create: return exists ? ItemChange{ItemChange::refuse, Errc::node_exists} : written;
    case ItemWrite::compare_put: return as_expected ? written : ItemChange{ItemChange::refuse, Errc::bad_version};
    case ItemWrite::compare_remove:
      if (!as_expected) return {ItemChange::refuse, Errc::bad_version};
      [[fallthrough]];
    case ItemWrite::remove:
      return exists ? ItemChange{ItemChange::remove} : ItemChange{ItemChange::refuse, Errc::no_node};
  }
  return {};
}

WriteStep decide_write(const WriteFacts& facts) {
  // By the version: a gate that was reopened and closed again is another writer's, or another closing of ours.
  const bool closed_by_us = !facts.gate.open && facts.closed_version == facts.gate.version;
  if (closed_by_us) return decide_behind_closed(facts);
  if (!facts.gate.open) return {facts.closer_alive ? WriteStep::wait_writer : WriteStep::reopen};
  return {facts.readers_there ? WriteStep::close : WriteStep::write};
}

Verdict decide_verdict(const Gate& gate, std::string_view write_id, std::int32_t expected) noexcept {
  if (gate.open && gate.id == write_id) return Verdict::applied;
  // The gate of the write itself, or the next one, which it would have made, too: but that is another's.
  if (gate.version == expected || gate.version == next_version(expected)) return Verdict::not_applied;
  return Verdict::unknown;
}

}  // namespace zkrecipes::detail
