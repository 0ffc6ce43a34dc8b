#pragma once

#include <memory>
#include <string>

#include "simulation/servers/election.hpp"
#include "simulation/servers/follower.hpp"
#include "simulation/servers/leader.hpp"
#include "simulation/servers/machine.hpp"

namespace zktesting::simulated {

enum class ServerState : std::int8_t { down, starting, looking, following, leading };

/// One server: a machine with a disk, a process that may end, and the role that the process has at the moment.
class Server {
 public:
  Server(EventQueue& events, const EnsembleOptions& options, Host host, Peers& peers);
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  void start();
  void kill(Loss loss = Loss::any);
  void wipe();
  Process& process() { return process_; }
  [[nodiscard]] bool alive() const { return process_.alive(); }
  [[nodiscard]] bool paused() const { return process_.paused(); }
  LogWriter& log() { return log_; }
  /// Nothing: nobody listens.
  std::shared_ptr<ServerSide> accept(Output output);

  /// From another server.
  void arrive(Host from, const Peers::Message& message, const Peers::Message& refused);
  void hear(const Notification& notification);
  /// That host does not lead: the answer to a follower's attempt on that link.
  void refuse(Host follower, LinkId link);
  /// The connections to that host broke: its process has ended, perhaps.
  void gone(Host host);
  /// If that is the role, and it is not over.
  Leader* leading() { return leaving_ ? nullptr : leader_.get(); }
  Follower* following() { return leaving_ ? nullptr : follower_.get(); }
  [[nodiscard]] const Leader* leading() const { return leaving_ ? nullptr : leader_.get(); }

  [[nodiscard]] ServerState state() const { return state_; }
  [[nodiscard]] bool serving() const { return process_.alive() && !process_.paused() && clients_.serving(); }
  [[nodiscard]] const Tree& tree() const { return memory_.tree; }
  [[nodiscard]] const Memory& memory() const { return memory_; }
  [[nodiscard]] const Disk& disk() const { return disk_; }
  [[nodiscard]] const Clients& clients() const { return clients_; }
  [[nodiscard]] const EnsembleOptions& options() const { return options_; }
  [[nodiscard]] Host host() const { return host_; }

 private:
  void run();
  void disk_refuses();
  void look();
  void take_over_log();
  void elected(const Vote& vote);
  void lead();
  void follow(Host leader);
  void leave();
  void retire();
  RoleHooks hooks();
  void tell_others(const Peers::Message& message);

  EventQueue& events_;
  const EnsembleOptions& options_;
  const Host host_;
  Peers& peers_;
  Process process_;
  Disk disk_;
  LogWriter log_;
  Memory memory_;
  Clients clients_;
  Machine machine_;

  ServerState state_ = ServerState::down;
  bool listening_ = false;
  bool leaving_ = false;
  std::uint64_t roles_ = 0;  // That it has had.
  LinkId next_link_;
  std::unique_ptr<Election> election_;
  std::unique_ptr<Leader> leader_;
  std::unique_ptr<Follower> follower_;
};

}  // namespace zktesting::simulated
