#pragma once

#include <pthread.h>

#include <csignal>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "simulation/base/event_queue.hpp"
#include "simulation/kernel/turns.hpp"
#include "simulation/network/network.hpp"

namespace zktesting::simulated {

class Descriptors;
struct ClientProcess;

/// A thread of the world.
struct Thread : TurnTaker {
  enum class State : std::uint8_t { ready, blocked, finished };

  int number = 0;
  ClientProcess* process = nullptr;
  State state = State::ready;
  sigset_t blocked_signals{};
  std::function<void*()> body;
  void* result = nullptr;

  // While it is blocked.
  const void* waits_for = nullptr;
  std::optional<EventQueue::Key> timer;
  bool timer_counts_sleep = false;
  bool timed_out = false;

  bool detached = false;
  bool joined = false;

  std::uint64_t priority = 0;  ///< Of the schedule by priorities: the greatest runs.
  int idle_turns = 0;          ///< How often it has yielded since it was blocked last.
};

/// A simulated process: threads and descriptors that die together, on a host.
struct ClientProcess {
  int pid = 0;
  std::string name;
  Host host = 0;
  bool paused = false;
  bool dead = false;
};

/// When a wait ends, by the world's time. One that counts by the monotonic clock ends later if the machine sleeps meanwhile.
struct Deadline {
  Deadline(Nanos time, bool while_asleep = false) : at(time), counts_sleep(while_asleep) {}

  Nanos at;
  bool counts_sleep;
};

/// What a host's clocks say. The world's time is the true one.
struct HostClock {
  Nanos wall_ahead{};  ///< Of CLOCK_REALTIME.
  Nanos asleep{};      ///< What CLOCK_BOOTTIME counts and CLOCK_MONOTONIC does not.
  double drift = 0;    ///< 0.001: it gains a millisecond in a second, since `since`.
  Nanos since{};
  Nanos gained{};  ///< Until then.
};

/// How the next thread is chosen.
struct ScheduleOptions {
  /// A thread that could go on gives way in one of so many of its steps; 0: never.
  std::uint64_t preempt_one_in = 8;
  /// Priorities, of which so many change points lower one; 0: any ready thread may be next.
  int change_points = 0;
  /// One of so many steps stalls its thread, as a busy machine does; 0: none.
  std::uint64_t stall_one_in = 0;
  Nanos longest_stall = std::chrono::milliseconds(300);
};

/// The threads, clocks and waits of one world. At most one exists in a real process at a time. Except for current(), it
/// is called only by the thread that has the turn.
class Kernel {
 public:
  Kernel(std::uint64_t seed, const ScheduleOptions& schedule);
  ~Kernel();
  /// Kills all processes, and gives the calling thread, which made the world, back to libc. What the events hold is
  /// gone afterwards.
  void end();
  Kernel(const Kernel&) = delete;
  Kernel& operator=(const Kernel&) = delete;

  /// The simulated thread that calls; nullptr: a real one, or one that runs the world itself.
  static Thread* current();
  static Kernel* instance();

  EventQueue& events() { return events_; }
  Network& network() { return network_; }
  Descriptors& descriptors() { return *descriptors_; }

  // --- Processes ---
  ClientProcess& add_process(const std::string& name, Host host);
  /// Starts a thread in `process`, which calls `body`.
  Thread& start_thread(ClientProcess& process, std::function<void*()> body);
  /// No destructor runs; its connections break; its threads never get a turn again.
  void kill(ClientProcess& process);
  static void pause(ClientProcess& process) { process.paused = true; }
  static void resume(ClientProcess& process) { process.paused = false; }
  /// The machine of its sleeps for so long: what counts by the monotonic clock ends later.
  void delay_timers(const ClientProcess& process, Nanos time);
  HostClock& clock_of(Host host) { return clocks_[host]; }
  /// From now on its clocks gain so much in a second.
  void set_drift(Host host, double share);
  [[nodiscard]] bool runs(const ClientProcess& process) const;

  // --- Called by threads, through the symbols of libc ---
  /// A step at which another thread may go on. It takes a little time.
  void step();
  /// Gives the turn away; returns when it is this thread's turn again.
  void yield();
  /// The thread asks for that itself: what it waits for is up to others, whatever their priorities.
  void yield_to_all();
  /// Blocks until wake() for `object`, or until `deadline` of the world's time. False: the time is up.
  bool block(const void* object, std::optional<Deadline> deadline);
  /// Wakes the threads that are blocked on `object`, at most so many. Returns how many.
  int wake(const void* object, int most = -1);
  /// Before libc ends `thread`, which has the turn, with `result`.
  void leave(Thread& thread, void* result);
  void finish_thread(Thread& thread);
  /// nullptr: it is none of the world.
  Thread* find(pthread_t real);
  /// Blocks until it has ended.
  void join(Thread& thread);

  // --- Clocks of the calling thread's host ---
  [[nodiscard]] Nanos monotonic(Host host) const;
  [[nodiscard]] Nanos boottime(Host host) const;
  [[nodiscard]] Nanos realtime(Host host) const;
  /// When the world's clock shows what the host's clocks show after so much time.
  [[nodiscard]] Nanos world_time_of(Host host, Nanos time_until) const;

  /// Folds `word` into the hash of all that has happened.
  void trace(std::uint64_t word) { trace_ = (trace_ ^ word) * 0x100000001B3u + (trace_ >> 47); }
  [[nodiscard]] std::uint64_t trace_hash() const { return trace_; }
  [[nodiscard]] std::uint64_t turns() const { return turns_; }
  Random& random() { return events_.random(); }

 private:
  void arm(Thread& thread, Deadline deadline);
  void stop_waiting(Thread& thread);
  void give_turn(Thread* leaving);
  Thread* choose();
  void hand_over(Thread* from, Thread& to);
  void expect_end_of_wait();
  void make_ready(Thread& thread);
  void lower_at_change_point(Thread& thread);
  void run_due_events(Thread& self);
  [[noreturn]] void stuck() const;
  void watch_turns();

  EventQueue events_;
  Network network_;
  const ScheduleOptions schedule_;
  std::unique_ptr<Descriptors> descriptors_;
  std::vector<std::unique_ptr<ClientProcess>> processes_;
  std::vector<std::unique_ptr<Thread>> threads_;
  std::vector<Thread*> ready_;
  std::unordered_map<const void*, std::deque<Thread*>> blocked_;
  std::map<Host, HostClock> clocks_;
  std::vector<std::uint64_t> change_points_;
  std::uint64_t steps_ = 0;
  std::uint64_t turns_ = 0;
  std::uint64_t trace_ = 0xCBF29CE484222325u;
  int pids_ = 1000;
  ClientProcess* driver_process_ = nullptr;
  Thread* driver_ = nullptr;
  std::optional<Turns> handing_over_;
  Thread* holder_ = nullptr;  // Of the turn.
  pthread_t watch_{};
  std::uint32_t watch_ends_ = 0;  // A futex.
};

/// While it lives, this thread runs the world itself: libc's symbols mean libc.
class InsideKernel {
 public:
  InsideKernel();
  ~InsideKernel();
  InsideKernel(const InsideKernel&) = delete;
  InsideKernel& operator=(const InsideKernel&) = delete;

 private:
  Thread* const before_;
};

}  // namespace zktesting::simulated
