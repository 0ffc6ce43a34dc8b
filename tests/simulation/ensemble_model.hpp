#pragma once

#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "model.hpp"
#include "simulation/base/event_queue.hpp"
#include "simulation/network/network.hpp"
#include "simulation/servers/ensemble.hpp"

namespace zktesting::simulated {

/// What a real ensemble had done before it was asked anything.
struct Beginning {
  Zxid last_zxid = 0;
  std::int32_t creations = 0;  // Below the root, of nodes that are gone.
};

/// The model of an ensemble: its time passes while somebody waits for a reply.
class EnsembleModel : public Model {
 public:
  /// Comes to the same zxid by elections and by writes that fail.
  EnsembleModel(int servers, const Beginning& real);

  ConnectionId open(SessionId session, std::string_view address, std::size_t server) override;
  ConnectionId resume(SessionId session, std::string_view address, std::size_t server) override;
  void drop(ConnectionId connection) override;
  void receive(ConnectionId connection, std::string_view bytes, std::size_t replies) override;

  Model::Connection& connection(ConnectionId connection) override { return connections_.at(connection); }
  [[nodiscard]] SessionId real_session(SessionId session) const override;
  /// That of the server that has applied most: a leader may be later than others.
  [[nodiscard]] Zxid last_zxid() const override;
  [[nodiscard]] std::size_t leader() const { return static_cast<std::size_t>(ensemble_.leader().value()) - 1; }

 private:
  struct Connection : Model::Connection {
    std::shared_ptr<ServerSide> side;
    FrameReader frames{1 << 28};
    std::size_t replies = 0;  // That have come.
  };
  struct Session {
    SessionId number = 0;
    std::string password = std::string(16, '\0');
  };

  ConnectionId connect(const Session& session, std::string_view address, std::size_t server);
  void take(Connection& connection, std::string_view bytes);
  void elect();
  void catch_up_with(const Beginning& real);
  template <typename Condition>
  void pass_until(Condition condition);

  EventQueue events_{1};
  Network network_{events_};
  Ensemble ensemble_;
  ConnectionId made_ = 0;
  std::map<ConnectionId, Connection> connections_;
  std::map<SessionId, Session> sessions_;  // By the real one's number.
};

}  // namespace zktesting::simulated
