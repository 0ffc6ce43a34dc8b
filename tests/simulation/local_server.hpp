#pragma once

#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "model.hpp"
#include "simulation/servers/tree.hpp"
#include "simulation/servers/watches.hpp"
#include "simulation/servers/wire.hpp"

namespace zktesting::simulated {

/// The model of one server, without time, network or other servers: what is proposed is applied at once.
class LocalServer : public Model {
 public:
  /// `last_zxid`: that of the real server with which this one is compared.
  explicit LocalServer(Zxid last_zxid, TreeOptions options = {}, std::string super = {})
      : super_(std::move(super)), tree_(options) {
    tree_.set_last_zxid(last_zxid);
  }

  /// A transaction's time. The real one's is replaced by it before replies are compared.
  static Millis time_of(Zxid zxid) { return zxid * 1000; }

  ConnectionId open(SessionId session, std::string_view address, std::size_t server) override;
  ConnectionId resume(SessionId session, std::string_view address, std::size_t server) override;
  void drop(ConnectionId connection) override;
  void receive(ConnectionId connection, std::string_view bytes, std::size_t replies) override;

  /// What a server does by itself.
  void expire(SessionId session);
  void reap(const std::vector<std::string>& paths);

  struct Connection : Model::Connection {
    SessionId session = 0;
    std::string address;
    std::vector<Id> identities;
    FrameReader frames;
  };
  Connection& connection(ConnectionId connection) override { return connections_.at(connection); }
  [[nodiscard]] Zxid last_zxid() const override { return tree_.last_zxid(); }
  [[nodiscard]] const Tree& tree() const { return tree_; }

 private:
  void handle(ConnectionId id, std::string_view frame);
  void apply_close(SessionId session);
  void answer(Connection& connection, const Request& request, const Reply& reply);
  void authenticate(Connection& connection, const Request& request);
  void close_session(Connection& connection, const Request& request);
  Reply write(const Connection& connection, const Request& request);
  Reply watch(ConnectionId id, const Request& request);
  void send(const std::vector<WatchEvent>& events);
  static void send(Connection& connection, const std::string& frame);
  [[nodiscard]] Zxid next_zxid() const { return tree_.last_zxid() + 1; }

  const std::string super_;
  Tree tree_;
  Watches watches_;
  ConnectionId made_ = 0;
  std::map<ConnectionId, Connection> connections_;
};

}  // namespace zktesting::simulated
