#include "storm/simulated/scenario.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <utility>

#include <fmt/format.h>
#include <zktesting/simulation.hpp>

#include "simulation/base/random.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;
using zktesting::SimulatedProcess;
using zktesting::Simulation;
using Random = zktesting::simulated::Random;

class SimulatedPlace : public Place {
 public:
  SimulatedPlace(Simulation& world, SimulatedProcess& process, History& history, int number,
                 std::chrono::milliseconds tick)
      : world_(world), process_(process), history_(history), number_(number), tick_(tick) {}

  [[nodiscard]] const std::string& name() const override { return process_.name(); }
  [[nodiscard]] int number() const override { return number_; }
  [[nodiscard]] const std::string& servers() const override { return process_.servers(); }
  [[nodiscard]] std::chrono::milliseconds tick() const override { return tick_; }
  [[nodiscard]] std::stop_token stop() const override { return process_.stop_token(); }
  [[nodiscard]] Nanos now() const override { return world_.now(); }
  std::uint64_t below(std::uint64_t end) override { return world_.random_below(end); }
  History& history() override { return history_; }

 private:
  Simulation& world_;
  SimulatedProcess& process_;
  History& history_;
  const int number_;
  const std::chrono::milliseconds tick_;
};

/// What a seed draws before its world begins.
struct Draw {
  zktesting::SimulationOptions world;
  std::vector<Trouble> troubles;
  std::chrono::milliseconds mean_calm{};  ///< Between two troubles.
};

Draw draw(const ScenarioOptions& options, Random& random) {
  Draw drawn;
  constexpr int sizes[] = {1, 3, 3, 5};
  constexpr int ticks[] = {500, 1000, 2000, 3000};
  drawn.world.seed = random.next();
  drawn.world.servers = sizes[random.below(4)];
  drawn.world.tick = std::chrono::milliseconds(ticks[random.below(4)]);
  if (random.one_in(3)) drawn.world.least_session_timeout = drawn.world.tick;  // An operator has lowered it.
  drawn.world.least_latency = std::chrono::microseconds(50 + random.below(200));
  drawn.world.most_latency =
      drawn.world.least_latency + std::chrono::microseconds(random.below(random.one_in(4) ? 50'000 : 2000));
  drawn.world.schedule = random.one_in(2) ? zktesting::Schedule::priorities : zktesting::Schedule::random;
  if (random.one_in(3)) drawn.world.stall_one_in = 200 + random.below(5000);
  for (int i = 0; i < troubles; ++i) {
    const auto trouble = static_cast<Trouble>(i);
    const bool chosen = random.one_in(2);
    const bool allowed = std::find(options.without.begin(), options.without.end(), trouble) == options.without.end();
    if (chosen && allowed) drawn.troubles.push_back(trouble);
  }
  if (random.one_in(20)) drawn.troubles.clear();
  drawn.mean_calm = std::chrono::milliseconds(500 + random.below(5000));
  return drawn;
}

/// Makes trouble, and makes it good again.
class Director {
 public:
  Director(Simulation& world, const Draw& drawn, const ScenarioOptions& options, Random& random, Outcome& outcome)
      : world_(world), drawn_(drawn), options_(options), random_(random), outcome_(outcome) {}

  void start(const Workload& workload, History& history) {
    history_ = &history;
    for (int i = 0; i < workload.processes; ++i) {
      processes_.push_back(&world_.process(fmt::format("p{}", i), [this, &workload, i](SimulatedProcess& process) {
        SimulatedPlace place(world_, process, *history_, i, drawn_.world.tick);
        workload.run(place);
      }));
    }
  }
  void make_trouble() {
    const auto end = world_.now() + std::chrono::seconds(options_.seconds);
    while (world_.now() < end) {
      run_for(std::chrono::milliseconds(1 + random_.below(2 * static_cast<std::uint64_t>(drawn_.mean_calm.count()))));
      if (!drawn_.troubles.empty()) make(drawn_.troubles[random_.below(drawn_.troubles.size())]);
    }
    run_for(20s);  // All that is to be made good has its time.
  }
  void calm() {
    for (SimulatedProcess* process : processes_) {
      world_.resume(*process);
      world_.heal(*process);
      if (!process->running()) world_.restart(*process);
    }
    for (int server = 0; server < drawn_.world.servers; ++server) {
      world_.heal_server(server);
      world_.resume_server(server);
      world_.start_server(server);
    }
    tell("calm", "");
  }
  /// False: they do not come to an end.
  bool stop() {
    for (SimulatedProcess* process : processes_)
      world_.stop(*process);
    return world_.run_until(
        [&] {
          return std::none_of(processes_.begin(), processes_.end(),
                              [](const SimulatedProcess* process) { return process->running(); });
        },
        120s, 100ms);
  }
  void tell(const std::string& what, const std::string& whom) {
    history_->add({world_.now(), whom.empty() ? "--" : whom, what, 0, 0, ""});
  }

 private:
  void make(Trouble trouble) {
    ++outcome_.happened[static_cast<int>(trouble)];
    SimulatedProcess& process = *processes_[random_.below(processes_.size())];
    const int server = static_cast<int>(random_.below(static_cast<std::uint64_t>(drawn_.world.servers)));
    const std::string server_name = fmt::format("s{}", server);
    const auto a_while = std::chrono::milliseconds(random_.one_in(2) ? random_.below(2000) : random_.below(15'000));
    switch (trouble) {
      case Trouble::kill_process:
        world_.kill(process);
        tell("killed", process.name());
        later(a_while, [this, &process] {
          if (!process.running()) world_.restart(process);
        });
        break;
      case Trouble::pause_process:
        world_.pause(process);
        tell("paused", process.name());
        later(a_while, [this, &process] {
          world_.resume(process);
          tell("resumed", process.name());
        });
        break;
      case Trouble::cut_off_process:
        world_.cut_off(process);
        heal_later(process, "cut off", a_while);
        break;
      case Trouble::lose_requests:
        world_.cut_requests(process);
        heal_later(process, "unheard", a_while);
        break;
      case Trouble::lose_replies:
        world_.cut_replies(process);
        heal_later(process, "deaf", a_while);
        break;
      case Trouble::break_connections:
        if (random_.one_in(2)) {  // What is on its way back is lost.
          world_.cut_replies(process);
          world_.run_for(std::chrono::microseconds(random_.below(5000)));
        }
        world_.break_connections(process);
        world_.heal(process);
        tell("broken", process.name());
        break;
      case Trouble::sleep_machine:
        tell("asleep", process.name());
        world_.sleep_machine(process, a_while);
        tell("awake", process.name());
        break;
      case Trouble::drift:
        world_.drift(process, (static_cast<double>(random_.below(2001)) - 1000) / 1e6);
        tell("drifts", process.name());
        break;
      case Trouble::kill_server:
        world_.kill_server(server);
        tell("killed", server_name);
        later(a_while, [this, server, server_name] {
          world_.start_server(server);
          tell("started", server_name);
        });
        break;
      case Trouble::pause_server:
        world_.pause_server(server);
        tell("paused", server_name);
        later(a_while, [this, server, server_name] {
          world_.resume_server(server);
          tell("resumed", server_name);
        });
        break;
      case Trouble::isolate_server:
        world_.isolate_server(server);
        tell("isolated", server_name);
        later(a_while, [this, server, server_name] {
          world_.heal_server(server);
          tell("healed", server_name);
        });
        break;
    }
  }
  void heal_later(SimulatedProcess& process, const char* what, std::chrono::milliseconds time) {
    tell(what, process.name());
    later(time, [this, &process] {
      if (random_.one_in(2)) world_.break_connections(process);
      world_.heal(process);
      tell("healed", process.name());
    });
  }
  void later(std::chrono::milliseconds time, std::function<void()> act) {
    to_make_good_.emplace(world_.now() + time, std::move(act));
  }
  /// Makes good meanwhile what is due.
  void run_for(std::chrono::nanoseconds time) {
    const auto end = world_.now() + time;
    while (!to_make_good_.empty() && to_make_good_.begin()->first <= end) {
      const auto due = to_make_good_.extract(to_make_good_.begin());
      if (due.key() > world_.now()) world_.run_for(due.key() - world_.now());
      due.mapped()();
    }
    if (end > world_.now()) world_.run_for(end - world_.now());
  }

  Simulation& world_;
  const Draw& drawn_;
  const ScenarioOptions& options_;
  Random& random_;
  Outcome& outcome_;
  History* history_ = nullptr;
  std::vector<SimulatedProcess*> processes_;
  std::multimap<std::chrono::nanoseconds, std::function<void()>> to_make_good_;
};

std::string describe(const Draw& drawn) {
  std::string text = fmt::format(
      "{} server(s), tick {} ms, least timeout {} ms, latency {} to {} us, {}, stalls 1/{}, mean calm {} ms:",
      drawn.world.servers, drawn.world.tick.count(), drawn.world.least_session_timeout.count(),
      drawn.world.least_latency.count(), drawn.world.most_latency.count(),
      drawn.world.schedule == zktesting::Schedule::priorities ? "priorities" : "random turns", drawn.world.stall_one_in,
      drawn.mean_calm.count());
  for (const Trouble trouble : drawn.troubles)
    text += fmt::format(" {}", to_string(trouble));
  return text;
}

}  // namespace

const char* to_string(Trouble trouble) {
  switch (trouble) {
    case Trouble::kill_process: return "kill-process";
    case Trouble::pause_process: return "pause-process";
    case Trouble::cut_off_process: return "cut-off-process";
    case Trouble::lose_requests: return "lose-requests";
    case Trouble::lose_replies: return "lose-replies";
    case Trouble::break_connections: return "break-connections";
    case Trouble::sleep_machine: return "sleep-machine";
    case Trouble::kill_server: return "kill-server";
    case Trouble::pause_server: return "pause-server";
    case Trouble::isolate_server: return "isolate-server";
    case Trouble::drift: return "drift";
  }
  return "?";
}

Outcome run_scenario(const Workload& workload, const ScenarioOptions& options) {
  Random random(options.seed);
  const Draw drawn = draw(options, random);
  Outcome outcome;
  outcome.world = describe(drawn);
  History history;  // Outlives the world's threads.
  {
    Simulation world(drawn.world);
    Director director(world, drawn, options, random, outcome);
    director.start(workload, history);
    director.make_trouble();
    director.calm();
    world.run_for(60s);
    if (!director.stop()) outcome.faults.push_back("the processes do not come to an end");
    bool looked = false;
    world.process("end", [&](SimulatedProcess& process) {
      SimulatedPlace place(world, process, history, -1, drawn.world.tick);
      workload.look_at_the_end(place);
      looked = true;
    });
    if (!world.run_until([&] { return looked; }, 300s, 100ms))
      outcome.faults.push_back("nobody could look at what is left");
    outcome.trace = world.trace();
    outcome.turns = world.turns();
  }
  for (const std::string& fault : workload.check(history))
    outcome.faults.push_back(fault);
  for (const Entry& entry : history.entries()) {
    outcome.story.push_back(to_string(entry));
    if (entry.what == "left behind") outcome.faults.push_back("left behind at the end: " + entry.text);
  }
  return outcome;
}

}  // namespace storm
