#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulation/servers/ensemble.hpp"

namespace zktesting::simulated {

/// A client that speaks frames, on a machine of its own, with cables to the servers.
class RawClient {
 public:
  struct Answer {
    std::int32_t xid = 0;
    Zxid zxid = 0;
    std::int32_t error = 0;
    std::string body;
  };
  struct Event {
    EventType type{};
    std::string path;
  };
  using OnAnswer = std::function<void(const Answer&)>;

  RawClient(Network& network, Ensemble& ensemble, Host host) : network_(network), ensemble_(ensemble), host_(host) {}
  ~RawClient() { disconnect(); }
  RawClient(const RawClient&) = delete;
  RawClient& operator=(const RawClient&) = delete;

  /// A new session, or the one that this client has.
  void connect(int server, std::int32_t timeout = 4000) {
    disconnect();
    line_ = std::make_shared<Line>(network_, host_, server);
    answered_ = refused = closed = false;
    frames_ = FrameReader(1 << 28);
    asked_.clear();
    timeout_ = timeout;
    line_->up.send([this, line = std::weak_ptr(line_), server] { arrive(line, server); });
  }
  void disconnect() {
    if (line_ && line_->side) line_->side->closed();
    line_.reset();
  }
  void resume_as(const RawClient& other) {
    session = other.session;
    password = other.password;
  }

  std::int32_t ask(Op op, const Encoder& body, OnAnswer answer = {}, std::int32_t xid = 0) {
    if (xid == 0) xid = ++last_xid_;
    asked_[xid] = std::move(answer);
    send_frame(Encoder().int32(xid).int32(static_cast<std::int32_t>(op)).raw(body.bytes()));
    return xid;
  }
  std::int32_t create(const std::string& path, const std::string& data, std::int32_t flags = 0, OnAnswer answer = {}) {
    const std::vector<Acl> open{{perms::all, {"world", "anyone"}}};
    return ask(Op::create, Encoder().buffer(path).buffer(data).acl(open).int32(flags), std::move(answer));
  }
  std::int32_t set(const std::string& path, const std::string& data, OnAnswer answer = {}) {
    return ask(Op::set_data, Encoder().buffer(path).buffer(data).int32(-1), std::move(answer));
  }
  std::int32_t exists(const std::string& path, bool watch = false, OnAnswer answer = {}) {
    return ask(Op::exists, Encoder().buffer(path).byte(watch), std::move(answer));
  }
  std::int32_t get(const std::string& path, bool watch = false, OnAnswer answer = {}) {
    return ask(Op::get_data, Encoder().buffer(path).byte(watch), std::move(answer));
  }
  std::int32_t sync(const std::string& path, OnAnswer answer = {}) {
    return ask(Op::sync, Encoder().buffer(path), std::move(answer));
  }
  /// A multi with one check: the heartbeat of a lease.
  std::int32_t heartbeat(const std::string& path, OnAnswer answer = {}) {
    Encoder body;
    body.int32(static_cast<std::int32_t>(Op::check)).byte(false).int32(-1).buffer(path).int32(-1);
    body.int32(-1).byte(true).int32(-1);
    return ask(Op::multi, body, std::move(answer));
  }
  void ping() { ask(Op::ping, Encoder(), {}, xid::ping); }
  std::int32_t close_session(OnAnswer answer = {}) { return ask(Op::close_session, Encoder(), std::move(answer)); }
  void send_raw(std::string bytes) {
    if (!line_) return;
    line_->up.send([line = std::weak_ptr(line_), bytes = std::move(bytes)] {
      const auto to = line.lock();
      if (to && to->side) to->side->receive(bytes);
    });
  }

  [[nodiscard]] bool connected() const { return answered_ && session != 0 && !closed; }
  [[nodiscard]] bool expired() const { return answered_ && session == 0; }
  [[nodiscard]] const Answer* answer(std::int32_t xid) const {
    const auto found = answers.find(xid);
    return found == answers.end() ? nullptr : &found->second;
  }

  SessionId session = 0;
  std::string password = std::string(16, '\0');
  std::int32_t agreed_timeout = 0;
  Zxid last_zxid = 0;
  bool refused = false;
  bool closed = false;
  std::map<std::int32_t, Answer> answers;
  std::vector<Event> events;
  /// Answers' xids and -1 for events, in the order in which they came.
  std::vector<std::int32_t> order;
  std::string text;  // What came before anything was asked: the answer to a four-letter word.
  bool greets = true;
  bool keeps_answers = true;
  std::function<void()> on_connected;
  std::function<void()> on_closed;

 private:
  struct Line {
    Line(Network& network, Host client, Host server) : up(network, client, server), down(network, server, client) {}
    Pipe up;
    Pipe down;
    std::shared_ptr<ServerSide> side;
  };

  void arrive(const std::weak_ptr<Line>& weak, int server) {
    const auto line = weak.lock();
    if (!line) return;
    Output output;
    output.bytes = [this, weak](const std::string& bytes) {
      if (const auto to = weak.lock()) to->down.send([this, weak, bytes] { take(weak, bytes); });
    };
    output.close = [this, weak] {
      if (const auto to = weak.lock()) to->down.send([this, weak] { broken(weak, false); });
    };
    line->side = ensemble_.accept(server, std::move(output));
    if (!line->side) return line->down.send([this, weak] { broken(weak, true); });
    if (greets) line->side->receive(greeting());
  }
  std::string greeting() const {
    return Encoder().int32(0).int64(last_zxid).int32(timeout_).int64(session).buffer(password).byte(false).frame();
  }
  void broken(const std::weak_ptr<Line>& weak, bool was_refused) {
    if (weak.expired()) return;
    line_.reset();
    refused = was_refused;
    closed = true;
    if (on_closed) on_closed();
  }
  void send_frame(const Encoder& frame) { send_raw(frame.frame()); }

  void take(const std::weak_ptr<Line>& weak, const std::string& bytes) {
    if (weak.expired()) return;
    if (!greets) {
      text += bytes;
      return;
    }
    frames_.add(bytes);
    while (const auto frame = frames_.next()) {
      answered_ ? take_answer(*frame) : take_greeting(*frame);
      if (weak.expired()) return;
    }
  }
  void take_greeting(const std::string& frame) {
    Decoder in(frame);
    in.int32();
    agreed_timeout = in.int32();
    session = in.int64();
    password = in.string();
    answered_ = true;
    if (on_connected) on_connected();
  }
  void take_answer(const std::string& frame) {
    Decoder in(frame);
    Answer answer{in.int32(), in.int64(), in.int32(), {}};
    if (answer.xid == xid::notification) {
      order.push_back(answer.xid);
      const auto type = static_cast<EventType>(in.int32());
      in.int32();
      events.push_back({type, in.string()});
      return;
    }
    if (answer.zxid > 0) last_zxid = std::max(last_zxid, answer.zxid);
    answer.body = std::string(in.rest());
    OnAnswer told;
    if (const auto found = asked_.find(answer.xid); found != asked_.end()) {
      told = std::move(found->second);
      asked_.erase(found);
    }
    if (keeps_answers) {
      order.push_back(answer.xid);
      answers[answer.xid] = answer;
    }
    if (told) told(answer);
  }

  Network& network_;
  Ensemble& ensemble_;
  const Host host_;
  std::shared_ptr<Line> line_;
  FrameReader frames_{1 << 28};
  bool answered_ = false;
  std::int32_t timeout_ = 4000;
  std::int32_t last_xid_ = 1000;
  std::map<std::int32_t, OnAnswer> asked_;
};

/// One world: a queue, cables, servers, clients.
struct World {
  explicit World(std::uint64_t seed, EnsembleOptions options = {})
      : events(seed), network(events), ensemble(events, network, options) {}

  /// False: it is not so within that time.
  template <typename Condition>
  bool until(Condition condition, Nanos limit = std::chrono::seconds(30)) {
    const Nanos end = events.now() + limit;
    while (!condition()) {
      if (!events.next() || *events.next() > end) {
        events.run_until(end);
        return condition();
      }
      events.run_next();
    }
    return true;
  }
  void pass(Nanos time) { events.run_until(events.now() + time); }
  bool serve() {
    return until([&] { return ensemble.complete(); });
  }
  RawClient& client() {
    clients.push_back(std::make_unique<RawClient>(network, ensemble, 100 + static_cast<Host>(clients.size())));
    return *clients.back();
  }
  RawClient& connected(int server, std::int32_t timeout = 4000) {
    RawClient& made = client();
    made.connect(server, timeout);
    until([&] { return made.connected(); });
    return made;
  }
  /// The answer, or nothing within the time.
  std::optional<RawClient::Answer> answer(const RawClient& from, std::int32_t xid,
                                          Nanos limit = std::chrono::seconds(30)) {
    until([&] { return from.answer(xid) != nullptr; }, limit);
    const auto* found = from.answer(xid);
    return found == nullptr ? std::nullopt : std::optional(*found);
  }
  int follower() const {
    for (int server = 1; server <= ensemble.size(); ++server) {
      if (ensemble.leader() != server && ensemble.serving(server)) return server;
    }
    return 0;
  }
  int leader() const { return ensemble.leader().value_or(0); }
  void cut(int one, int other) {
    network.cut(one, other);
    network.cut(other, one);
  }
  void mend(int one, int other) {
    network.mend(one, other);
    network.mend(other, one);
  }

  EventQueue events;
  Network network;
  Ensemble ensemble;
  std::vector<std::unique_ptr<RawClient>> clients;
};

}  // namespace zktesting::simulated
