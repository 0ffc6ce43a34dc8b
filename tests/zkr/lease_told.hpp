#pragma once

#include <chrono>
#include <string>

#include "tests/support/eventually.hpp"
#include "tools/zkr/hold/control.hpp"
#include "tools/zkr/run/decider.hpp"

namespace zkr {

/// What a keeper says of its lease to those who ask, as `zkr held` does.
class LeaseTold {
 public:
  /// "ZKR_SOCKET=..."
  explicit LeaseTold(const std::string& entry) : socket_(entry.substr(entry.find('=') + 1)) {}

  /// Waits until the lease lasts as long as its heartbeats say: at first the session has just begun, and it lasts
  /// longer. False: it is over.
  bool await_steady(Duration timeout) {
    return await_answer([timeout](Instant end) { return end - BootClock::now() <= timeout * 7 / 12; });
  }
  /// Waits until a heartbeat was confirmed that is newer than the last one that was seen here. False: it is over.
  bool await_proof(Duration between_heartbeats) {
    return await_answer([this, between_heartbeats](Instant end) { return end >= last_ + between_heartbeats / 2; });
  }

 private:
  template <typename Enough>
  bool await_answer(const Enough& enough) {
    Instant end{};
    (void)testkit::eventually([&] {
      testkit::let_age(std::chrono::milliseconds(20));
      const Instant asked = BootClock::now();
      const auto answer = ask_control(socket_, "held");
      end = answer && answer->code == 0 ? asked + std::chrono::milliseconds(std::stol(answer->text)) : Instant{};
      return end == Instant{} || enough(end);
    });
    if (end > last_) last_ = end;
    return end != Instant{};
  }

  std::string socket_;
  Instant last_{};
};

/// The least that an outage may last without a signal to the command, whatever the phase it begins at.
inline Duration free_outage(Duration timeout) {
  const Instant proven{};
  Lease lease{.state = LeaseState::held, .timeout = timeout, .proven_at = proven};
  lease.valid_until = valid_until(proven, timeout, false);
  return deadlines(lease, {}).term_at - proven - timeout / 6;  // Right before the next heartbeat.
}

}  // namespace zkr
