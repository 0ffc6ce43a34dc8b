#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "simulation/servers/server.hpp"

namespace zktesting::simulated {

/// An ensemble of 1, 3 or 5 ZooKeeper servers, on the hosts 1, 2, ... of the network. They start when the world begins, and
/// everything that they do is an event of the queue. Events of theirs stay in the queue: it must not run on without them.
class Ensemble : private Peers {
 public:
  Ensemble(EventQueue& events, Network& network, EnsembleOptions options = {});

  /// A client's connection to a server that its network has brought there. nullptr: nothing listens ("connection
  /// refused"). A server that is stopped accepts, into its backlog.
  std::shared_ptr<ServerSide> accept(int server, Output output) { return at(server).accept(std::move(output)); }

  /// SIGKILL, and power loss: what the disk has not confirmed may be lost. The connections break at once.
  void kill(int server, Loss loss = Loss::any) { at(server).kill(loss); }
  void start(int server) { at(server).start(); }
  /// The disk is lost. Kills the server if it runs.
  void wipe(int server) { at(server).wipe(); }
  /// SIGSTOP and SIGCONT.
  void pause(int server) { at(server).process().pause(); }
  void resume(int server) { at(server).process().resume(); }
  /// The connections between two servers are reset. Both notice at once, and may make new ones.
  void break_connections(int one, int other);
  void set_fsync_latency(int server, Latency latency) { at(server).log().set_latency(latency); }
  /// The disk confirms nothing until then.
  void stall_disk(int server, Nanos until) { at(server).log().stall(until); }
  /// The disk refuses to confirm. A standalone server ends at its next write; a member of an ensemble loses its role, and
  /// cannot take one.
  void set_fsync_refused(int server, bool refused) { at(server).log().set_refusing(refused); }

  [[nodiscard]] int size() const { return options_.servers; }
  [[nodiscard]] const EnsembleOptions& options() const { return options_; }
  /// The server that leads and serves. Of two that believe so, the one with the newer epoch.
  [[nodiscard]] std::optional<int> leader() const;
  [[nodiscard]] bool serving(int server) const { return at(server).serving(); }
  /// All servers serve.
  [[nodiscard]] bool complete() const;
  [[nodiscard]] ServerState state(int server) const { return at(server).state(); }
  /// What was acknowledged survives the loss of this server's disk, and that of any one disk that is lost after this is so
  /// again: all others serve in one epoch, and have on their disks what this one has.
  [[nodiscard]] bool expendable(int server) const;
  [[nodiscard]] bool alive(int server) const { return at(server).alive(); }
  [[nodiscard]] bool paused(int server) const { return at(server).paused(); }
  /// What the server has applied.
  [[nodiscard]] const Tree& tree(int server) const { return at(server).tree(); }
  [[nodiscard]] const Disk& disk(int server) const { return at(server).disk(); }
  [[nodiscard]] std::string four_letter_word(int server, const std::string& word) const;

 private:
  void send(Host from, Host to, Message message, Message refused) override;
  [[nodiscard]] Server& at(int server) { return *servers_.at(static_cast<std::size_t>(server - 1)); }
  [[nodiscard]] const Server& at(int server) const { return *servers_.at(static_cast<std::size_t>(server - 1)); }

  const EnsembleOptions options_;
  std::map<std::pair<Host, Host>, std::unique_ptr<Pipe>> cables_;
  std::vector<std::unique_ptr<Server>> servers_;
};

}  // namespace zktesting::simulated
