#pragma once

#include <memory>
#include <optional>
#include <set>
#include <string>

#include "recipes/commit/participant_state.hpp"

namespace zkrecipes::detail {

/// Finishes, now and then, the transactions that their coordinators have left. On the loop thread only.
class OrphanSweep : public std::enable_shared_from_this<OrphanSweep> {
 public:
  /// An interval of zero: no sweeps.
  OrphanSweep(ParticipantStatePtr state, std::chrono::milliseconds interval);

  std::optional<LoopTime> next() const noexcept { return next_; }
  void start_when_due();

 private:
  static zk::Awaitable<void> sweep(std::shared_ptr<OrphanSweep> self);

  const ParticipantStatePtr state_;
  const std::chrono::milliseconds interval_;
  std::optional<LoopTime> next_;
  std::set<std::string> seen_;  // By the last sweep.
  bool sweeping_ = false;
};

}  // namespace zkrecipes::detail
