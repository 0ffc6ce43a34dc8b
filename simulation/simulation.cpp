#include <zktesting/simulation.hpp>

#include <arpa/inet.h>

#include <map>
#include <set>
#include <utility>

#include <zktesting/ensemble.hpp>
#include <zktesting/error.hpp>

#include "simulation/kernel/descriptors.hpp"
#include "simulation/kernel/kernel.hpp"
#include "simulation/seam/anchors.hpp"
#include "simulation/servers/ensemble.hpp"

namespace zktesting {

namespace sim = simulated;

namespace {

constexpr std::uint16_t client_port = 2181;
constexpr sim::Host the_test = 0;
constexpr sim::Host first_client = 100;  // Servers are hosts 1, 2, ...

std::string address_of(int server) { return "10.0.0." + std::to_string(server + 1); }

sim::ScheduleOptions schedule_of(const SimulationOptions& options, sim::Random& random) {
  sim::ScheduleOptions schedule;
  schedule.preempt_one_in = 1 + random.below(16);
  if (options.schedule == Schedule::priorities) schedule.change_points = static_cast<int>(1 + random.below(6));
  schedule.stall_one_in = options.stall_one_in;
  schedule.longest_stall = options.longest_stall;
  return schedule;
}

sim::EnsembleOptions ensemble_of(const SimulationOptions& options) {
  sim::EnsembleOptions ensemble;
  ensemble.servers = options.servers;
  ensemble.tick = options.tick.count();
  ensemble.min_session_timeout = options.least_session_timeout.count();
  if (options.tell) {
    ensemble.tell = [tell = options.tell](sim::Host host, const std::string& what) { tell(host - 1, what); };
  }
  ensemble.max_session_timeout = options.most_session_timeout.count();
  ensemble.container_check = options.container_check_interval.count();
  ensemble.init_limit = options.init_limit;
  ensemble.sync_limit = options.sync_limit;
  return ensemble;
}

}  // namespace

// --- SimulatedProcess ----------------------------------------------------------------------------

struct SimulatedProcess::Impl {
  sim::Kernel& kernel;
  std::string name;
  std::string servers;
  std::function<void(SimulatedProcess&)> main;
  sim::Host host = 0;
  sim::ClientProcess* process = nullptr;
  std::stop_source stop;
};

SimulatedProcess::SimulatedProcess(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
SimulatedProcess::~SimulatedProcess() = default;

const std::string& SimulatedProcess::name() const { return impl_->name; }
const std::string& SimulatedProcess::servers() const { return impl_->servers; }
std::stop_token SimulatedProcess::stop_token() const { return impl_->stop.get_token(); }
bool SimulatedProcess::running() const { return impl_->kernel.runs(*impl_->process); }

// --- Simulation ----------------------------------------------------------------------------------

struct Simulation::Impl {
  explicit Impl(const SimulationOptions& chosen)
      : options(chosen),
        seeds(chosen.seed),
        schedule(schedule_of(chosen, seeds)),
        kernel(seeds.next(), schedule),
        ensemble(kernel.events(), kernel.network(), ensemble_of(chosen)) {
    kernel.network().set_usual_latency({chosen.least_latency, chosen.most_latency});
    for (int server = 0; server < options.servers; ++server)
      kernel.descriptors().listen(::inet_addr(address_of(server).c_str()), htons(client_port), listener(server));
  }
  ~Impl() {
    kernel.end();  // Its events know the ensemble.
    for (SimulatedProcess* process : processes)
      delete process;
  }

  sim::Listener listener(int server) {
    return {.host = server + 1, .accept = [this, server](sim::AnswerTo answer) -> sim::RemoteEnd {
              sim::Output output{std::move(answer.bytes), std::move(answer.close)};
              const auto number = static_cast<std::size_t>(answer.from - first_client);
              if (number < processes.size()) output.client = processes[number]->name();
              const auto side = ensemble.accept(server + 1, std::move(output));
              if (!side) return {};
              return {.receive = [side](std::string_view bytes) { side->receive(bytes); },
                      .closed = [side] { side->closed(); }};
            }};
  }
  void start(SimulatedProcess& process) {
    process.impl_->stop = std::stop_source();
    process.impl_->process = &kernel.add_process(process.impl_->name, process.impl_->host);
    kernel.start_thread(*process.impl_->process, [&process]() -> void* {
      process.impl_->main(process);
      return nullptr;
    });
  }
  /// As the ensemble counts.
  [[nodiscard]] sim::Host host_of(int server) const {
    if (server < 0 || server >= options.servers)
      throw Error("simulation: there is no server " + std::to_string(server));
    return server + 1;
  }
  template <typename Act>
  void for_each_client(Act act) {
    act(the_test);
    for (std::size_t i = 0; i < processes.size(); ++i)
      act(first_client + static_cast<sim::Host>(i));
  }
  template <typename Act>
  void for_each_server(Act act) {
    for (int server = 0; server < options.servers; ++server)
      act(server + 1);
  }

  [[nodiscard]] std::pair<sim::Host, sim::Host> link_of(int from, int to) const {
    if (from == to) throw Error("simulation: a server has no link with itself");
    return {host_of(from), host_of(to)};
  }
  /// Both directions.
  void mend(sim::Host one, sim::Host other) {
    const sim::InsideKernel inside;
    for (const auto& [from, to] : {std::pair(one, other), std::pair(other, one)}) {
      kernel.network().mend(from, to);
      kernel.network().forget_latency(from, to);
    }
  }
  template <typename Act>
  void for_each_other(sim::Host own, Act act) {
    for_each_server([&](sim::Host other) {
      if (other != own) act(other);
    });
  }

  const SimulationOptions options;
  sim::Random seeds;
  // Drawn before the kernel's seed: of two arguments each compiler begins with another one.
  sim::ScheduleOptions schedule;
  sim::Kernel kernel;
  sim::Ensemble ensemble;
  std::vector<SimulatedProcess*> processes;
  std::map<sim::Host, std::set<sim::Host>> silent_for;  // Servers, and the clients that silence_server() cut off.
};

namespace {

SimulationOptions checked(SimulationOptions options) {
  if (sim::Kernel::instance() != nullptr) throw Error("simulation: there is a Simulation already in this process");
  if (options.servers != 1 && options.servers != 3 && options.servers != 5)
    throw Error("simulation: servers must be 1, 3 or 5");
  if (options.tick.count() <= 0 || options.longest_stall.count() <= 0 || options.least_latency.count() < 0)
    throw Error("simulation: tick and longest_stall must be positive, latencies not negative");
  if (options.container_check_interval.count() <= 0 || options.init_limit <= 0 || options.sync_limit <= 0)
    throw Error("simulation: container_check_interval, init_limit and sync_limit must be positive");
  sim::use_seam();
  sim::expect_seam_to_be_seen();
  return options;
}

void check_time(std::chrono::nanoseconds time) {
  if (time.count() < 0) throw Error("simulation: a time must not be negative");
}

sim::Latency checked_latency(std::chrono::nanoseconds least, std::chrono::nanoseconds most) {
  check_time(least);
  if (most < least) throw Error("simulation: the greatest latency must not be below the least one");
  return {least, most};
}

sim::Loss loss_of(Crash crash) {
  switch (crash) {
    case Crash::power: return sim::Loss::all;
    case Crash::torn: return sim::Loss::last_one;
    case Crash::process: return sim::Loss::none;
    case Crash::any: break;
  }
  return sim::Loss::any;
}

}  // namespace

Simulation::Simulation(SimulationOptions options) : impl_(std::make_unique<Impl>(checked(options))) {}
Simulation::~Simulation() = default;

SimulatedProcess& Simulation::process(std::string name, std::function<void(SimulatedProcess&)> main) {
  std::string servers;
  impl_->for_each_server([&](sim::Host host) {
    servers += (servers.empty() ? "" : ",") + address_of(host - 1) + ":" + std::to_string(client_port);
  });
  auto made = std::make_unique<SimulatedProcess::Impl>(
      SimulatedProcess::Impl{.kernel = impl_->kernel,
                             .name = std::move(name),
                             .servers = std::move(servers),
                             .main = std::move(main),
                             .host = first_client + static_cast<sim::Host>(impl_->processes.size()),
                             .process = nullptr,
                             .stop = std::stop_source()});
  impl_->processes.push_back(new SimulatedProcess(std::move(made)));
  SimulatedProcess& process = *impl_->processes.back();
  impl_->start(process);
  return process;
}

std::chrono::nanoseconds Simulation::now() const { return impl_->kernel.events().now(); }

void Simulation::run_for(std::chrono::nanoseconds time) { impl_->kernel.block(nullptr, now() + time); }

bool Simulation::run_until(const std::function<bool()>& condition, std::chrono::nanoseconds limit,
                           std::chrono::nanoseconds look) {
  const auto end = now() + limit;
  while (!condition()) {
    if (now() >= end) return false;
    run_for(look);
  }
  return true;
}

void Simulation::kill(SimulatedProcess& process) { impl_->kernel.kill(*process.impl_->process); }
void Simulation::pause(SimulatedProcess& process) { sim::Kernel::pause(*process.impl_->process); }
void Simulation::resume(SimulatedProcess& process) { sim::Kernel::resume(*process.impl_->process); }
void Simulation::restart(SimulatedProcess& process) {
  kill(process);
  impl_->start(process);
}
void Simulation::stop(SimulatedProcess& process) { process.impl_->stop.request_stop(); }
void Simulation::sleep_machine(SimulatedProcess& process, std::chrono::nanoseconds time) {
  sim::ClientProcess& sleeper = *process.impl_->process;
  const bool was_paused = std::exchange(sleeper.paused, true);
  impl_->kernel.delay_timers(sleeper, time);
  run_for(time);
  impl_->kernel.clock_of(process.impl_->host).asleep += time;
  sleeper.paused = was_paused;
}
void Simulation::drift(SimulatedProcess& process, double share) { impl_->kernel.set_drift(process.impl_->host, share); }

void Simulation::break_connections(SimulatedProcess& process) {
  const sim::InsideKernel inside;
  impl_->for_each_server([&](sim::Host server) { impl_->kernel.descriptors().reset(process.impl_->host, server); });
}
void Simulation::cut_off(SimulatedProcess& process) {
  cut_requests(process);
  cut_replies(process);
}
void Simulation::cut_requests(SimulatedProcess& process) {
  impl_->for_each_server([&](sim::Host server) { impl_->kernel.network().cut(process.impl_->host, server); });
}
void Simulation::cut_replies(SimulatedProcess& process) {
  impl_->for_each_server([&](sim::Host server) { impl_->kernel.network().cut(server, process.impl_->host); });
}
void Simulation::slow_link(SimulatedProcess& process, std::chrono::nanoseconds least, std::chrono::nanoseconds most) {
  const sim::Latency latency = checked_latency(least, most);
  impl_->for_each_server([&](sim::Host server) {
    impl_->kernel.network().set_latency(process.impl_->host, server, latency);
    impl_->kernel.network().set_latency(server, process.impl_->host, latency);
  });
}
void Simulation::stall_connections(SimulatedProcess& process, std::chrono::nanoseconds time) {
  check_time(time);
  impl_->for_each_server([&](sim::Host server) {
    impl_->kernel.network().stall(process.impl_->host, server, now() + time);
    impl_->kernel.network().stall(server, process.impl_->host, now() + time);
  });
}
void Simulation::heal(SimulatedProcess& process) {
  impl_->for_each_server([&](sim::Host server) { impl_->mend(process.impl_->host, server); });
}

void Simulation::kill_server(int server, Crash crash) {
  const sim::Host host = impl_->host_of(server);
  const sim::InsideKernel inside;
  impl_->ensemble.kill(host, loss_of(crash));
}
void Simulation::start_server(int server) {
  const sim::Host host = impl_->host_of(server);
  const sim::InsideKernel inside;
  impl_->ensemble.start(host);
}
void Simulation::pause_server(int server) {
  const sim::Host host = impl_->host_of(server);
  const sim::InsideKernel inside;
  impl_->ensemble.pause(host);
}
void Simulation::resume_server(int server) {
  const sim::Host host = impl_->host_of(server);
  const sim::InsideKernel inside;
  impl_->ensemble.resume(host);
}
void Simulation::isolate_server(int server) { isolate_server(server, Isolation::freeze); }
void Simulation::isolate_server(int server, Isolation how) {
  const sim::Host own = impl_->host_of(server);
  heal_server(server);
  const sim::InsideKernel inside;
  impl_->for_each_other(own, [&](sim::Host other) {
    if (how != Isolation::deaf) impl_->kernel.network().cut(own, other);
    if (how != Isolation::mute) impl_->kernel.network().cut(other, own);
    if (how == Isolation::sever) impl_->ensemble.break_connections(own, other);
  });
}
void Simulation::cut_link(int from, int to) {
  const auto [speaker, hearer] = impl_->link_of(from, to);
  impl_->kernel.network().cut(speaker, hearer);
}
void Simulation::slow_link(int from, int to, std::chrono::nanoseconds least, std::chrono::nanoseconds most) {
  const auto [speaker, hearer] = impl_->link_of(from, to);
  impl_->kernel.network().set_latency(speaker, hearer, checked_latency(least, most));
}
void Simulation::heal_server(int server) {
  const sim::Host own = impl_->host_of(server);
  impl_->for_each_other(own, [&](sim::Host other) { impl_->mend(own, other); });
  for (const sim::Host client : std::exchange(impl_->silent_for[own], {})) {
    const sim::InsideKernel inside;
    impl_->kernel.network().mend(own, client);
    impl_->kernel.network().mend(client, own);
  }
}

void Simulation::name_servers(const std::string& name, const std::vector<int>& servers,
                              std::chrono::nanoseconds takes) {
  std::vector<std::uint32_t> addresses;
  for (const int server : servers)
    addresses.push_back(::inet_addr(address_of(server).c_str()));
  impl_->kernel.descriptors().set_name(name, std::move(addresses), takes);
}
void Simulation::silence_server(int server) {
  const sim::Host own = impl_->host_of(server);
  isolate_server(server);
  impl_->for_each_client([&](sim::Host client) {
    impl_->silent_for[own].insert(client);
    impl_->kernel.network().cut(own, client);
    impl_->kernel.network().cut(client, own);
  });
}
bool Simulation::serves(int server) const { return impl_->ensemble.serving(impl_->host_of(server)); }

void Simulation::slow_disk(int server, std::chrono::nanoseconds mean) {
  check_time(mean);
  impl_->ensemble.set_fsync_latency(impl_->host_of(server), {mean / 2, mean + mean / 2});
}
void Simulation::stall_disk(int server, std::chrono::nanoseconds time) {
  check_time(time);
  impl_->ensemble.stall_disk(impl_->host_of(server), now() + time);
}
void Simulation::refuse_fsync(int server) { impl_->ensemble.set_fsync_refused(impl_->host_of(server), true); }
void Simulation::heal_disk(int server) {
  const sim::Host host = impl_->host_of(server);
  impl_->ensemble.set_fsync_latency(host, impl_->ensemble.options().fsync);
  impl_->ensemble.set_fsync_refused(host, false);
}
void Simulation::wipe_server(int server) {
  const sim::Host host = impl_->host_of(server);
  const sim::InsideKernel inside;
  impl_->ensemble.wipe(host);
}
bool Simulation::may_wipe(int server) const { return impl_->ensemble.expendable(impl_->host_of(server)); }
int Simulation::leader() const { return impl_->ensemble.leader().value_or(0) - 1; }
int Simulation::server_of(const SimulatedProcess& process) const {
  for (int server = 0; server < impl_->options.servers; ++server) {
    if (impl_->kernel.descriptors().is_connected(process.impl_->host, server + 1)) return server;
  }
  return -1;
}

std::uint64_t Simulation::random_below(std::uint64_t end) { return impl_->kernel.random().below(end); }
std::uint64_t Simulation::trace() const { return impl_->kernel.trace_hash(); }
std::uint64_t Simulation::turns() const { return impl_->kernel.turns(); }

}  // namespace zktesting
