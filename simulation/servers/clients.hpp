#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "simulation/servers/connection.hpp"
#include "simulation/servers/coordinator.hpp"
#include "simulation/servers/options.hpp"
#include "simulation/servers/session_line.hpp"

namespace zktesting::simulated {

/// What a server has in its memory.
struct Memory {
  Tree tree;
  Watches watches;
};

/// A server's clients: their connections, the making and finding of their sessions, and their requests, answered from this
/// server's memory in the order of each session.
class Clients : public FrameHandler {
 public:
  using FourLetterWords = std::function<std::string(const std::string&)>;

  Clients(Process& process, const EnsembleOptions& options, Host host, Memory& memory, FourLetterWords words);

  std::shared_ptr<ServerSide> accept(Output output);
  /// From now on requests are served.
  void serve(Coordinator& coordinator);
  /// The server has left its role, or ended: all connections break.
  void drop_all();
  [[nodiscard]] bool serving() const { return coordinator_ != nullptr; }

  /// The next transaction: applies it, tells who watches, answers who asked.
  /// A write of a session has come by way of a follower. If the session has moved to this server since, its reads wait
  /// for that write: so they see it.
  void expect(const Job& write);
  void commit(const Entry& entry);
  void synced(const Job& sync);
  /// The answer to Coordinator::revalidate().
  void admit(ConnectionId connection, bool valid);

  [[nodiscard]] const std::map<ConnectionId, std::shared_ptr<Connection>>& connections() const { return connections_; }
  [[nodiscard]] std::size_t outstanding() const { return line_.size(); }
  [[nodiscard]] std::int64_t received() const { return received_; }
  [[nodiscard]] std::int64_t sent() const { return sent_; }

 private:
  void connect(Connection& connection, const ConnectRequest& request) override;
  void request(Connection& connection, Request request) override;
  void four_letter_word(Connection& connection, const std::string& word) override;
  void gone(Connection& connection) override;

  void begin_session(Connection& connection);
  void find_session(Connection& connection, const ConnectRequest& request);
  void finish_session(Connection& connection, bool valid);
  void authenticate_client(Connection& connection, const Request& request);
  void take_turn(const JobPtr& job);
  void answer_reads_of(SessionId session);
  void answer_read(const Job& job);
  void answer_write(Connection& connection, const Job& job, const Reply& reply);
  Reply read(const Job& job);
  Reply arm_watches(const Job& job);
  void reply(Connection& connection, const Job& job, const Reply& reply);
  void tell(const std::vector<WatchEvent>& events);
  void close_session(SessionId session);
  [[nodiscard]] std::shared_ptr<Connection> find(ConnectionId connection) const;

  Process& process_;
  const EnsembleOptions& options_;
  const Host host_;
  Memory& memory_;
  FourLetterWords words_;
  Coordinator* coordinator_ = nullptr;
  std::map<ConnectionId, std::shared_ptr<Connection>> connections_;
  std::map<SessionId, ConnectionId> by_session_;
  SessionLine line_;
  ConnectionId last_connection_ = 0;
  SessionId next_session_ = 0;
  std::int64_t received_ = 0;
  std::int64_t sent_ = 0;
};

}  // namespace zktesting::simulated
