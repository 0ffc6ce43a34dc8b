#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "simulation/servers/process.hpp"
#include "simulation/servers/server_side.hpp"
#include "simulation/servers/watches.hpp"

namespace zktesting::simulated {

class Connection;

/// Who handles what a connection brings.
class FrameHandler {
 public:
  virtual ~FrameHandler() = default;
  virtual void connect(Connection& connection, const ConnectRequest& request) = 0;
  virtual void request(Connection& connection, Request request) = 0;
  virtual void four_letter_word(Connection& connection, const std::string& word) = 0;
  virtual void gone(Connection& connection) = 0;
};

/// A client's connection, at the server.
class Connection : public ServerSide, public std::enable_shared_from_this<Connection> {
 public:
  Connection(Process& process, FrameHandler& handler, ConnectionId id, Output output, std::int32_t max_buffer);

  void receive(std::string_view bytes) override;
  void closed() override;

  void send(std::string frame);
  /// A reply to a request: it is counted.
  void reply(std::int32_t xid, Zxid zxid, std::int32_t error, std::string_view body = {});
  /// What was sent arrives first.
  void close();
  /// Nothing is read until resume_reading(): a session is being made, or found.
  void stop_reading() { reading_ = false; }
  void resume_reading();
  void establish(Millis timeout);

  [[nodiscard]] bool open() const { return open_; }
  [[nodiscard]] ConnectionId id() const { return id_; }
  [[nodiscard]] const Output& output() const { return output_; }

  SessionId session = 0;
  Millis timeout = 0;
  bool established = false;
  bool knows_read_only = true;
  std::vector<Id> auth;

  /// For the four-letter words.
  struct Counts {
    std::int64_t received = 0;
    std::int64_t sent = 0;
    Millis since = 0;
    std::int32_t last_xid = -1;
    Zxid last_zxid = -1;
    Op last_op{};
  };
  Counts counts;

 private:
  void read(std::string_view bytes);
  void handle_frames();
  void handle(const std::string& frame);
  void leave();
  void watch_idleness();
  [[nodiscard]] Nanos idle_deadline() const;

  Process& process_;
  FrameHandler& handler_;
  const ConnectionId id_;
  Output output_;
  FrameReader frames_;
  bool open_ = true;
  bool reading_ = true;
  bool handling_ = false;
  bool greeted_ = false;
  Nanos heard_at_{};
  Timer idle_;
};

}  // namespace zktesting::simulated
