#include "simulation/servers/clients.hpp"

#include <algorithm>
#include <utility>

#include "simulation/servers/access.hpp"
#include "simulation/servers/sentences.hpp"

namespace zktesting::simulated {

namespace {

/// Every server can work it out, as in the real ensemble.
std::string password_of(SessionId session) {
  Random random(static_cast<std::uint64_t>(session) ^ 0xB3415C00u);
  std::string password;
  while (password.size() < 16)
    password.push_back(static_cast<char>(random.below(256)));
  return password;
}

/// The server's number and the time of its start, so that no two servers, nor two lives of one, give the same.
SessionId first_session(Host host, Nanos since_start) {
  const auto millis = static_cast<std::uint64_t>(since_start / std::chrono::milliseconds(1)) + 1;
  return static_cast<SessionId>((static_cast<std::uint64_t>(host) << 56) | ((millis << 24) >> 8));
}

}  // namespace

Clients::Clients(Process& process, const EnsembleOptions& options, Host host, Memory& memory, FourLetterWords words)
    : process_(process), options_(options), host_(host), memory_(memory), words_(std::move(words)) {}

std::shared_ptr<ServerSide> Clients::accept(Output output) {
  const ConnectionId id = ++last_connection_;
  auto connection = std::make_shared<Connection>(process_, *this, id, std::move(output), options_.max_buffer);
  connection->counts.since = options_.epoch + process_.now() / std::chrono::milliseconds(1);
  connections_.emplace(id, connection);
  return connection;
}

void Clients::serve(Coordinator& coordinator) {
  coordinator_ = &coordinator;
  next_session_ = std::max(next_session_ + 1, first_session(host_, process_.now()));
}

void Clients::drop_all() {
  coordinator_ = nullptr;
  line_.clear();
  const auto dropped = std::move(connections_);
  connections_.clear();
  for (const auto& [id, connection] : dropped)
    connection->close();
  by_session_.clear();
  memory_.watches = Watches();
}

void Clients::gone(Connection& connection) {
  if (connection.established) {
    options_.say(host_, [&] { return "loses " + connection.output().client + ": " + told(connection.session); });
  }
  memory_.watches.drop(connection.id());
  const auto found = by_session_.find(connection.session);
  if (found != by_session_.end() && found->second == connection.id()) by_session_.erase(found);
  connections_.erase(connection.id());
}

std::shared_ptr<Connection> Clients::find(ConnectionId connection) const {
  const auto found = connections_.find(connection);
  return found == connections_.end() ? nullptr : found->second;
}

// Sessions.

void Clients::connect(Connection& connection, const ConnectRequest& request) {
  ++received_;
  if (!serving() || request.last_zxid_seen > memory_.tree.last_zxid()) return connection.close();
  connection.knows_read_only = request.knows_read_only;
  connection.timeout = std::clamp<Millis>(request.timeout, options_.least_timeout(), options_.most_timeout());
  connection.stop_reading();
  if (request.session == 0)
    begin_session(connection);
  else
    find_session(connection, request);
}

void Clients::begin_session(Connection& connection) {
  connection.session = next_session_++;
  by_session_[connection.session] = connection.id();
  coordinator_->track(connection.session, connection.timeout);
  Job job;
  job.connection = connection.id();
  job.caller = {connection.session, connection.auth, code::ok};
  job.timeout = connection.timeout;
  job.request.op = Op::create_session;
  if (coordinator_->touch(connection.session, connection.timeout))
    take_turn(std::make_shared<const Job>(std::move(job)));
}

void Clients::find_session(Connection& connection, const ConnectRequest& request) {
  close_session(request.session);  // The client has come back before its old connection was seen to break.
  connection.session = request.session;
  by_session_[connection.session] = connection.id();
  if (request.password != password_of(request.session)) return finish_session(connection, false);
  coordinator_->revalidate(connection.session, connection.timeout, connection.id());
}

void Clients::admit(ConnectionId connection, bool valid) {
  if (const auto found = find(connection)) finish_session(*found, valid);
}

void Clients::finish_session(Connection& connection, bool valid) {
  ConnectResponse response;
  response.knows_read_only = connection.knows_read_only;
  if (valid) {
    response.timeout = static_cast<std::int32_t>(connection.timeout);
    response.session = connection.session;
    response.password = password_of(connection.session);
  }
  options_.say(host_, [&] {
    const std::string session = told(connection.session);
    if (!valid) return "tells " + connection.output().client + " that " + session + " is over";
    return "serves " + connection.output().client + ": " + session + ", " + std::to_string(connection.timeout) + " ms";
  });
  ++sent_;
  connection.send(encode_connect(response));
  if (!valid) return connection.close();
  connection.establish(connection.timeout);
  connection.resume_reading();
}

void Clients::close_session(SessionId session) {
  const auto found = by_session_.find(session);
  if (found == by_session_.end()) return;
  if (const auto connection = find(found->second)) connection->close();
}

// Requests.

void Clients::request(Connection& connection, Request request) {
  ++received_;
  if (!serving()) return connection.close();
  if (request.op == Op::auth) return authenticate_client(connection, request);
  // A real server forgets about the packet of a session that is over.
  if (!coordinator_->touch(connection.session, connection.timeout)) return;
  if (!is_known(request.op)) {
    connection.reply(request.xid, -1, code::unimplemented);
    return connection.close();
  }
  Job job;
  job.connection = connection.id();
  job.caller = {connection.session, connection.auth, code::ok};
  job.request = std::move(request);
  take_turn(std::make_shared<const Job>(std::move(job)));
}

void Clients::authenticate_client(Connection& connection, const Request& request) {
  const auto identities = authenticate(request, connection.output().ip);
  connection.reply(request.xid, 0, identities ? code::ok : code::auth_failed);
  if (!identities) return connection.close();
  add_identities(connection.auth, *identities);
}

void Clients::take_turn(const JobPtr& job) {
  const SessionId session = job->caller.session;
  if (coordinator_->needs_leader(job->request.op)) {
    line_.add(session, job, true);
    return coordinator_->submit(job);
  }
  auto read = std::make_shared<Job>(*job);
  read->caller.session_error = coordinator_->check(session);
  if (coordinator_->reads_wait_for_the_log()) return coordinator_->read_in_turn([this, read] { answer_read(*read); });
  if (line_.empty(session)) return answer_read(*read);
  line_.add(session, read, false);
}

void Clients::expect(const Job& write) {
  auto nobodys = std::make_shared<Job>(write);
  nobodys->connection = 0;
  line_.add(write.caller.session, std::move(nobodys), true);
}

void Clients::commit(const Entry& entry) {
  const Applied applied = memory_.tree.apply(*entry.txn);
  tell(memory_.watches.trigger(applied.events));
  const SessionId session = entry.txn->session;
  const JobPtr job = line_.take(entry);
  const auto connection = job ? find(job->connection) : nullptr;
  if (entry.txn->op == Op::close_session) {
    if (coordinator_ != nullptr) coordinator_->session_closed(session);
    if (!connection) close_session(session);
  }
  if (connection) {
    const bool of_a_client = job->request.op != Op::create_session;
    if (of_a_client) {
      options_.say(host_, [&] {
        return connection->output().client + ": " + told(job->request, *entry.txn, applied.reply.error);
      });
    }
    answer_write(*connection, *job, applied.reply);
  }
  if (job) answer_reads_of(session);
}

void Clients::synced(const Job& sync) {
  const JobPtr job = line_.take_sync(sync);
  if (!job) return;
  answer_read(*job);
  answer_reads_of(sync.caller.session);
}

void Clients::answer_reads_of(SessionId session) {
  while (const JobPtr read = line_.take_read(session))
    answer_read(*read);
}

void Clients::answer_write(Connection& connection, const Job& job, const Reply& written) {
  if (job.request.op == Op::create_session) return finish_session(connection, written.error == code::ok);
  reply(connection, job, written);
  if (job.request.op == Op::close_session) connection.close();
}

void Clients::answer_read(const Job& job) {
  if (const auto connection = find(job.connection)) reply(*connection, job, read(job));
}

void Clients::reply(Connection& connection, const Job& job, const Reply& reply) {
  if (reply.error == code::session_moved) return connection.close();
  ++sent_;
  connection.reply(job.request.xid, memory_.tree.last_zxid(), reply.error, reply.body);
}

Reply Clients::read(const Job& job) {
  if (job.caller.session_error != code::ok) return {job.caller.session_error, {}};
  switch (job.request.op) {
    case Op::ping: return {};
    case Op::set_watches:
    case Op::set_watches2:
    case Op::check_watches:
    case Op::remove_watches:
    case Op::add_watch: return job.request.malformed ? Reply{code::marshalling_error, {}} : arm_watches(job);
    default: break;
  }
  Reply reply = memory_.tree.read(job.request, job.caller);
  memory_.watches.note_read(job.request, reply.error, job.connection);
  return reply;
}

Reply Clients::arm_watches(const Job& job) {
  switch (job.request.op) {
    case Op::check_watches: return {memory_.watches.check_watches(job.request), {}};
    case Op::remove_watches: return {memory_.watches.remove_watches(job.request, job.connection), {}};
    case Op::add_watch: {
      const std::int32_t error = memory_.watches.add_watch(job.request, job.connection);
      return {error, error == code::ok ? Encoder().int32(0).take() : std::string()};
    }
    default: tell(memory_.watches.set_watches(job.request, memory_.tree, job.connection)); return {};
  }
}

void Clients::tell(const std::vector<WatchEvent>& events) {
  for (const WatchEvent& event : events) {
    const auto connection = find(event.connection);
    if (connection && event.may_hear(connection->auth)) connection->send(encode_event(event.type, event.path));
  }
}

void Clients::four_letter_word(Connection& connection, const std::string& word) { connection.send(words_(word)); }

}  // namespace zktesting::simulated
