#include "recipes/kernel/single_node_decider.hpp"

#include <algorithm>

namespace zkrecipes::detail {

namespace {

constexpr std::size_t uuid_size = 36;

}  // namespace

FlightStep decide_flight(const Reply& created, const Reply& wanted, bool read_later, std::size_t conditions) {
  if (created.ok()) return read_later ? FlightStep::look : FlightStep::claim;
  if (created.failed(Errc::in_doubt)) return created.given_up ? FlightStep::failed : FlightStep::look;
  const std::optional<zk::Refusal> refused = created.refusal();
  const bool of_recipe = refused && (refused->index < conditions || refused->index >= conditions + own_creates);
  if (of_recipe) return FlightStep::refused;
  // Only an earlier try can have made the node that is ours alone.
  if (created.refused(conditions, zk::rc::node_exists)) return FlightStep::look;
  const Errc cause = created.cause();
  if (cause == Errc::no_node) return FlightStep::make_parents;
  if (cause != Errc::node_exists) return FlightStep::failed;
  if (wanted.ok()) return FlightStep::wait;
  return wanted.failed(Errc::no_node) ? FlightStep::try_again : FlightStep::read_failed;
}

ClaimStep decide_claim(const Claim& claim) {
  const Reply& wanted = claim.wanted;
  if (wanted.failed(Errc::no_node)) return ClaimStep::vanished;
  if (!wanted.ok()) return ClaimStep::wanted_failed;
  // One transaction makes both.
  const bool ours =
      wanted.stat.ephemeral_owner == claim.session_id && (claim.czxid == 0 || wanted.stat.czxid == claim.czxid);
  if (!ours) return ClaimStep::vanished;
  if (!claim.listed.ok()) return ClaimStep::list_failed;
  const std::vector<std::string>& names = claim.listed.names;
  const bool cluttered =
      std::any_of(names.begin(), names.end(), [&](const auto& name) { return is_others(name, claim.own, claim.of); });
  return cluttered ? ClaimStep::clear_up : ClaimStep::prove;
}

bool is_holding(std::string_view name, std::string_view of) {
  const std::size_t end = holding_prefix.size() + uuid_size;
  return name.size() == end + 1 + of.size() && name.starts_with(holding_prefix) && name.ends_with(of) &&
         name[end] == '-';
}

// Persistent nodes have no owner, containers the lowest number, nodes with a time to live 0xff on top of it.
bool is_ephemeral(const zkclient::Stat& stat) {
  constexpr std::uint64_t container = std::uint64_t{1} << 63U;
  const auto owner = static_cast<std::uint64_t>(stat.ephemeral_owner);
  return owner != 0 && owner != container && (owner >> 56U) != 0xffU;
}

bool is_others(std::string_view name, std::string_view own, std::string_view of) {
  return name != own && is_holding(name, of);
}

}  // namespace zkrecipes::detail
