#pragma once

#include <cstdint>
#include <functional>
#include <memory>

#include "simulation/servers/tree.hpp"
#include "simulation/servers/watches.hpp"

namespace zktesting::simulated {

/// A client's request on its way through the servers.
struct Job {
  ConnectionId connection = 0;  // A number of the server to which the client is connected; 0: nobody waits for it.
  Caller caller;
  Millis timeout = 0;  // create_session
  Request request;
};
using JobPtr = std::shared_ptr<const Job>;

/// A transaction, and the request that it came from.
struct Entry {
  TxnPtr txn;
  std::int32_t xid = 0;
  Op asked{};
};
using EntryPtr = std::shared_ptr<const Entry>;

/// What a serving server is to its clients' requests: leader (also a standalone one), or follower.
class Coordinator {
 public:
  virtual ~Coordinator() = default;
  /// A packet of the session has come. False: the session is over, and real servers drop the packet.
  virtual bool touch(SessionId session, Millis timeout) = 0;
  virtual void track(SessionId session, Millis timeout) = 0;
  /// What is to become a transaction; and what needs the leader for another reason.
  virtual void submit(const JobPtr& job) = 0;
  [[nodiscard]] virtual bool needs_leader(Op op) const = 0;
  /// What the session tracker says of a session that reads here.
  virtual std::int32_t check(SessionId session) = 0;
  /// A session has come to this server: Clients::admit() answers.
  virtual void revalidate(SessionId session, Millis timeout, ConnectionId connection) = 0;
  /// Runs it when a read that came now would be answered.
  virtual void read_in_turn(std::function<void()> act) { act(); }
  [[nodiscard]] virtual bool reads_wait_for_the_log() const { return false; }
  virtual void session_closed(SessionId session) = 0;
};

}  // namespace zktesting::simulated
