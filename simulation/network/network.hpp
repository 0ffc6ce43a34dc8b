#pragma once

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <utility>

#include "simulation/base/event_queue.hpp"

namespace zktesting::simulated {

/// A machine of the world. Servers have 1, 2, ...; machines of clients follow.
using Host = int;

/// How long a message is on its way in one direction.
struct Latency {
  Nanos least = std::chrono::microseconds(100);
  Nanos most = std::chrono::microseconds(500);
};

class Pipe;

/// The cables between hosts. Each direction of a pair is slow, or cut, by itself.
class Network {
 public:
  explicit Network(EventQueue& events) : events_(events) {}
  Network(const Network&) = delete;
  Network& operator=(const Network&) = delete;

  /// What was sent on a cut cable, and is sent while it is cut, arrives after mend(), as TCP's retransmissions do.
  void cut(Host from, Host to);
  void mend(Host from, Host to);
  [[nodiscard]] bool is_cut(Host from, Host to) const { return cut_.contains({from, to}); }
  /// What is in the pipes that exist now arrives after `until`, at the earliest. New pipes are not concerned.
  void stall(Host from, Host to, Nanos until);
  /// For what is sent from now on. Without it, `usual()`.
  void set_latency(Host from, Host to, Latency latency) { latencies_[{from, to}] = latency; }
  void forget_latency(Host from, Host to) { latencies_.erase({from, to}); }
  void set_usual_latency(Latency latency) { usual_ = latency; }
  /// The world ends: what is on its way never arrives. It may hold its own connection, and with it the pipe.
  void lose_all();
  /// A latency for one message.
  Nanos draw_latency(Host from, Host to);

  EventQueue& events() { return events_; }

 private:
  friend class Pipe;

  EventQueue& events_;
  Latency usual_;
  std::map<std::pair<Host, Host>, Latency> latencies_;
  std::set<std::pair<Host, Host>> cut_;
  std::uint64_t pipes_made_ = 0;
  std::map<std::uint64_t, Pipe*> pipes_;  // By age: an order by address would differ from run to run.
};

/// One direction of a connection: what goes in comes out in the same order, later. It may be destroyed at any time; what
/// is on its way then never arrives.
class Pipe {
 public:
  using Arrive = std::function<void()>;

  Pipe(Network& network, Host from, Host to);
  ~Pipe();
  Pipe(const Pipe&) = delete;
  Pipe& operator=(const Pipe&) = delete;

  /// `arrive` runs as an event of the queue when the message has come to the other end. It may destroy the pipe.
  void send(Arrive arrive);
  [[nodiscard]] Host from() const { return from_; }
  [[nodiscard]] Host to() const { return to_; }

 private:
  friend class Network;
  struct Flow;

  void schedule();

  Network& network_;
  const Host from_;
  const Host to_;
  const std::uint64_t number_;
  Nanos stalled_until_{};
  std::shared_ptr<Flow> flow_;
};

}  // namespace zktesting::simulated
