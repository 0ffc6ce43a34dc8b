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

Draw draw(Random& random, std::uint64_t course) {
  Draw drawn;
  constexpr int sizes[] = {1, 3, 3, 5};
  constexpr int ticks[] = {500, 1000, 2000, 3000};
  drawn.world.seed = random.next() + course;
  drawn.world.servers = sizes[random.below(4)];
  drawn.world.tick = std::chrono::milliseconds(ticks[random.below(4)]);
  if (random.one_in(3)) drawn.world.least_session_timeout = drawn.world.tick;  // An operator has lowered it.
  drawn.world.least_latency = std::chrono::microseconds(50 + random.below(200));
  drawn.world.most_latency =
      drawn.world.least_latency + std::chrono::microseconds(random.below(random.one_in(4) ? 50'000 : 2000));
  drawn.world.schedule = random.one_in(2) ? zktesting::Schedule::priorities : zktesting::Schedule::random;
  if (random.one_in(3)) drawn.world.stall_one_in = 200 + random.below(5000);
  for (int i = 0; i < troubles; ++i) {
    if (random.one_in(2)) drawn.troubles.push_back(static_cast<Trouble>(i));
  }
  if (random.one_in(20)) drawn.troubles.clear();
  drawn.mean_calm = std::chrono::milliseconds(500 + random.below(5000));
  return drawn;
}

/// One trouble, before it comes.
struct Plan {
  int number = 0;  ///< From 1.
  Trouble kind = Trouble::kill_process;
  std::chrono::nanoseconds at{};
  std::size_t process = 0;  ///< Whom it hits, if it hits processes.
  int server = 0;           ///< The same of servers.
  std::chrono::milliseconds length{};
  bool breaks = false;              ///< Connections break at its end, or what is on its way is lost.
  std::chrono::microseconds lag{};  ///< Between the loss of replies and the end of the connections.
  double drift = 0;
};

/// Each trouble has a generator of its own, so that leaving one out does not change the others.
Random generator_of(std::uint64_t seed, int number) {
  return Random((seed ^ 0x74726F75626C6573u) * 0xD1342543DE82EF95u + static_cast<std::uint64_t>(number));
}

std::vector<Plan> plan(const Draw& drawn, std::uint64_t seed, int processes, std::chrono::nanoseconds end) {
  std::vector<Plan> all;
  if (drawn.troubles.empty()) return all;
  for (std::chrono::nanoseconds at{};;) {
    Plan next{.number = static_cast<int>(all.size()) + 1};
    Random random = generator_of(seed, next.number);
    at += std::chrono::milliseconds(1 + random.below(2 * static_cast<std::uint64_t>(drawn.mean_calm.count())));
    if (at >= end) return all;
    next.at = at;
    next.kind = drawn.troubles[random.below(drawn.troubles.size())];
    next.process = random.below(static_cast<std::uint64_t>(processes));
    next.server = static_cast<int>(random.below(static_cast<std::uint64_t>(drawn.world.servers)));
    next.length = std::chrono::milliseconds(random.one_in(2) ? random.below(2000) : random.below(15'000));
    next.breaks = random.one_in(2);
    next.lag = std::chrono::microseconds(random.below(5000));
    next.drift = (static_cast<double>(random.below(2001)) - 1000) / 1e6;
    if (next.kind == Trouble::sleep_machine) at += next.length;  // The test waits so long.
    all.push_back(next);
  }
}

bool hits_process(Trouble kind) {
  return kind != Trouble::kill_server && kind != Trouble::pause_server && kind != Trouble::isolate_server;
}

/// Makes trouble, and makes it good again.
class Director {
 public:
  Director(Simulation& world, const Draw& drawn, const ScenarioOptions& options, Outcome& outcome)
      : world_(world), drawn_(drawn), options_(options), outcome_(outcome) {}

  void start(const Workload& workload, History& history) {
    history_ = &history;
    const int processes =
        options_.processes > 0 ? std::min(options_.processes, workload.processes) : workload.processes;
    planned_ = plan(drawn_, options_.seed, workload.processes, std::chrono::seconds(options_.seconds));
    for (int i = 0; i < processes; ++i) {
      processes_.push_back(&world_.process(fmt::format("p{}", i), [this, &workload, i](SimulatedProcess& process) {
        SimulatedPlace place(world_, process, *history_, i, drawn_.world.tick);
        workload.run(place);
      }));
    }
  }
  void make_trouble() {
    for (const Plan& one : planned_) {
      run_until(one.at);
      if (happens(one)) make(one);
    }
    run_until(std::chrono::seconds(options_.seconds));
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
    history_->add({world_.now(), "--", "calm", 0, 0, ""});
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
  void tell(const std::string& what, const std::string& whom, int number) {
    history_->add({world_.now(), whom, what, 0, 0, fmt::format("#{}", number)});
  }

 private:
  bool happens(const Plan& one) const {
    const auto has = [](const auto& all, const auto& wanted) {
      return std::find(all.begin(), all.end(), wanted) != all.end();
    };
    if (hits_process(one.kind) && one.process >= processes_.size()) return false;  // There is none of that number.
    return !has(options_.without, one.kind) && !has(options_.left_out, one.number);
  }
  void make(const Plan& one) {
    outcome_.made.push_back({one.number, one.kind});
    if (hits_process(one.kind)) {
      hit(one, *processes_[one.process]);
    } else {
      hit_server(one, fmt::format("s{}", one.server));
    }
  }
  void hit(const Plan& one, SimulatedProcess& process) {
    switch (one.kind) {
      case Trouble::kill_process:
        world_.kill(process);
        tell("killed", process.name(), one.number);
        later(one.length, [this, &process] {
          if (!process.running()) world_.restart(process);
        });
        break;
      case Trouble::pause_process:
        world_.pause(process);
        tell("paused", process.name(), one.number);
        later(one.length, [this, &process, number = one.number] {
          world_.resume(process);
          tell("resumed", process.name(), number);
        });
        break;
      case Trouble::cut_off_process:
        world_.cut_off(process);
        heal_later(one, process, "cut off");
        break;
      case Trouble::lose_requests:
        world_.cut_requests(process);
        heal_later(one, process, "unheard");
        break;
      case Trouble::lose_replies:
        world_.cut_replies(process);
        heal_later(one, process, "deaf");
        break;
      case Trouble::break_connections:
        if (one.breaks) {  // What is on its way back is lost.
          world_.cut_replies(process);
          world_.run_for(one.lag);
        }
        world_.break_connections(process);
        world_.heal(process);
        tell("broken", process.name(), one.number);
        break;
      case Trouble::sleep_machine:
        tell("asleep", process.name(), one.number);
        world_.sleep_machine(process, one.length);
        tell("awake", process.name(), one.number);
        break;
      case Trouble::drift:
        world_.drift(process, one.drift);
        tell("drifts", process.name(), one.number);
        break;
      default: break;
    }
  }
  void hit_server(const Plan& one, const std::string& name) {
    switch (one.kind) {
      case Trouble::kill_server:
        world_.kill_server(one.server);
        tell("killed", name, one.number);
        later(one.length, [this, server = one.server, name, number = one.number] {
          world_.start_server(server);
          tell("started", name, number);
        });
        break;
      case Trouble::pause_server:
        world_.pause_server(one.server);
        tell("paused", name, one.number);
        later(one.length, [this, server = one.server, name, number = one.number] {
          world_.resume_server(server);
          tell("resumed", name, number);
        });
        break;
      case Trouble::isolate_server:
        world_.isolate_server(one.server);
        tell("isolated", name, one.number);
        later(one.length, [this, server = one.server, name, number = one.number] {
          world_.heal_server(server);
          tell("healed", name, number);
        });
        break;
      default: break;
    }
  }
  void heal_later(const Plan& one, SimulatedProcess& process, const char* what) {
    tell(what, process.name(), one.number);
    later(one.length, [this, &process, one] {
      if (one.breaks) world_.break_connections(process);
      world_.heal(process);
      tell("healed", process.name(), one.number);
    });
  }
  void later(std::chrono::milliseconds time, std::function<void()> act) {
    to_make_good_.emplace(world_.now() + time, std::move(act));
  }
  void run_for(std::chrono::nanoseconds time) { run_until(world_.now() + time); }
  /// Makes good meanwhile what is due.
  void run_until(std::chrono::nanoseconds end) {
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
  Outcome& outcome_;
  std::vector<Plan> planned_;
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
  Draw drawn = draw(random, options.course);
  Outcome outcome;
  outcome.world = describe(drawn);
  History history;  // Outlives the world's threads.
  std::vector<Entry> story;
  const Simulation* existing = nullptr;
  if (options.with_servers) {
    drawn.world.tell = [&](int server, const std::string& what) {
      if (existing != nullptr) story.push_back({existing->now(), fmt::format("s{}", server), what, 0, 0, ""});
    };
  }
  {
    Simulation world(drawn.world);
    existing = &world;
    Director director(world, drawn, options, outcome);
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
    existing = nullptr;
  }
  for (const std::string& fault : workload.check(history))
    outcome.faults.push_back(fault);
  for (const Entry& entry : history.entries()) {
    story.push_back(entry);
    if (entry.what == "left behind") outcome.faults.push_back("left behind at the end: " + entry.text);
  }
  std::stable_sort(story.begin(), story.end(), [](const Entry& one, const Entry& other) { return one.at < other.at; });
  for (const Entry& entry : story)
    outcome.story.push_back(to_string(entry));
  return outcome;
}

}  // namespace storm
