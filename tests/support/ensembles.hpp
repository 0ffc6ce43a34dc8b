#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <stdexcept>

#include "tests/support/eventually.hpp"

namespace testkit {

/// Now and then, though rarely, a real server ends its own process when its leader falls silent. Like in production,
/// the test has to start it again. `killed` is to stay so.
template <typename AnyEnsemble>
void restart_who_has_died(AnyEnsemble& ensemble, std::optional<std::size_t> killed = {}) {
  for (std::size_t i = 0; i < ensemble.size(); ++i) {
    if (i != killed && !ensemble.server(i).running()) ensemble.restart(i);
  }
}

/// The servers of an ensemble of three.
struct Roles {
  std::size_t leader;
  std::size_t follower;
  std::size_t other;  ///< It follows, too.
};

/// Who is what, once each of the three says so: an election may be under way, though all of them serve.
template <typename AnyEnsemble>
Roles roles_of(AnyEnsemble& ensemble) {
  std::optional<Roles> roles;
  const auto known = [&] {
    ensemble.wait_for_all(std::chrono::seconds(120));  // A new leader may sit on its requests for half a minute.
    const auto leader = ensemble.leader();
    const auto followers = ensemble.followers();
    if (leader && followers.size() == 2) roles = Roles{*leader, followers[0], followers[1]};
    return roles.has_value();
  };
  if (!eventually(known)) throw std::runtime_error("an ensemble of three has no leader with two followers");
  return *roles;
}

}  // namespace testkit
