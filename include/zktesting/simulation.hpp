#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include <zkclient/export.hpp>

namespace zktesting {

class Simulation;
enum class Isolation;  // <zktesting/ensemble.hpp>

/// A process of the simulated world: a function with threads, clients and connections of its own, on a machine of its
/// own. It belongs to its Simulation and lives as long. It is used by the test, and by the threads of the process
/// itself; only one thread of a world runs at a time.
class ZKRECIPES_API SimulatedProcess {
 public:
  SimulatedProcess(const SimulatedProcess&) = delete;
  SimulatedProcess& operator=(const SimulatedProcess&) = delete;

  /// As it was given to Simulation::process().
  [[nodiscard]] const std::string& name() const;
  /// For zkclient::Client: all servers of the world, "10.0.0.1:2181,...".
  [[nodiscard]] const std::string& servers() const;
  /// Asked by Simulation::stop(): the function is to return.
  [[nodiscard]] std::stop_token stop_token() const;
  /// Its function has not returned, or a thread of its still runs, and it was not killed.
  [[nodiscard]] bool running() const;

 private:
  friend class Simulation;
  struct Impl;
  explicit SimulatedProcess(std::unique_ptr<Impl> impl);
  ~SimulatedProcess();
  std::unique_ptr<Impl> impl_;
};

/// How the threads of a world take turns.
enum class Schedule {
  random,      ///< Any thread that can go on may be the next one.
  priorities,  ///< The thread of the highest priority runs; a few times, at random, one loses its priority (PCT).
};

/// What a server that is killed finds of the writes that its disk had not confirmed, when it starts again.
enum class Crash {
  any,      ///< Some of them, as chance will have it.
  power,    ///< None: the machine has lost its power.
  torn,     ///< All but the last one, which is torn: the server reads up to it.
  process,  ///< All: the process has died, and its machine went on.
};

struct SimulationOptions {
  /// Everything that happens follows from it: network, disks, threads, random numbers. The same seed gives the same
  /// world, step by step.
  std::uint64_t seed = 1;
  /// 1, 3 or 5 ZooKeeper servers.
  int servers = 1;
  /// The servers' tickTime; session timeouts are negotiated to 2 to 20 ticks, as by default.
  std::chrono::milliseconds tick{2000};
  /// The servers' minSessionTimeout; 0: 2 ticks.
  std::chrono::milliseconds least_session_timeout{0};
  /// The servers' maxSessionTimeout; 0: 20 ticks.
  std::chrono::milliseconds most_session_timeout{0};
  /// How often the servers look for empty containers and TTL nodes that are due.
  std::chrono::milliseconds container_check_interval{60'000};
  /// The servers' initLimit and syncLimit, in ticks.
  int init_limit = 10;
  int sync_limit = 5;  ///< The servers' syncLimit.
  /// How long a message is on its way, in each direction, in microseconds drawn evenly from these bounds.
  std::chrono::microseconds least_latency{100};
  std::chrono::microseconds most_latency{500};  ///< The upper bound.
  /// How threads take turns.
  Schedule schedule = Schedule::random;
  /// Threads that lose their turn for up to `longest_stall`, as on a busy machine: one of so many steps; 0: none.
  std::uint64_t stall_one_in = 0;
  std::chrono::milliseconds longest_stall{300};  ///< See `stall_one_in`.
  /// Is told what a server does, in words for whoever looks for the reason of a failure: that it leads or looks for a
  /// leader, whom it serves, which sessions are over, what was written. Servers count from 0. It may ask for now(), and
  /// may not wait, nor change the world.
  std::function<void(int server, const std::string& what)> tell{};
};

/// A world in which programs that use ZooKeeper run in virtual time: threads, clocks, sockets and servers are made, and
/// the libraries, libzookeeper_st and the program's own code are as they are. A minute of it takes a fraction of a
/// second, and a failure is a seed.
///
/// A program that links zkrecipes::zksimulation has the world's symbols in the place of libc's. They do as libc does until
/// a Simulation exists, and for threads that were started outside it. From the constructor to the destructor the
/// thread that made the Simulation, the test, belongs to the world: its clocks show the world's time, and a mutex
/// that a process holds may make it wait, in the world.
///
/// What cannot be simulated ends, or fails, with a sentence on stderr: a thread that waits busily, fork(), descriptors
/// that come from outside. Files, pipes and signals are the real ones; docs/simulation.md lists the rest.
///
/// At most one exists in a process at a time: another one is an `Error`, as are options out of range. Not thread-safe:
/// the thread that made it uses it, and while that waits the processes may: one thread of a world runs at a time.
class ZKRECIPES_API Simulation {
 public:
  /// Begins a world, at virtual time 0, whose servers start at once and serve after less than a second. Does not block.
  /// Throws `Error`: see above.
  explicit Simulation(SimulationOptions options = {});
  /// Kills what still runs.
  ~Simulation();
  Simulation(const Simulation&) = delete;
  Simulation& operator=(const Simulation&) = delete;

  /// Starts a process, on a machine of its own: `main` runs, in a thread of the world, as soon as the test lets time pass.
  /// It may be called again, by restart(). What it captures must outlive the world.
  SimulatedProcess& process(std::string name, std::function<void(SimulatedProcess&)> main);

  // --- Time ---
  /// Since the world began.
  [[nodiscard]] std::chrono::nanoseconds now() const;
  /// Lets the world go on for so long, by its own clock.
  void run_for(std::chrono::nanoseconds time);
  /// Lets it go on until `condition` is true, which is looked at every `look`. False: it was not within `limit`.
  bool run_until(const std::function<bool()>& condition, std::chrono::nanoseconds limit,
                 std::chrono::nanoseconds look = std::chrono::milliseconds(1));

  // --- What processes suffer ---
  /// As SIGKILL: no destructor runs, its connections break, its session goes on until it is over.
  void kill(SimulatedProcess& process);
  /// As SIGSTOP and SIGCONT: it does nothing, its clocks go on, its connections stay.
  void pause(SimulatedProcess& process);
  /// The opposite of pause(); of no effect on a process that is not paused.
  void resume(SimulatedProcess& process);
  /// Kills it if it runs, and starts its function anew.
  void restart(SimulatedProcess& process);
  /// Asks its function to return.
  void stop(SimulatedProcess& process);
  /// Its machine sleeps for so long, while the world goes on and the test waits. CLOCK_MONOTONIC does not count that,
  /// CLOCK_BOOTTIME does.
  void sleep_machine(SimulatedProcess& process, std::chrono::nanoseconds time);
  /// From now on its clocks gain so much in a second: between -0.001 and 0.001.
  void drift(SimulatedProcess& process, double share);
  /// What it has asked, and is answered, is lost: its connections break at both ends.
  void break_connections(SimulatedProcess& process);
  /// No byte comes through between its machine and the servers until heal(). Connections stay as they are.
  void cut_off(SimulatedProcess& process);
  /// The same in one direction: servers do not hear it. What it says arrives after heal().
  void cut_requests(SimulatedProcess& process);
  /// The same in the other direction: it does not hear the servers. What they say arrives after heal().
  void cut_replies(SimulatedProcess& process);
  /// From now on each message between its machine and the servers is on its way for so long, drawn evenly from these
  /// bounds, in both directions, until heal().
  void slow_link(SimulatedProcess& process, std::chrono::nanoseconds least, std::chrono::nanoseconds most);
  /// The connections that it has carry nothing for so long, in both directions; then all of it arrives. A connection that
  /// it makes meanwhile is not concerned.
  void stall_connections(SimulatedProcess& process, std::chrono::nanoseconds time);
  /// Undoes the three cuts, and slow_link().
  void heal(SimulatedProcess& process);

  // --- What servers suffer; they count from 0, and another number is an `Error`, as is a time below 0 ---
  /// As SIGKILL. What its disk had confirmed stays; what becomes of the rest says `crash`.
  void kill_server(int server, Crash crash = Crash::any);
  /// Starts it again, with what is on its disk; of no effect on one that runs.
  void start_server(int server);
  /// As SIGSTOP: it does nothing, and its connections stay.
  void pause_server(int server);
  /// As SIGCONT: all that has come meanwhile has its turn.
  void resume_server(int server);
  /// It and the other servers do not hear of each other, until heal_server(). Clients reach it.
  void isolate_server(int server);
  /// The same, in one of the ways of zktesting::Ensemble. What was held back arrives after heal_server().
  void isolate_server(int server, Isolation how);
  /// No byte comes through between it and the other servers, and the processes that there are, until heal_server().
  void silence_server(int server);
  /// The server `to` does not hear the server `from`, until heal_server() of one of them. What is said arrives then.
  void cut_link(int from, int to);
  /// From now on each message from one server to the other is on its way for so long, drawn evenly from these bounds,
  /// until heal_server() of one of them.
  void slow_link(int from, int to, std::chrono::nanoseconds least, std::chrono::nanoseconds most);
  /// Undoes isolate_server() and silence_server(), and cut_link() and slow_link() of all its links with other servers.
  void heal_server(int server);
  /// From now on getaddrinfo() knows `name` as the name of these servers, and takes so long to say so, during which it
  /// blocks as the real one does. No servers: it knows no such name, which is so before the first call, too. Port 2181.
  void name_servers(const std::string& name, const std::vector<int>& servers, std::chrono::nanoseconds takes = {});
  /// Whether clients can open sessions there.
  [[nodiscard]] bool serves(int server) const;
  /// The server that leads; -1: none does.
  [[nodiscard]] int leader() const;
  /// The server that a process has a connection to, the first one if there are several; -1: none.
  [[nodiscard]] int server_of(const SimulatedProcess& process) const;

  // --- What their disks do ---
  /// From now on it takes half of `mean` to three halves of it until a write is confirmed, drawn evenly. Reads of clients do
  /// not wait for the disk, except behind a write, or on a single server.
  void slow_disk(int server, std::chrono::nanoseconds mean);
  /// The disk confirms nothing for so long.
  void stall_disk(int server, std::chrono::nanoseconds time);
  /// The disk refuses to confirm, until heal_disk(). A single server ends at its next write, and so it does when it is
  /// started again. One of several goes on without a role: it serves nobody, and tries to follow or to lead, in vain. If
  /// it led, no other may be able to lead until the disk is well: it may have the newest write, and so the best vote.
  void refuse_fsync(int server);
  /// Undoes slow_disk() and refuse_fsync(): the disk is as fast as any, and has what it had refused to confirm.
  void heal_disk(int server);
  /// The data folder is empty. Kills the server if it runs; it stays down. Started again, it votes and follows like any
  /// other one, as ZooKeeper's servers do by default: what was acknowledged by it and one other may be lost, unless
  /// `may_wipe()` was true. A single server begins anew; clients that have seen its old data never find a session again.
  void wipe_server(int server);
  /// Nothing that was acknowledged hangs on its disk: all other servers serve, in one epoch, and have on their disks all
  /// that it has. A test that demands that nothing is lost wipes a server only then.
  [[nodiscard]] bool may_wipe(int server) const;

  /// A number from the world's own generator, below `end`.
  std::uint64_t random_below(std::uint64_t end);
  /// A hash of all turns, and of all bytes that arrived: equal for equal seeds.
  [[nodiscard]] std::uint64_t trace() const;
  /// How often a thread was given its turn.
  [[nodiscard]] std::uint64_t turns() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace zktesting
