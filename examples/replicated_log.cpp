// One member of a replicated log: a process with a folder of its own. zkrecipes::ReplicaGroup says who may write, and
// whose confirmation an entry needs. The entries go over plain TCP, where anybody may pose as the primary, and lie on
// the disk as replicated_log_storage.hpp says. How an entry is acknowledged: append(), everyone_has(), Log::take().
//   replicated_log FOLDER ID [--server host:port] [--path /node] [--listen address:port] [--advertise address:port]
//                            [--minimum members] [--session ms] [--tick ms]
//
// A client sends lines to a member:
//   append CLIENT NUMBER TEXT   ok POSITION: all that are in sync have it, and once, however often it is sent.
//                               no ADDRESS: try there. Whether the log has it, or will have it, is not known.
//   read POSITION               ok EPOCH CLIENT NUMBER TEXT; end: it knows of no such acknowledged entry; no ADDRESS
//   state                       ok ROLE COUNT STORAGE
// The primary sends to a member some records, its epoch, how many entries there were when that began, how many are
// acknowledged, and from which position on the records are, with the sum of all before it:
//   replicate RECORDS EPOCH BASE ACKNOWLEDGED POSITION SUM
//                               has STORAGE COUNT: so many are durable, and equal the primary's
//                               differs STORAGE COUNT: what is before POSITION is something else, or not there
//                               refused STORAGE COUNT: it has accepted a higher epoch

#include <atomic>
#include <condition_variable>
#include <csignal>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include <fmt/format.h>
#include <boost/asio.hpp>

#include <zkclient/client.hpp>
#include <zkclient/clock.hpp>
#include <zkrecipes/replica_group.hpp>

#include "replicated_log_storage.hpp"

using namespace std::chrono_literals;
using boost::asio::ip::tcp;
using replicated_log::Log;
using replicated_log::Words;
using zkrecipes::InSyncReplica;
using zkrecipes::ReplicaMember;
using Clock = std::chrono::steady_clock;

constexpr auto reply_time = 1s;  // A member that needs longer is taken out, and left alone for as long.
constexpr auto idle_time = 30s;  // So long a connection may say nothing.
constexpr auto beat = 200ms;     // So often the primary sends something, or more often.
constexpr int most_connections = 64;
constexpr std::size_t longest_text = 4000;
constexpr std::size_t longest_line = 4200;

/// It throws when it breaks, or when something takes too long.
struct Connection : tcp::iostream {
  Connection() {
    exceptions(failbit | badbit | eofbit);
    unsetf(std::ios::unitbuf);  // Otherwise the destructor of a sentry flushes: it must not throw.
  }
  std::string line(Clock::duration limit) {
    char text[longest_line];
    expires_after(limit);
    getline(text, sizeof text);
    return {text, static_cast<std::size_t>(gcount() - 1)};
  }
  void send(const std::string& text) {
    expires_after(reply_time);
    *this << text << std::flush;
  }
};

/// Of "address:port".
std::pair<std::string, std::string> split(const std::string& address) {
  const std::size_t colon = std::min(address.rfind(':'), address.size() - 1);
  return {address.substr(0, colon), address.substr(colon + 1)};
}

void say(const std::string& text) { std::cout << text + "\n" << std::flush; }

class Member {
 public:
  Member(Log& log, zkclient::Client client, const std::string& path, const zkrecipes::Replica& self,
         const zkrecipes::ReplicaGroupOptions& options)
      : log_(log),
        id_(self.id),
        group_(std::move(client), path, self,
               {[this](const auto& term) { lead(term); }, [this](const auto& term) { follow(term); }}, options) {}

  void leave() try { group_.leave({.deadline = Clock::now() + 5s}); } catch (const zkclient::Error&) {
    // Then the others wait for the end of the session.
  }

  /// Until it ends. Bad bytes end it as well.
  void serve(Connection& connection) try {
    for (std::string verb, answer;;) {
      Words words(connection.line(idle_time));
      words >> verb;
      if (verb == "append") {
        answer = append(words);
      } else if (verb == "read") {
        answer = read(words);
      } else if (verb == "state") {
        answer = fmt::format("ok {} {} {}", to_string(group_.role()), log_.count(), log_.storage());
      } else if (verb == "replicate") {
        answer = replicate(words, connection);
      } else {
        return;
      }
      connection.send(answer + "\n");
    }
  } catch (const std::exception&) {
  }

  /// As the primary: tells the others what is acknowledged, takes out who does not answer, and takes in who has come.
  void tend() {
    for (;; std::this_thread::sleep_for(beat)) {
      // become_primary() has returned, and the lease is valid; but maybe too few are in sync.
      if (group_.role() != zkrecipes::ReplicaRole::primary || !group_.may_serve_reads()) continue;
      std::unique_lock lock(writing_);
      for (auto& [storage, peer] : peers_)
        peer.has.reset();
      const std::size_t count = log_.count();
      if (everyone_has(count) && group_.may_write()) log_.acknowledge(count);
      lock.unlock();
      for (const ReplicaMember& member : group_.members())
        take_in(member);
    }
  }

 private:
  /// What the primary of this epoch knows of a storage.
  struct Peer {
    std::unique_ptr<Connection> connection = {};
    std::size_t next = 0;                 // What it is sent next.
    std::optional<std::size_t> has = {};  // As it has confirmed.
    Clock::time_point failed = {};
  };

  void follow(const zkrecipes::SecondaryTerm& term) {
    log_.accept(term.epoch);
    // The version only spares copying: once in an epoch is enough.
    if (std::exchange(reported_, term.epoch) != term.epoch) group_.async_report_version(log_.count(), [](auto&&...) {});
  }
  std::string no() const {
    const auto state = group_.state();
    for (const ReplicaMember& member : group_.members()) {
      if (state && member.id == state->primary) return "no " + member.address;
    }
    return "no -";
  }
  std::string read(Words& words) const {
    std::size_t position = 0;
    words >> position;
    const std::string answer = log_.read(position);
    return group_.may_serve_reads() ? answer : no();  // In this order.
  }
  std::string replicate(Words& words, Connection& connection) {
    std::size_t count = 0;
    words >> count;
    std::vector<std::string> records(count <= replicated_log::most_records ? count
                                                                           : throw std::invalid_argument("too many"));
    for (std::string& record : records)
      record = connection.line(reply_time);
    return log_.take(words, records);
  }
  std::string append(Words& words) {
    const std::string text = words.rest();
    if (text.size() > longest_text) throw std::invalid_argument("it is too long");
    if (!group_.may_write()) return no();
    const std::lock_guard lock(writing_);
    if (!group_.may_write()) return no();  // If it may, then in the epoch of which lead() was told last.
    const std::optional<std::size_t> position = log_.append(epoch_, text);
    if (!position || !everyone_has(*position + 1)) return no();
    const auto now = zkclient::BootClock::now().time_since_epoch();
    if (!group_.may_write()) return no();  // If it may, then at that time, too.
    log_.acknowledge(*position + 1);
    say(fmt::format("acknowledged {} {} {}", epoch_, *position, now.count()));
    return fmt::format("ok {}", *position);
  }
  void lead(const zkrecipes::PrimaryTerm& term) {
    std::unique_lock lock(writing_);
    peers_.clear();
    epoch_ = term.epoch;
    const bool accepted = log_.accept(epoch_);  // From now on no other primary changes this log.
    base_ = log_.count();
    for (std::condition_variable_any again; !accepted || !everyone_has(base_);) {
      again.wait_for(lock, term.lost, beat, [] { return false; });
      if (term.lost.stop_requested()) return;
    }
  }
  /// All that are in sync, as of now, have so many entries. Who does not answer is taken out.
  bool everyone_has(std::size_t count) try {
    for (;;) {
      std::vector<InSyncReplica> behind = group_.in_sync();
      if (behind.empty()) return false;
      std::erase_if(behind, [&](const auto& one) { return one.id == id_ || peers_[one.storage].has >= count; });
      if (behind.empty()) return true;
      if (auto silent = exchange(behind); !silent.empty()) group_.shrink(std::move(silent));
    }
  } catch (const zkclient::Error&) {
    return false;  // It is not the primary any more.
  }
  /// One message to each, and its answer. Returns the ids of those that failed.
  std::vector<std::string> exchange(const std::vector<InSyncReplica>& replicas) {
    std::vector<std::string> failed;
    const auto attempt = [&](const InSyncReplica& replica, auto step) {
      try {
        (this->*step)(peers_[replica.storage], replica);
      } catch (const std::exception&) {
        peers_[replica.storage] = {.failed = Clock::now()};
        failed.push_back(replica.id);
      }
    };
    for (const InSyncReplica& replica : replicas)
      attempt(replica, &Member::ask);
    for (const InSyncReplica& replica : replicas)
      attempt(replica, &Member::hear);
    return failed;
  }
  void ask(Peer& peer, const InSyncReplica& replica) {
    for (const ReplicaMember& member : group_.members()) {
      if (peer.connection || member.id != replica.id || member.storage != replica.storage) continue;
      peer.connection = std::make_unique<Connection>();
      peer.connection->expires_after(reply_time);
      peer.connection->connect(split(member.address).first, split(member.address).second);
      peer.connection->socket().set_option(tcp::no_delay(true));
      peer.next = log_.count();
    }
    if (!peer.connection) throw std::runtime_error("it is not there");
    peer.connection->send(log_.message(epoch_, base_, peer.next));
  }
  void hear(Peer& peer, const InSyncReplica& replica) {
    if (!peer.connection) return;  // ask() has failed.
    std::string verdict, storage;
    std::size_t count = 0;
    Words(peer.connection->line(reply_time)) >> verdict >> storage >> count;
    const bool good = verdict == "has" || (verdict == "differs" && peer.next > 0);
    if (!good || storage != replica.storage) throw std::runtime_error("refused, or another one has its address now");
    if (verdict == "has") peer.has = count;
    peer.next = verdict == "has" ? count : std::min(count, peer.next / 2);
  }
  /// Copies the log while clients write in between; the last of it, and taking it in, in one go.
  void take_in(const ReplicaMember& member) try {
    for (;;) {
      const std::lock_guard lock(writing_);
      const std::vector<InSyncReplica> all = group_.in_sync();
      const auto counts = [&](const auto& one) { return one.id == member.id && one.storage == member.storage; };
      Peer& peer = peers_[member.storage];
      if (all.empty() || std::ranges::any_of(all, counts) || Clock::now() < peer.failed + reply_time) return;
      if (!exchange({{member.id, member.storage}}).empty()) return;
      if (peer.has == log_.count()) return group_.expand(member.id, member.storage);
    }
  } catch (const zkclient::Error&) {
  }

  Log& log_;
  const std::string id_;
  std::int64_t reported_ = 0;  // In which epoch.
  std::mutex writing_;         // Of who sends entries, or changes who is in sync. It guards the next three.
  std::int64_t epoch_ = 0;
  std::size_t base_ = 0;               // How many entries there were when it began.
  std::map<std::string, Peer> peers_;  // By storage.
  zkrecipes::ReplicaGroup group_;      // The last one: its handlers use all of these.
};

int main(int argc, char** argv) try {
  if (argc < 3 || argc % 2 == 0) throw std::invalid_argument("usage: replicated_log FOLDER ID [--option value]...");
  const char* server = std::getenv("ZKRECIPES_SERVER");
  std::map<std::string, std::string> given = {{"--server", server != nullptr ? server : "127.0.0.1:2181"},
                                              {"--path", "/examples/replicated_log"},
                                              {"--listen", "127.0.0.1:0"},
                                              {"--advertise", ""},
                                              {"--minimum", "1"},
                                              {"--session", "10000"},
                                              {"--tick", "2000"}};
  for (int i = 3; i < argc; i += 2)
    given.at(argv[i]) = argv[i + 1];
  sigset_t ends;
  sigemptyset(&ends);
  sigaddset(&ends, SIGINT);
  sigaddset(&ends, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &ends, nullptr);

  Log log(argv[1]);
  boost::asio::io_context io;
  const auto [host, port] = split(given["--listen"]);
  tcp::acceptor acceptor(io, tcp::resolver(io).resolve(host, port)->endpoint());
  std::string address = fmt::format("{}:{}", host, acceptor.local_endpoint().port());
  say("listening " + address);
  if (!given["--advertise"].empty()) address = given["--advertise"];
  const auto time = [&](const char* option) { return std::chrono::milliseconds(std::stol(given.at(option))); };
  zkclient::Client client(given["--server"], {.session_timeout = time("--session"), .server_tick = time("--tick")});
  zkrecipes::ReplicaGroupOptions options;
  options.minimum = std::stoul(given["--minimum"]);
  Member member(log, client, given["--path"], {argv[2], log.storage(), address}, options);

  std::thread([&] { member.tend(); }).detach();
  std::thread([&] {
    for (std::atomic<int> connections = 0;;) {
      auto connection = std::make_shared<Connection>();
      acceptor.accept(connection->socket());
      if (connections >= most_connections) continue;
      ++connections;
      std::thread([&, connection] {
        member.serve(*connection);
        --connections;
      }).detach();
    }
  }).detach();
  int signal = 0;
  sigwait(&ends, &signal);
  member.leave();
  client.close();
  std::_Exit(EXIT_SUCCESS);  // What was confirmed is on the disk: the other threads may end anywhere.
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return EXIT_FAILURE;
}
