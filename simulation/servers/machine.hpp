#pragma once

#include <functional>
#include <memory>
#include <utility>

#include "simulation/servers/clients.hpp"
#include "simulation/servers/log_writer.hpp"
#include "simulation/servers/peers.hpp"

namespace zktesting::simulated {

/// What every role of a server works with.
struct Machine {
  Host host;
  const EnsembleOptions& options;
  Peers& peers;
  Process& process;
  Disk& disk;
  LogWriter& log;
  Memory& memory;
  Clients& clients;
  Nanos clock_phase;  // Where the ticks of this machine's clock lie.

  [[nodiscard]] Millis date() const { return options.epoch + process.now() / std::chrono::milliseconds(1); }
  [[nodiscard]] int majority() const { return options.servers / 2 + 1; }
};

/// What a role tells its server.
struct RoleHooks {
  /// The role is over: look for a leader again.
  std::function<void()> leave;
  std::function<void(std::int64_t epoch)> epoch_begun;
};

/// Names one connection between a follower and a leader, for ever.
using LinkId = std::uint64_t;

/// Lets what a role has asked for come to nothing when the role is over.
class RoleLife {
 public:
  template <typename Act>
  auto guarded(Act act) const {
    return [life = std::weak_ptr<const bool>(life_), act = std::move(act)] {
      if (!life.expired()) act();
    };
  }

 private:
  std::shared_ptr<const bool> life_ = std::make_shared<const bool>(true);
};

}  // namespace zktesting::simulated
