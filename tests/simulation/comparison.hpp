#pragma once

#include <chrono>
#include <cstddef>
#include <deque>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "local_server.hpp"
#include "model.hpp"
#include "simulation/servers/wire.hpp"
#include "zktesting/detail/endpoint.hpp"
#include "zktesting/detail/socket.hpp"
#include "zktesting/detail/wire_client.hpp"

namespace zktesting::simulated {

/// A real server ends a session that is idle for so long; the model, whose clock stands, does not. The most that the
/// servers of tests grant.
constexpr std::chrono::seconds longest_session{60};

/// A client's connection with the real server.
class RealConnection {
 public:
  RealConnection(const detail::Endpoint& server, std::chrono::milliseconds timeout,
                 const detail::SessionId& session = {});

  void send(std::string_view frames) { socket_.write(frames, end()); }
  /// The next frame without its length; nothing at the end of the stream.
  std::optional<std::string> next();
  [[nodiscard]] const detail::SessionId& session() const { return session_; }
  /// That of this side, by which the server knows it.
  [[nodiscard]] std::string address() const { return detail::local_endpoint(socket_.fd()).address; }

 private:
  static detail::Deadline end() { return detail::Clock::now() + std::chrono::seconds(60); }

  detail::Socket socket_;
  FrameReader frames_;
  detail::SessionId session_;
};

/// When the transactions of one side were: each zxid has one time, whoever tells it.
class Times {
 public:
  Millis replaced(Zxid zxid, Millis time) {
    if (zxid == 0) return time;
    const Millis known = times_.emplace(zxid, time).first->second;
    return known == time ? LocalServer::time_of(zxid) : -1;
  }

 private:
  std::unordered_map<Zxid, Millis> times_;
};

/// The last things that were said. They become text only when somebody wants to read them.
class Story {
 public:
  void asks(std::size_t client, const Request& request) { add({client, "asks", request, {}}); }
  void hears(std::size_t client, const Request& request, std::string frame) {
    add({client, "hears", request, std::move(frame)});
  }
  void says(std::size_t client, std::string what) { add({client, std::move(what), std::nullopt, {}}); }
  [[nodiscard]] std::string text() const;

 private:
  struct Line {
    std::size_t client;
    std::string what;
    std::optional<Request> request;
    std::string frame;
  };
  void add(Line line);

  std::deque<Line> lines_;
};

/// Several clients, and a server of both sides for each of them. Whatever comes back must be the same.
class Comparison {
 public:
  struct Client {
    std::size_t server = 0;
    std::unique_ptr<RealConnection> real;
    ConnectionId model = 0;
    std::string bytes;          // Not sent yet.
    std::deque<Request> asked;  // Not answered yet.
  };

  Comparison(std::vector<detail::Endpoint> servers, Model& model, Times& times, std::size_t clients);

  Client& client(std::size_t number) { return clients_[number]; }
  [[nodiscard]] std::size_t clients() const { return clients_.size(); }
  [[nodiscard]] std::size_t servers() const { return servers_.size(); }
  [[nodiscard]] std::size_t requests() const { return static_cast<std::size_t>(xid_); }

  void open(Client& client, std::chrono::milliseconds timeout = longest_session);
  /// With a new connection. Nothing of the old one is looked at any more.
  void resume(Client& client);

  void add(Client& client, Request request);
  /// Bytes that are no request, or a request that is not whole.
  void add_bytes(Client& client, std::string_view bytes, std::string_view what);
  void add_cut(Client& client, Request request, std::size_t by);
  /// Sends what was added, and compares everything that comes back. True: it was the same. Then a server may have closed
  /// the connection: `ended`.
  bool flush(Client& client);
  bool ask(Client& client, Request request) {
    add(client, std::move(request));
    return flush(client);
  }
  [[nodiscard]] bool ended(const Client& client) { return model_.connection(client.model).closed; }

  [[nodiscard]] Zxid last_zxid() const { return model_.last_zxid(); }
  /// What was said last, for a person.
  [[nodiscard]] std::string story() const { return story_.text(); }
  /// The path that the last answered create made.
  [[nodiscard]] const std::string& created() const { return created_; }

 private:
  std::string frame_of(Client& client, Request& request);
  bool compare(Client& client, const std::string& heard);
  bool ends(Client& client);
  bool differ(const Client& client, std::string_view what);
  std::string with_times(std::string frame, const Request& asked);
  std::string of_model(std::string frame, const Request& asked);
  std::size_t number_of(const Client& client) const { return static_cast<std::size_t>(&client - clients_.data()); }

  const std::vector<detail::Endpoint> servers_;
  Model& model_;
  Times& times_;
  Times times_of_model_;
  std::vector<Client> clients_;
  std::int32_t xid_ = 0;
  std::string created_;
  Story story_;
};

}  // namespace zktesting::simulated
