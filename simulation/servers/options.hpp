#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "simulation/base/event_queue.hpp"
#include "simulation/network/network.hpp"
#include "simulation/servers/tree.hpp"

namespace zktesting::simulated {

/// What stands in the configuration of all servers, and what their machines are like.
struct EnsembleOptions {
  int servers = 3;  // 1 is a standalone server.
  Millis tick = 2000;
  int init_limit = 10;             // Ticks: to find a leader's history.
  int sync_limit = 5;              // Ticks: without a word from the other side.
  Millis min_session_timeout = 0;  // 0: two ticks.
  Millis max_session_timeout = 0;  // 0: twenty ticks.
  Millis container_check = 60000;  // How often the leader's reaper looks for containers and TTL nodes.
  std::int32_t max_buffer = FrameReader::usual_max_buffer;
  TreeOptions tree;

  /// How long a disk takes to confirm what was written.
  Latency fsync{std::chrono::microseconds(100), std::chrono::microseconds(400)};
  /// From the start of a process until it listens, and until it serves or looks for a leader.
  Nanos listens_after = std::chrono::milliseconds(120);
  Nanos runs_after = std::chrono::milliseconds(250);
  /// The date on which the world begins.
  Millis epoch = 1'700'000'000'000;
  /// Is told what the server on that host does, in a sentence, if anybody is to read it. An event of the queue calls it.
  std::function<void(Host, const std::string&)> tell{};

  /// `sentence` makes it, if it is wanted.
  template <typename Sentence>
  void say(Host host, Sentence sentence) const {
    if (tell) tell(host, sentence());
  }
  [[nodiscard]] Nanos ticks(double count) const {
    return Nanos(static_cast<std::int64_t>(static_cast<double>(tick) * count * 1e6));
  }
  [[nodiscard]] Millis least_timeout() const { return min_session_timeout > 0 ? min_session_timeout : 2 * tick; }
  [[nodiscard]] Millis most_timeout() const { return max_session_timeout > 0 ? max_session_timeout : 20 * tick; }
};

}  // namespace zktesting::simulated
