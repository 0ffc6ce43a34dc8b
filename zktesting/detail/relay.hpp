#pragma once

#include <array>
#include <atomic>
#include <condition_variable>
#include <cstdint>
#include <list>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "zktesting/detail/endpoint.hpp"
#include "zktesting/detail/event_loop.hpp"
#include "zktesting/detail/fault.hpp"
#include "zktesting/proxy.hpp"

namespace zktesting::detail {

class Connection;

/// Index of one of the two directions.
enum class Way : std::size_t { to_server = 0, to_client = 1 };

struct RelayOptions {
  Endpoint target;
  std::string listen_address;
  bool parse = true;
  /// The connections are those of ZooKeeper's leader election, see `announce_as`.
  bool election = false;
  /// How long to try again when the target refuses, before the client is reset. A server that is
  /// refused tries again; one that is accepted and then reset gives its new leader up.
  std::chrono::milliseconds connect_patience{0};
};

/// The engine of `Proxy`: listens, and passes bytes between clients and one target.
///
/// The public part may be called from any thread. All work is done on the thread of the loop, and
/// the verbs wait for it. Several relays may share a loop.
class Relay {
 public:
  Relay(std::shared_ptr<EventLoop> loop, RelayOptions options);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  [[nodiscard]] const Endpoint& endpoint() const { return endpoint_; }

  void cut();
  void refuse(bool on);
  [[nodiscard]] bool refuses() const;
  void stall(Direction direction, bool on);
  void delay(Direction direction, std::chrono::milliseconds by);
  std::shared_ptr<FaultState> arm(FaultKind kind, RequestType type, std::size_t passed = 0);
  void stamp_events(std::optional<std::int64_t> zxid);
  [[nodiscard]] std::int64_t last_seen_zxid() const { return last_seen_zxid_; }

  /// A server that opens an election connection tells the other one at which address it can be
  /// called back, and one with a higher id does call back there. This puts another address in its
  /// place, so that the call comes through a relay as well.
  void announce_as(Endpoint endpoint);

  [[nodiscard]] std::size_t request_count(RequestType type) const;
  [[nodiscard]] bool wait_for_requests(RequestType type, std::size_t count, std::chrono::milliseconds timeout) const;
  [[nodiscard]] std::size_t byte_count(Direction direction) const;
  [[nodiscard]] std::size_t dropped(FaultKind kind) const;
  [[nodiscard]] std::size_t connections() const;
  [[nodiscard]] std::size_t accepted() const { return accepted_; }

  // ---- For Connection; on the loop's thread.
  [[nodiscard]] const std::shared_ptr<EventLoop>& loop() const { return loop_; }
  [[nodiscard]] const RelayOptions& options() const { return options_; }
  [[nodiscard]] const Endpoint& announcement() const { return announcement_; }
  [[nodiscard]] bool stalled(Way way) const { return stalled_[static_cast<std::size_t>(way)]; }
  [[nodiscard]] std::chrono::milliseconds delay(Way way) const { return delay_[static_cast<std::size_t>(way)]; }
  void count_request(RequestType type);
  void count_bytes(Way way, std::size_t bytes) { bytes_[static_cast<std::size_t>(way)] += bytes; }
  /// The first armed fault that a message of this type meets; it is armed no more. Or none.
  std::shared_ptr<FaultState> strike(bool reply, RequestType type);
  /// The same for a watch event.
  std::shared_ptr<FaultState> strike_event();
  [[nodiscard]] const std::optional<std::int64_t>& event_stamp() const { return event_stamp_; }
  void note_handshake(std::int64_t last_seen_zxid) { last_seen_zxid_ = last_seen_zxid; }
  void forget(const std::shared_ptr<Connection>& connection) { connections_.erase(connection); }
  /// Where bytes are read to, before they are known to be worth keeping.
  std::array<char, 65536>& scratch() { return scratch_; }

 private:
  void listen();
  void stop_listening();
  void accept_some();
  void reset_all();

  const std::shared_ptr<EventLoop> loop_;
  const RelayOptions options_;
  Endpoint endpoint_;

  // On the loop's thread only.
  UniqueFd listener_;
  std::set<std::shared_ptr<Connection>> connections_;
  std::list<std::shared_ptr<FaultState>> armed_;
  std::array<bool, 2> stalled_{};
  std::array<std::chrono::milliseconds, 2> delay_{};
  std::array<std::size_t, 2> bytes_{};
  Endpoint announcement_;
  std::optional<std::int64_t> event_stamp_;
  std::array<char, 65536> scratch_{};

  // Read from any thread.
  std::atomic<std::size_t> accepted_ = 0;
  std::atomic<std::int64_t> last_seen_zxid_ = 0;
  mutable std::mutex counts_mutex_;
  mutable std::condition_variable counts_changed_;
  std::map<RequestType, std::size_t> requests_;
  std::map<FaultKind, std::size_t> dropped_;
};

}  // namespace zktesting::detail
