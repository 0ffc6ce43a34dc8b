#pragma once

#include <cstdint>
#include <deque>
#include <map>
#include <memory>

#include "simulation/base/event_queue.hpp"
#include "simulation/network/network.hpp"

namespace zktesting::simulated {

/// What stands for a thread of a server's, or for a socket that it reads. What happens in one lane keeps its order, whatever
/// befalls the process; what happens in two lanes may come in any order after the process was stopped.
using Lane = std::uint64_t;
namespace lane {
constexpr Lane main = 0;
constexpr Lane expirer = 1;
constexpr Lane leader_loop = 2;
constexpr Lane log = 3;
constexpr Lane election = 4;
constexpr Lane reaper = 5;
constexpr Lane applying = 6;
constexpr Lane peer(Host host) { return 100 + static_cast<Lane>(host); }
constexpr Lane client(std::uint64_t connection) { return 1000 + connection; }
}  // namespace lane

/// A server's process as the kernel sees it: it lives or not, and may be stopped (SIGSTOP). All that a server does goes
/// through here.
class Process {
 public:
  using Act = EventQueue::Act;

  explicit Process(EventQueue& events) : events_(events) {}
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void begin();
  /// What was held, and every timer, is forgotten.
  void end();
  void pause();
  /// What has come meanwhile, and every timer that is overdue, has its turn at once: lane by lane in order, the lanes mixed
  /// by chance.
  void resume();
  [[nodiscard]] bool alive() const { return alive_; }
  [[nodiscard]] bool paused() const { return paused_; }

  /// Something has come from outside: now, or when the process goes on.
  void arrive(Lane lane, Act act);
  void after(Lane lane, Nanos delay, Act act);
  /// How long a thread that was woken takes until it runs. Long when the whole process has just been woken: its threads
  /// come one by one.
  Nanos hesitation();
  [[nodiscard]] Nanos now() const { return events_.now(); }
  EventQueue& events() { return events_; }

 private:
  void drain();
  Act take_held();

  EventQueue& events_;
  bool alive_ = false;
  bool paused_ = false;
  bool draining_ = false;
  Nanos resumed_at_{-std::chrono::hours(1)};
  std::uint64_t life_ = 0;
  std::map<Lane, std::deque<Act>> held_;
};

/// Something to be done later, unless it is stopped, or set anew.
class Timer {
 public:
  Timer(Process& process, Lane lane) : process_(process), lane_(lane) {}
  ~Timer() { stop(); }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  void set(Nanos delay, Process::Act act);
  void stop() { ++*setting_; }

 private:
  Process& process_;
  const Lane lane_;
  std::shared_ptr<std::uint64_t> setting_ = std::make_shared<std::uint64_t>(0);
};

/// A socket's read timeout: `over` is called when heard() was not for so long. After the process was stopped, what has
/// come meanwhile is read first.
class Silence {
 public:
  Silence(Process& process, Lane lane) : process_(process), lane_(lane), timer_(process, lane) {}

  void expect(Nanos limit, Process::Act over);
  void heard() { heard_at_ = process_.now(); }
  void stop() { timer_.stop(); }

 private:
  void wait();
  void check(bool read_all);

  Process& process_;
  const Lane lane_;
  Timer timer_;
  Nanos limit_{};
  Nanos heard_at_{};
  Process::Act over_;
};

}  // namespace zktesting::simulated
