#include "simulation/servers/four_letter_words.hpp"

#include <functional>
#include <map>
#include <sstream>
#include <utility>

#include "simulation/servers/server.hpp"

namespace zktesting::simulated {

namespace {

constexpr const char* version = "3.8.0-simulated, built on 2022-02-25 08:49 UTC";

std::string hex(std::int64_t number) {
  std::ostringstream text;
  text << "0x" << std::hex << static_cast<std::uint64_t>(number);
  return text.str();
}

std::string mode(const Server& server) {
  if (server.options().servers == 1) return "standalone";
  return server.leading() != nullptr ? "leader" : "follower";
}

std::string address(const Connection& connection) {
  return "/" + connection.output().ip + ":" + std::to_string(connection.output().port);
}

std::string short_line(const Connection& connection) {
  std::ostringstream text;
  text << " " << address(connection) << "[1](queued=0,recved=" << connection.counts.received
       << ",sent=" << connection.counts.sent;
  return text.str();
}

std::string long_line(const Connection& connection) {
  if (!connection.established) return short_line(connection) + ")\n";
  std::ostringstream text;
  text << short_line(connection) << ",sid=" << hex(connection.session)
       << ",lop=" << static_cast<std::int32_t>(connection.counts.last_op) << ",est=" << connection.counts.since
       << ",to=" << connection.timeout << ",lcxid=" << hex(connection.counts.last_xid)
       << ",lzxid=" << hex(connection.counts.last_zxid) << ",lresp=0,llat=0,minlat=0,avglat=0,maxlat=0)\n";
  return text.str();
}

std::string lines(const Server& server, std::string (*line)(const Connection&), const char* end) {
  std::string text;
  for (const auto& [id, connection] : server.clients().connections())
    text += line(*connection) + end;
  return text + "\n";
}

std::string figures(const Server& server) {
  const Clients& clients = server.clients();
  std::ostringstream text;
  text << "Latency min/avg/max: 0/0.0/0\nReceived: " << clients.received() << "\nSent: " << clients.sent()
       << "\nConnections: " << clients.connections().size() << "\nOutstanding: " << clients.outstanding()
       << "\nZxid: " << hex(server.tree().last_zxid()) << "\nMode: " << mode(server) << "\n";
  if (server.leading() != nullptr && server.options().servers > 1) text << "Proposal sizes last/min/max: -1/-1/-1\n";
  text << "Node count: " << server.tree().node_count() << "\n";
  return text.str();
}

std::string srvr(const Server& server) { return "Zookeeper version: " + std::string(version) + "\n" + figures(server); }

std::string stat(const Server& server) {
  return "Zookeeper version: " + std::string(version) + "\nClients:\n" + lines(server, short_line, ")\n") +
         figures(server);
}

std::string cons(const Server& server) { return lines(server, long_line, ""); }

std::string mntr(const Server& server) {
  const Tree& tree = server.tree();
  std::size_t ephemerals = 0;
  for (const auto& [session, paths] : tree.ephemerals())
    ephemerals += paths.size();
  std::ostringstream text;
  text << "zk_version\t" << version << "\nzk_server_state\t" << mode(server) << "\nzk_ephemerals_count\t" << ephemerals
       << "\nzk_znode_count\t" << tree.node_count() << "\nzk_watch_count\t" << server.memory().watches.size()
       << "\nzk_approximate_data_size\t" << tree.approximate_data_size() << "\nzk_num_alive_connections\t"
       << server.clients().connections().size() << "\nzk_outstanding_requests\t" << server.clients().outstanding()
       << "\nzk_packets_received\t" << server.clients().received() << "\nzk_packets_sent\t" << server.clients().sent()
       << "\nzk_avg_latency\t0.0\nzk_min_latency\t0\nzk_max_latency\t0\nzk_uptime\t0\nzk_global_sessions\t"
       << tree.sessions().size() << "\nzk_local_sessions\t0\n";
  if (const Leader* leader = server.leading(); leader != nullptr && server.options().servers > 1) {
    text << "zk_learners\t" << leader->followers() << "\nzk_synced_followers\t" << leader->followers_in_sync()
         << "\nzk_pending_syncs\t0\n";
  }
  return text.str();
}

std::string dump(const Server& server) {
  const Tree& tree = server.tree();
  std::ostringstream text;
  text << "SessionTracker dump:\nGlobal Sessions(" << tree.sessions().size() << "):\n";
  for (const auto& [session, timeout] : tree.sessions())
    text << hex(session) << "\t" << timeout << "ms\n";
  const auto ephemerals = tree.ephemerals();
  text << "ephemeral nodes dump:\nSessions with Ephemerals (" << ephemerals.size() << "):\n";
  for (const auto& [session, paths] : ephemerals) {
    text << hex(session) << ":\n";
    for (const std::string& path : paths)
      text << "\t" << path << "\n";
  }
  return text.str();
}

SessionId session_of(const Server& server, ConnectionId connection) {
  const auto found = server.clients().connections().find(connection);
  return found == server.clients().connections().end() ? 0 : found->second->session;
}

std::string wchs(const Server& server) {
  const Watches& watches = server.memory().watches;
  std::ostringstream text;
  text << watches.by_connection().size() << " connections watching " << watches.by_path().size()
       << " paths\nTotal watches:" << watches.size() << "\n";
  return text.str();
}

std::string wchc(const Server& server) {
  std::string text;
  for (const auto& [connection, paths] : server.memory().watches.by_connection()) {
    text += hex(session_of(server, connection)) + "\n";
    for (const std::string& path : paths)
      text += "\t" + path + "\n";
  }
  return text + "\n";
}

std::string wchp(const Server& server) {
  std::string text;
  for (const auto& [path, connections] : server.memory().watches.by_path()) {
    text += path + "\n";
    for (const ConnectionId connection : connections)
      text += "\t" + hex(session_of(server, connection)) + "\n";
  }
  return text + "\n";
}

std::string envi(const Server& server) {
  return "Environment:\nzookeeper.version=" + std::string(version) + "\nhost.name=server" +
         std::to_string(server.host()) + "\njava.version=none\nos.name=simulated\n";
}

std::string conf(const Server& server) {
  const EnsembleOptions& options = server.options();
  std::ostringstream text;
  text << "clientPort=2181\nsecureClientPort=-1\ndataDir=/data/version-2\ndataDirSize=0\ndataLogDir=/data/version-2\n"
       << "dataLogSize=0\ntickTime=" << options.tick
       << "\nmaxClientCnxns=0\nminSessionTimeout=" << options.least_timeout()
       << "\nmaxSessionTimeout=" << options.most_timeout()
       << "\nclientPortListenBacklog=-1\nserverId=" << (options.servers == 1 ? 0 : server.host()) << "\n";
  if (options.servers == 1) return text.str();
  text << "initLimit=" << options.init_limit << "\nsyncLimit=" << options.sync_limit
       << "\nelectionAlg=3\nelectionPort=3888\nquorumPort=2888\npeerType=0\nmembership: \n";
  for (int host = 1; host <= options.servers; ++host)
    text << "server." << host << "=10.0.0." << host << ":2888:3888:participant\n";
  text << "version=0";
  return text.str();
}

}  // namespace

std::string answer_four_letter_word(const Server& server, const std::string& word) {
  if (word == "ruok") return "imok";
  if (word == "envi") return envi(server);
  static const std::map<std::string, std::string (*)(const Server&)> answers = {
      {"srvr", srvr}, {"stat", stat},
      {"cons", cons}, {"mntr", mntr},
      {"dump", dump}, {"wchs", wchs},
      {"wchc", wchc}, {"wchp", wchp},
      {"conf", conf}, {"isro", [](const Server&) -> std::string { return "rw"; }},
  };
  const auto answer = answers.find(word);
  if (answer == answers.end()) return word + " is not executed because it is not in the whitelist.\n";
  if (word == "isro" && !server.clients().serving()) return "null";
  if (!server.clients().serving()) return "This ZooKeeper instance is not currently serving requests\n";
  return answer->second(server);
}

}  // namespace zktesting::simulated
