#include "local_server.hpp"

#include <utility>

#include "simulation/servers/access.hpp"

namespace zktesting::simulated {

ConnectionId LocalServer::open(SessionId session, std::string_view address, std::size_t server) {
  tree_.apply(tree_.prepare_create_session(session, 30'000, next_zxid(), time_of(next_zxid())));
  return resume(session, address, server);
}

ConnectionId LocalServer::resume(SessionId session, std::string_view address, std::size_t /*server*/) {
  Connection& connection = connections_[++made_];
  connection.session = session;
  connection.address = address;
  connection.identities = {{"ip", std::string(address)}};
  return made_;
}

void LocalServer::drop(ConnectionId connection) {
  watches_.drop(connection);
  connections_.erase(connection);
}

void LocalServer::send(Connection& connection, const std::string& frame) {
  if (!connection.closed) connection.sent.push_back(frame.substr(4));
}

void LocalServer::send(const std::vector<WatchEvent>& events) {
  for (const WatchEvent& event : events)
    if (Connection& connection = connections_.at(event.connection); event.may_hear(connection.identities))
      send(connection, encode_event(event.type, event.path));
}

void LocalServer::answer(Connection& connection, const Request& request, const Reply& reply) {
  if (reply.error == code::session_moved)
    connection.closed = true;
  else
    send(connection, encode_reply(request.xid, tree_.last_zxid(), reply.error, reply.body));
}

void LocalServer::receive(ConnectionId id, std::string_view bytes, std::size_t /*replies*/) {
  Connection& connection = connections_.at(id);
  connection.frames.add(bytes);
  while (!connection.closed) {
    const std::optional<std::string> frame = connection.frames.next();
    if (!frame) break;
    handle(id, *frame);
  }
  connection.closed = connection.closed || connection.frames.bad();
  if (connection.closed) watches_.drop(id);
}

void LocalServer::handle(ConnectionId id, std::string_view frame) {
  Connection& connection = connections_.at(id);
  const std::optional<Request> request = decode_request(frame);
  if (!request) {
    connection.closed = true;
    return;
  }
  if (!is_known(request->op)) {
    send(connection, encode_reply(request->xid, -1, code::unimplemented));
    connection.closed = true;
  } else if (request->op == Op::auth) {
    authenticate(connection, *request);
  } else if (request->op == Op::close_session) {
    close_session(connection, *request);
  } else if (is_write(request->op)) {
    answer(connection, *request, write(connection, *request));
  } else {
    answer(connection, *request, watch(id, *request));
  }
}

Reply LocalServer::write(const Connection& connection, const Request& request) {
  const Caller caller{.session = connection.session, .auth = connection.identities};
  const Txn txn = tree_.prepare(request, caller, next_zxid(), time_of(next_zxid()));
  const Applied applied = tree_.apply(txn);
  send(watches_.trigger(applied.events));
  return applied.reply;
}

Reply LocalServer::watch(ConnectionId id, const Request& request) {
  switch (request.op) {
    case Op::ping: return {};
    case Op::set_watches:
    case Op::set_watches2:
      if (request.malformed) return {code::marshalling_error, {}};
      send(watches_.set_watches(request, tree_, id));
      return {};
    case Op::check_watches: return {watches_.check_watches(request), {}};
    case Op::remove_watches: return {watches_.remove_watches(request, id), {}};
    case Op::add_watch: {
      const std::int32_t error = watches_.add_watch(request, id);
      return {error, error == code::ok ? Encoder().int32(error).take() : std::string()};
    }
    default: break;
  }
  const Connection& connection = connections_.at(id);
  Reply reply = tree_.read(request, {.session = connection.session, .auth = connection.identities});
  watches_.note_read(request, reply.error, id);
  return reply;
}

void LocalServer::authenticate(Connection& connection, const Request& request) {
  const auto proved = simulated::authenticate(request, connection.address, super_);
  send(connection, encode_reply(request.xid, 0, proved ? code::ok : code::auth_failed));
  if (proved)
    add_identities(connection.identities, *proved);
  else
    connection.closed = true;
}

void LocalServer::close_session(Connection& connection, const Request& request) {
  apply_close(connection.session);
  answer(connection, request, {});
  connection.closed = true;
}

void LocalServer::apply_close(SessionId session) {
  const Txn txn = tree_.prepare_close_session(session, next_zxid(), time_of(next_zxid()));
  send(watches_.trigger(tree_.apply(txn).events));
}

void LocalServer::expire(SessionId session) {
  for (auto& [id, connection] : connections_)
    if (connection.session == session) watches_.drop(id);
  apply_close(session);
}

void LocalServer::reap(const std::vector<std::string>& paths) {
  for (const std::string& path : paths) {
    const Txn txn = tree_.prepare_delete_container(path, next_zxid(), time_of(next_zxid()));
    send(watches_.trigger(tree_.apply(txn).events));
  }
}

}  // namespace zktesting::simulated
