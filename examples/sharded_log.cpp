// A log of many partitions: processes on hosts in racks, three replicas of each partition, and routers that find its
// primary. zkrecipes::Placer says which host has which replica; each partition is a replicated log, as in
// log/log_replica.hpp.
//   sharded_log host id=ID rack=RACK folder=FOLDER listen=ADDRESS:PORT
//     A host. Each is also a candidate to place replicas. SIGTERM: it gives its replicas to other hosts, and ends.
//   sharded_log append
//     Reads lines "KEY TEXT", and appends each to its key's partition: "ok PARTITION POSITION" when it is acknowledged.
//   sharded_log read PARTITION
//     Prints what is acknowledged: "EPOCH CLIENT NUMBER KEY TEXT".
// For all of them: servers=HOST:PORT,... partitions=NUMBER (the same everywhere, for ever), session_ms, server_tick_ms.
// A host has also advertised=ADDRESS:PORT, where others find it, and settle_ms: a host that is away for less keeps its
// replicas.
// To a host, each line of log/log_replica.hpp begins with the name of a partition. If it has no replica of that, it ends
// the connection.

#include <pthread.h>
#include <signal.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <shared_mutex>
#include <stdexcept>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <boost/asio.hpp>

#include <zkclient/client.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/placement.hpp>
#include <zkrecipes/placement_map.hpp>

#include "log/connection.hpp"
#include "log/log.hpp"
#include "log/log_replica.hpp"

namespace {

using namespace std::chrono_literals;
using logs::Connection;
using logs::Words;
using zkrecipes::HostedReplica;
using zkrecipes::PartitionReplicas;

constexpr const char* path = "/sharded_log";

/// What was given as NAME=VALUE.
class Settings {
 public:
  Settings(int argc, char** argv) {
    for (int i = 0; i < argc; ++i) {
      const std::string setting = argv[i];
      const std::size_t end = setting.find('=');
      if (end != std::string::npos) values_[setting.substr(0, end)] = setting.substr(end + 1);
    }
  }
  std::string text(const std::string& name, const std::optional<std::string>& otherwise = std::nullopt) const {
    if (const auto found = values_.find(name); found != values_.end()) return found->second;
    return otherwise ? *otherwise : throw std::invalid_argument("missing: " + name + "=");
  }
  std::size_t number(const std::string& name, std::size_t otherwise) const {
    return std::stoul(text(name, std::to_string(otherwise)));
  }
  std::chrono::milliseconds time(const std::string& name, std::chrono::milliseconds otherwise) const {
    return std::chrono::milliseconds(number(name, static_cast<std::size_t>(otherwise.count())));
  }

 private:
  std::map<std::string, std::string> values_;
};

std::size_t partition_count(const Settings& settings) { return settings.number("partitions", 12); }

zkclient::Client connect(const Settings& settings) {
  return zkclient::Client(
      settings.text("servers", "127.0.0.1:2181"),
      {.session_timeout = settings.time("session_ms", 10s), .server_tick = settings.time("server_tick_ms", 2s)});
}

// --- A host ----------------------------------------------------------------------------------------------------------

class Host {
 public:
  Host(const Settings& settings, const zkclient::Client& client)
      : client_(client),
        id_(settings.text("id")),
        partitions_(partition_count(settings)),
        folder_(settings.text("folder")),
        address_(settings.text("advertised", settings.text("listen"))),
        copies_(found_copies()),
        hosted_(client, path, {id_, settings.text("rack", "")},
                {[this](const HostedReplica& replica) { open(replica); },
                 [this](const HostedReplica& replica) { close(replica); },
                 [this](const HostedReplica& replica) { erase(replica); }},
                {.copies = {copies_.begin(), copies_.end()}}) {
    hosted_.start();
  }

  std::string answer(Words& words, Connection& connection) {
    std::string partition;
    words >> partition;
    std::unique_lock lock(mutex_);
    Replica& replica = *replicas_.at(partition);
    const std::shared_lock in_use(replica.in_use);
    lock.unlock();
    return replica.member.answer(words, connection);
  }
  /// Returns when all that it had is elsewhere: no replica is open, and the folders are gone. One that was closed may be
  /// called back, because it is the only one with all that was acknowledged: so it looks again and again. A folder that may
  /// not be erased for a long time stays for the next start. Never returns while a replica is open: if somebody damages its
  /// placement, that is for an operator.
  void drain() {
    auto end = std::chrono::steady_clock::now() + longest_wait;
    do {
      try {
        hosted_.drain({.deadline = std::chrono::steady_clock::now() + 5s});
      } catch (const zkclient::Error&) {
        // Not all has moved so far. Or the connection is broken, and the next turn asks for it again.
      }
      if (has_replicas()) end = std::chrono::steady_clock::now() + longest_wait;
      std::this_thread::sleep_for(logs::beat);
    } while (has_copies() && std::chrono::steady_clock::now() < end);
  }

 private:
  struct Replica {
    Replica(const Host& host, const HostedReplica& hosted)
        : log(host.folder_of(hosted)),
          member(log, host.client_, hosted.group, host.id_, host.address_, hosted.partition + " ") {}
    logs::Log log;
    logs::LogReplica member;
    std::shared_mutex in_use;  // By those who answer.
  };

  std::filesystem::path folder_of(const HostedReplica& hosted) const { return folder_ / hosted.partition; }
  /// Anybody can make a node among the placements. Its name need not be one that a folder can have.
  bool is_partition(const std::string& name) const {
    for (std::size_t i = 0; i < partitions_; ++i) {
      if (name == std::to_string(i)) return true;
    }
    return false;
  }
  /// In folders from before.
  std::set<std::string> found_copies() const {
    std::set<std::string> found;
    for (std::size_t i = 0; i < partitions_; ++i) {
      if (std::filesystem::exists(folder_ / std::to_string(i))) found.insert(std::to_string(i));
    }
    return found;
  }
  /// One that closes may still be the primary.
  bool has_replicas() {
    const std::lock_guard lock(mutex_);
    return !replicas_.empty() || closes_;
  }
  bool has_copies() {
    const std::lock_guard lock(mutex_);
    return !copies_.empty();
  }
  /// There may be a folder from before. If it does not have all that is acknowledged, it is not in sync.
  void open(const HostedReplica& hosted) {
    if (!is_partition(hosted.partition)) return;
    const std::lock_guard lock(mutex_);
    replicas_.emplace(hosted.partition, std::make_unique<Replica>(*this, hosted));
    copies_.insert(hosted.partition);
  }
  /// The folder stays: so far it may be the only one with all that was acknowledged.
  void close(const HostedReplica& hosted) {
    std::unique_lock lock(mutex_);
    auto closed = replicas_.extract(hosted.partition);
    if (closed.empty()) return;  // It was not opened.
    closes_ = true;
    lock.unlock();
    closed.mapped()->member.leave();
    closed.mapped()->in_use.lock();  // Nobody answers any more, and nobody will.
    closed.mapped()->in_use.unlock();
    closed.mapped().reset();
    lock.lock();
    closes_ = false;
  }
  /// Other storages have all that was acknowledged here. A folder that cannot be erased now is for the next start.
  void erase(const HostedReplica& hosted) {
    try {
      logs::Log::erase(folder_of(hosted));
    } catch (const std::exception& error) {
      std::cerr << "partition " << hosted.partition << " is not erased: " << error.what() << "\n";
      return;
    }
    const std::lock_guard lock(mutex_);
    copies_.erase(hosted.partition);
  }

  static constexpr auto longest_wait = 60s;

  const zkclient::Client client_;
  const std::string id_;
  const std::size_t partitions_;
  const std::filesystem::path folder_;
  const std::string address_;
  std::mutex mutex_;
  std::map<std::string, std::unique_ptr<Replica>> replicas_;  // By partition. Guarded by mutex_.
  bool closes_ = false;                                       // A replica, which is in the list no more. Likewise.
  std::set<std::string> copies_;                              // Those that were not erased. Guarded by mutex_.
  zkrecipes::HostedReplicas hosted_;                          // Its handlers use all of these.
};

void serve(const Settings& settings) {
  sigset_t planned_work;
  ::sigemptyset(&planned_work);
  ::sigaddset(&planned_work, SIGTERM);
  ::pthread_sigmask(SIG_BLOCK, &planned_work, nullptr);  // Of all threads: this one waits for it.

  zkclient::Client client = connect(settings);
  boost::asio::io_context io;
  const auto [address, port] = logs::split(settings.text("listen"));
  logs::tcp::acceptor acceptor(io, logs::tcp::resolver(io).resolve(address, port)->endpoint());
  std::cout << "listening" << std::endl;
  Host host(settings, client);
  std::thread([&] {
    logs::serve_all(acceptor, [&](Words& words, Connection& connection) { return host.answer(words, connection); });
  }).detach();

  std::vector<std::string> partitions;
  for (std::size_t i = 0; i < partition_count(settings); ++i)
    partitions.push_back(std::to_string(i));
  zkrecipes::PlacerOptions options;
  options.replicas = 3;
  options.minimum = 2;  // That of the groups.
  options.settle = settings.time("settle_ms", 30s);
  zkrecipes::Placer placer(client, path, partitions, std::move(options));
  placer.start();

  int signal = 0;
  ::sigwait(&planned_work, &signal);
  host.drain();
  client.close();            // Another host places replicas, if this one did.
  std::_Exit(EXIT_SUCCESS);  // The threads that answer would not end.
}

// --- A router --------------------------------------------------------------------------------------------------------

class Router {
 public:
  explicit Router(const Settings& settings)
      : client_(connect(settings)), partitions_(partition_count(settings)), map_(client_, path) {}

  /// Returns when the entry is acknowledged, with its place.
  std::string append(const std::string& entry) {
    if (entry.size() > longest_entry) throw std::invalid_argument("the entry is too long");
    const std::string key = entry.substr(0, entry.find(' '));
    const std::string partition = std::to_string(zkrecipes::partition_of(key, partitions_));
    return partition + " " + ask(partition, fmt::format("append {} {} {}", name_, ++number_, entry)).value();
  }
  /// "EPOCH CLIENT NUMBER KEY TEXT". Nothing: there is no such entry that is acknowledged.
  std::optional<std::string> read(const std::string& partition, std::size_t position) {
    if (std::stoul(partition) >= partitions_) throw std::invalid_argument("there is no such partition");
    return ask(partition, fmt::format("read {}", position));
  }

 private:
  /// What follows "ok". It asks one primary after the other: an entry is appended once, however often it is sent.
  std::optional<std::string> ask(const std::string& partition, const std::string& line) {
    for (zkrecipes::FencingToken refused;;) {
      const PartitionReplicas replicas = look(partition, refused);
      if (!replicas.primary) continue;
      const std::string answer = send(partition, replicas.primary->address, line);
      if (answer.starts_with("ok ")) return answer.substr(3);
      if (answer == "end") return std::nullopt;
      refused = replicas.token;
    }
  }
  /// A new primary, if there is one soon. The one that has refused may do better, too: it may have taken a failed member
  /// out meanwhile.
  PartitionReplicas look(const std::string& partition, zkrecipes::FencingToken refused) const {
    try {
      return map_.wait_primary(partition, refused, {.deadline = std::chrono::steady_clock::now() + logs::beat});
    } catch (const zkclient::Error& error) {
      if (error.errc() != zkclient::Errc::deadline_exceeded) throw;
      return map_.replicas(partition);
    }
  }
  /// Nothing: it does not answer, or has no such replica.
  std::string send(const std::string& partition, const std::string& address, const std::string& line) {
    std::unique_ptr<Connection>& connection = connections_[address];
    try {
      if (!connection) connection = std::make_unique<Connection>(address);
      connection->send(partition + " " + line + "\n");
      return connection->line(patience);
    } catch (const std::exception&) {
      connection.reset();
      return "";
    }
  }

  static constexpr std::size_t longest_entry = logs::longest_text - 100;
  static constexpr auto patience = 5s;  // A primary that waits for a failed member may answer yet.

  const zkclient::Client client_;
  const std::size_t partitions_;
  const zkrecipes::PlacementMap map_;
  const std::string name_ = fmt::format("{:08x}{:08x}", std::random_device{}(), std::random_device{}());
  std::uint64_t number_ = 0;
  std::map<std::string, std::unique_ptr<Connection>> connections_;  // By address.
};

}  // namespace

int main(int argc, char** argv) try {
  const std::string_view what = argc > 1 ? argv[1] : "";
  const Settings settings(argc, argv);
  if (what == "host") {
    serve(settings);
  } else if (what == "append") {
    Router router(settings);
    for (std::string line; std::getline(std::cin, line);)
      std::cout << "ok " << router.append(line) << std::endl;
  } else if (what == "read" && argc > 2) {
    Router router(settings);
    std::size_t position = 0;
    while (const auto entry = router.read(argv[2], position++))
      std::cout << *entry << "\n";
  } else {
    throw std::invalid_argument("usage: sharded_log host|append|read PARTITION, NAME=VALUE...");
  }
} catch (const std::exception& error) {
  std::cerr << error.what() << "\n";
  return EXIT_FAILURE;
}
