#include "ensemble_model.hpp"

#include <algorithm>
#include <chrono>
#include <stdexcept>

#include "wire_text.hpp"

namespace zktesting::simulated {

using namespace std::chrono_literals;

namespace {

EnsembleOptions options_of(int servers) {
  EnsembleOptions options;
  options.servers = servers;
  options.container_check = Millis{24} * 3600 * 1000;
  return options;
}

std::int64_t epoch_of(Zxid zxid) { return zxid >> 32; }

}  // namespace

EnsembleModel::EnsembleModel(int servers, const Beginning& real) : ensemble_(events_, network_, options_of(servers)) {
  do {
    elect();
  } while (epoch_of(last_zxid()) < epoch_of(real.last_zxid));
  catch_up_with(real);
}

void EnsembleModel::elect() {
  for (int server = 1; server <= ensemble_.size(); ++server) {
    ensemble_.kill(server);
    ensemble_.start(server);
  }
  pass_until([this] { return ensemble_.complete(); });
}

// Each write takes a zxid, also one that fails; so does the session that sends them.
void EnsembleModel::catch_up_with(const Beginning& real) {
  const ConnectionId writer = open(0, "127.0.0.1", 0);
  const auto write = [&](Op op, const std::string& path) {
    Request request;
    request.op = op;
    request.path = path;
    request.version = -1;
    request.data = "";
    request.acl = {{perms::all, {"world", "anyone"}}};
    receive(writer, Encoder().buffer(encode_request(request)).bytes(), 1);
    connection(writer).sent.clear();
  };
  for (std::int32_t i = 0; i < real.creations; ++i) {
    write(Op::create, "/gone");
    write(Op::remove, "/gone");
  }
  if (last_zxid() >= real.last_zxid) throw std::logic_error("the real ensemble has made too few transactions");
  while (last_zxid() < real.last_zxid - 1)
    write(Op::remove, "/nothing");
  write(Op::close_session, "");
  drop(writer);
}

Zxid EnsembleModel::last_zxid() const {
  Zxid last = 0;
  for (int server = 1; server <= ensemble_.size(); ++server)
    last = std::max(last, ensemble_.tree(server).last_zxid());
  return last;
}

template <typename Condition>
void EnsembleModel::pass_until(Condition condition) {
  for (const Nanos end = events_.now() + 60s; !condition();) {
    if (events_.now() > end) throw std::logic_error("the model of the ensemble does not answer");
    events_.run_next();
  }
}

ConnectionId EnsembleModel::open(SessionId session, std::string_view address, std::size_t server) {
  const ConnectionId id = connect({}, address, server);
  Decoder in(connection(id).sent.front());
  in.int32();
  in.int32();
  Session& its = sessions_[session];
  its.number = in.int64();
  its.password = in.string();
  connection(id).sent.clear();
  return id;
}

ConnectionId EnsembleModel::resume(SessionId session, std::string_view address, std::size_t server) {
  const ConnectionId id = connect(sessions_.at(session), address, server);
  connection(id).sent.clear();
  return id;
}

ConnectionId EnsembleModel::connect(const Session& session, std::string_view address, std::size_t server) {
  const ConnectionId id = ++made_;
  Connection& made = connections_[id];
  Output output;
  output.ip = std::string(address);
  output.bytes = [this, &made](const std::string& bytes) { take(made, bytes); };
  output.close = [&made] { made.closed = true; };
  made.side = ensemble_.accept(static_cast<int>(server) + 1, std::move(output));
  made.side->receive(
      Encoder().int32(0).int64(0).int32(30'000).int64(session.number).buffer(session.password).byte(false).frame());
  pass_until([&] { return !made.sent.empty() || made.closed; });
  if (made.closed) throw std::logic_error("the model has closed a connection that was to begin");
  made.replies = 0;
  return id;
}

// What it still sends finds its connection there.
void EnsembleModel::drop(ConnectionId id) {
  Connection& dropped = connections_.at(id);
  dropped.closed = true;
  dropped.sent.clear();
  dropped.side->closed();
}

void EnsembleModel::take(Connection& connection, std::string_view bytes) {
  connection.frames.add(bytes);
  while (const auto frame = connection.frames.next()) {
    if (!is_event(*frame)) ++connection.replies;
    connection.sent.push_back(*frame);
  }
}

void EnsembleModel::receive(ConnectionId id, std::string_view bytes, std::size_t replies) {
  Connection& connection = connections_.at(id);
  connection.replies = 0;
  connection.side->receive(bytes);
  pass_until([&] { return connection.replies >= replies || connection.closed; });
}

SessionId EnsembleModel::real_session(SessionId session) const {
  const auto found = std::ranges::find_if(sessions_, [&](const auto& entry) { return entry.second.number == session; });
  return session == 0 || found == sessions_.end() ? session : found->first;
}

}  // namespace zktesting::simulated
