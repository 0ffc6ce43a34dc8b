#include "storm/simulated/scenario.hpp"

#include <algorithm>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <utility>

#include <fmt/format.h>
#include <zktesting/ensemble.hpp>
#include <zktesting/simulation.hpp>

#include "storm/simulated/draw.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;
using zktesting::SimulatedProcess;
using zktesting::Simulation;

class SimulatedPlace : public Place {
 public:
  /// `noted` is called before what was written down is done.
  /// `habits` may change.
  SimulatedPlace(Simulation& world, SimulatedProcess& process, History& history, int number, const WorldDraw& drawn,
                 const Habits& habits, std::function<void(const std::string& what)> noted)
      : world_(world),
        process_(process),
        history_(history),
        number_(number),
        drawn_(drawn),
        habits_(habits),
        noted_(std::move(noted)) {}

  [[nodiscard]] const std::string& name() const override { return process_.name(); }
  [[nodiscard]] int number() const override { return number_; }
  [[nodiscard]] const std::string& servers() const override { return process_.servers(); }
  [[nodiscard]] std::chrono::milliseconds tick() const override { return drawn_.world.tick; }
  [[nodiscard]] std::stop_token stop() const override { return process_.stop_token(); }
  [[nodiscard]] Nanos now() const override { return world_.now(); }
  std::uint64_t below(std::uint64_t end) override { return world_.random_below(end); }
  [[nodiscard]] const Habits& habits() const override { return habits_; }
  History& history() override { return history_; }
  void note_at(Nanos at, std::string what, std::int64_t a, std::int64_t b, std::string text) override {
    if (noted_) noted_(what);
    Place::note_at(at, std::move(what), a, b, std::move(text));
  }

 private:
  Simulation& world_;
  SimulatedProcess& process_;
  History& history_;
  const int number_;
  const WorldDraw& drawn_;
  const Habits& habits_;
  const std::function<void(const std::string& what)> noted_;
};

/// Makes trouble, and makes it good again.
class Director {
 public:
  Director(Simulation& world, const WorldDraw& drawn, const ScenarioOptions& options, Outcome& outcome)
      : world_(world), drawn_(drawn), habits_(drawn.habits), options_(options), outcome_(outcome) {}

  void start(const Workload& workload, History& history) {
    history_ = &history;
    const int processes =
        options_.processes > 0 ? std::min(options_.processes, workload.processes) : workload.processes;
    planned_ = plan(drawn_, options_.seed, workload.processes, troubled());
    for (int i = 0; i < processes; ++i) {
      processes_.push_back(&world_.process(fmt::format("p{}", i), [this, &workload, i](SimulatedProcess& process) {
        SimulatedPlace place(
            world_, process, *history_, i, drawn_, habits_,
            [this, &process, i](const std::string& what) { on_step(process, static_cast<std::size_t>(i), what); });
        workload.run(place);
      }));
    }
  }
  void make_trouble() {
    for (std::size_t i = 0; i < planned_.size(); ++i) {
      run_until(planned_[i].at);
      next_ = i + 1 < planned_.size() ? planned_[i + 1].at : troubled();
      if (happens(planned_[i])) make(planned_[i]);
    }
    run_until(troubled());
    while (!to_make_good_.empty())
      run_until(to_make_good_.begin()->first);
  }
  void calm() {
    for (SimulatedProcess* process : processes_) {
      world_.resume(*process);
      world_.heal(*process);
      if (!process->running()) world_.restart(*process);
    }
    for (int server = 0; server < drawn_.world.servers; ++server) {
      world_.heal_server(server);
      world_.heal_disk(server);
      world_.resume_server(server);
      world_.start_server(server);
    }
    history_->add({world_.now(), "--", "calm", 0, 0, ""});
    habits_.pause_quarters = std::max<std::uint64_t>(habits_.pause_quarters, 12);  // Haste finds nothing any more.
    // No lease lives on less, so nothing would go on.
    habits_.least_session = std::max(habits_.least_session, drawn_.world.tick);
  }
  /// A server that was elected, and whose follower has left it again, waits for others for as long as initLimit says, as a
  /// real one does; there may be two such pairs of five. And one that has promised a greater epoch than the leader's follows
  /// none before the next election. What has stalled, a disk say, is not made good by the calm, either. False: no majority
  /// serves.
  bool wait_for_servers() {
    const auto serving = [&] {
      int count = 0;
      for (int server = 0; server < drawn_.world.servers; ++server)
        count += world_.serves(server) ? 1 : 0;
      return count;
    };
    const Nanos patience = 20s + 2 * drawn_.world.init_limit * drawn_.world.tick;
    if (world_.run_until([&] { return serving() == drawn_.world.servers; }, patience, 100ms)) return true;
    return serving() > drawn_.world.servers / 2;
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

 private:
  /// What lasts for a while, by whom it has hit: ended by the last one that ends.
  enum class Lasting : std::uint8_t { pause, cut, server_down, server_pause, isolation, disk };

  [[nodiscard]] Nanos troubled() const {
    return options_.seconds > 0 ? std::chrono::seconds(options_.seconds) : drawn_.troubled;
  }
  [[nodiscard]] bool happens(const Plan& one) const {
    const auto has = [](const auto& all, const auto& wanted) {
      return std::find(all.begin(), all.end(), wanted) != all.end();
    };
    if (hits_process(one.kind) && one.process >= processes_.size()) return false;  // There is none of that number.
    const bool hits_link = one.kind == Trouble::cut_link || one.kind == Trouble::slow_peer_link;
    if (hits_link && one.to_other == 0) return false;
    return !has(options_.without, one.kind) && !has(options_.left_out, one.number);
  }
  void make(const Plan& one) {
    outcome_.made.push_back({one.number, one.kind});
    if (hits_process(one.kind)) {
      SimulatedProcess& process = *processes_[process_for(one)];
      if (one.at_a_step) wait_for_step(one, process);
      hit(one, process);
    } else {
      last_server_ = one.kind == Trouble::strand_server ? wait_for_lease(one) : server_for(one);
      last_process_.reset();
      hit_server(one, *last_server_);
    }
  }
  void hit(const Plan& one, SimulatedProcess& process) {
    switch (one.kind) {
      case Trouble::kill_process:
        world_.kill(process);
        tell(one, "killed", process.name());
        later(one.length, [this, &process] {
          if (!process.running()) world_.restart(process);
        });
        break;
      case Trouble::pause_process:
        world_.pause(process);
        tell(one, "paused", process.name());
        while_it_lasts(one, Lasting::pause, process.name(), "resumed", [this, &process] { world_.resume(process); });
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
          run_until(std::min<Nanos>(world_.now() + one.lag, next_));
        }
        world_.break_connections(process);
        if (!lasts(Lasting::cut, process.name())) world_.heal(process);
        tell(one, "broken", process.name());
        break;
      case Trouble::sleep_machine:
        tell(one, "asleep", process.name());
        world_.sleep_machine(process, one.length);
        tell(one, "awake", process.name());
        break;
      case Trouble::drift:
        world_.drift(process, one.drift);
        tell(one, "drifts", process.name());
        break;
      case Trouble::slow_link:
        world_.slow_link(process, one.slowness / 4, one.slowness);
        heal_later(one, process, "slow link");
        break;
      case Trouble::stall_connections:
        world_.stall_connections(process, one.length);
        tell(one, "stalled", process.name());
        break;
      default: break;
    }
  }
  void hit_server(const Plan& one, int server) {
    const std::string name = fmt::format("s{}", server);
    switch (one.kind) {
      case Trouble::kill_server:
        world_.kill_server(server, one.crash);
        tell(one, "killed", name);
        while_it_lasts(one, Lasting::server_down, name, "started", [this, server] { world_.start_server(server); });
        break;
      case Trouble::pause_server:
        world_.pause_server(server);
        tell(one, "paused", name);
        while_it_lasts(one, Lasting::server_pause, name, "resumed", [this, server] { world_.resume_server(server); });
        break;
      case Trouble::isolate_server:
        world_.isolate_server(server);
        tell(one, "isolated", name);
        while_it_lasts(one, Lasting::isolation, name, "healed", [this, server] { world_.heal_server(server); });
        break;
      case Trouble::cut_link:
      case Trouble::slow_peer_link: hit_link(one, server, name); break;
      case Trouble::strand_server: strand(one, server, name); break;
      default: hit_disk(one, server, name);
    }
  }
  void hit_link(const Plan& one, int server, const std::string& name) {
    const int other = (server + one.to_other) % drawn_.world.servers;
    const bool cut = one.kind == Trouble::cut_link;
    if (cut)
      world_.cut_link(server, other);
    else
      world_.slow_link(server, other, one.slowness / 4, one.slowness);
    tell(one, fmt::format("{} s{}", cut ? "unheard by" : "slow link to", other), name);
    while_it_lasts(one, Lasting::isolation, name, "healed", [this, server] { world_.heal_server(server); });
  }
  void strand(const Plan& one, int server, const std::string& name) {
    constexpr auto until_all_is_heard = 10ms;
    world_.isolate_server(server, zktesting::Isolation::deaf);
    tell(one, "deaf", name);
    const auto while_it_is_stranded = [this, server, name](zktesting::Isolation how) {
      return [this, server, name, how] {
        if (lasts(Lasting::isolation, name)) world_.isolate_server(server, how);
      };
    };
    later(one.deaf, while_it_is_stranded(zktesting::Isolation::mute));
    later(one.deaf + until_all_is_heard, while_it_is_stranded(zktesting::Isolation::freeze));
    while_it_lasts(one, Lasting::isolation, name, "healed", [this, server] { world_.heal_server(server); });
  }
  void hit_disk(const Plan& one, int server, const std::string& name) {
    switch (one.kind) {
      case Trouble::slow_disk:
        world_.slow_disk(server, one.slowness / 2);
        heal_disk_later(one, server, name, "slow disk");
        break;
      case Trouble::stall_disk:
        world_.stall_disk(server, one.length);
        tell(one, "stalled disk", name);
        break;
      case Trouble::refuse_fsync:
        world_.refuse_fsync(server);
        heal_disk_later(one, server, name, "refusing disk");
        break;
      case Trouble::wipe_disk:
        if (!world_.may_wipe(server)) return;
        world_.wipe_server(server);
        tell(one, "wiped", name);
        while_it_lasts(one, Lasting::server_down, name, "started", [this, server] { world_.start_server(server); });
        break;
      default: break;
    }
  }
  void heal_disk_later(const Plan& one, int server, const std::string& name, const char* what) {
    tell(one, what, name);
    while_it_lasts(one, Lasting::disk, name, "healed disk", [this, server, name] {
      world_.heal_disk(server);
      // A single one has ended.
      if (!lasts(Lasting::server_down, name)) world_.start_server(server);
    });
  }
  void heal_later(const Plan& one, SimulatedProcess& process, const char* what) {
    tell(one, what, process.name());
    while_it_lasts(one, Lasting::cut, process.name(), "healed", [this, &process, breaks = one.breaks] {
      if (breaks) world_.break_connections(process);
      world_.heal(process);
    });
  }

  // --- Whom it hits ---
  std::size_t process_for(const Plan& one) {
    const std::size_t chosen = aimed_process(one).value_or(one.process);
    last_process_ = chosen;
    last_server_.reset();
    return chosen;
  }
  [[nodiscard]] std::optional<std::size_t> aimed_process(const Plan& one) {
    switch (one.aim) {
      case Aim::anybody: break;
      case Aim::same: return last_process_ ? last_process_ : last_server_ ? client_of(*last_server_) : std::nullopt;
      case Aim::holder: return holder();
      case Aim::leader: return client_of(world_.leader());
    }
    return std::nullopt;
  }
  [[nodiscard]] int server_for(const Plan& one) {
    int chosen = -1;
    switch (one.aim) {
      case Aim::anybody: break;
      case Aim::same: chosen = last_server_ ? *last_server_ : last_process_ ? server_of(*last_process_) : -1; break;
      case Aim::holder:
        if (const auto process = holder()) chosen = server_of(*process);
        break;
      case Aim::leader: chosen = world_.leader(); break;
    }
    return chosen < 0 ? one.server : chosen;
  }
  [[nodiscard]] int server_of(std::size_t process) const { return world_.server_of(*processes_[process]); }
  [[nodiscard]] std::optional<std::size_t> client_of(int server) const {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (server >= 0 && server_of(i) == server) return i;
    }
    return std::nullopt;
  }
  /// As far as the history tells.
  [[nodiscard]] std::optional<std::size_t> holder() const {
    const auto& entries = history_->entries();
    const auto granted =
        std::find_if(entries.rbegin(), entries.rend(), [](const Entry& entry) { return entry.what == "acquired"; });
    if (granted == entries.rend()) return std::nullopt;
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (processes_[i]->name() == granted->who) return i;
    }
    return std::nullopt;
  }

  // --- When it hits ---
  void wait_for_step(const Plan& one, SimulatedProcess& process) {
    step_ = Step{&process, one.kind};
    const Nanos end = std::min<Nanos>(world_.now() + 500ms, next_);  // No other trouble is late for this one.
    while (step_->process != nullptr && world_.now() < end)
      run_until(std::min<Nanos>(world_.now() + 200us + one.lag / 10, end));
    step_.reset();
  }
  /// In a thread of that process, which goes on when this has returned.
  void on_step(SimulatedProcess& process, std::size_t number, const std::string& what) {
    if (what == "valid") return;
    note_holding(number, what);
    if (!step_ || step_->process != &process) return;
    step_->process = nullptr;
    const bool deaf = step_->kind == Trouble::lose_replies || step_->kind == Trouble::break_connections;
    if (deaf || step_->kind == Trouble::cut_off_process) world_.cut_replies(process);
    if (step_->kind == Trouble::lose_requests || step_->kind == Trouble::cut_off_process) world_.cut_requests(process);
  }
  void note_holding(std::size_t process, const std::string& what) {
    if (what == "acquired") {
      holding_ = Holding{process, world_.now()};
    } else if (holding_ && holding_->process == process && (what == "lost" || what == "releasing")) {
      holding_.reset();
    }
  }
  /// Until a lease has been held for a while behind a follower, so that the next holder may be elsewhere. Returns that one.
  int wait_for_lease(const Plan& one) {
    const Nanos end = std::min<Nanos>(world_.now() + 6s, next_);
    while (world_.now() < end) {
      const int server = holding_ ? server_of(holding_->process) : -1;
      const bool has_held = holding_ && world_.now() - holding_->since > drawn_.world.tick / 2;
      if (has_held && server >= 0 && server != world_.leader() && serves_others_than(server)) return server;
      run_until(std::min<Nanos>(world_.now() + 1ms + one.lag, end));
    }
    return server_for(one);
  }
  [[nodiscard]] bool serves_others_than(int server) const {
    for (std::size_t i = 0; i < processes_.size(); ++i) {
      if (const int its = server_of(i); its >= 0 && its != server) return true;
    }
    return false;
  }

  // --- How it ends ---
  [[nodiscard]] bool lasts(Lasting what, const std::string& whom) const { return lasting_.contains({what, whom}); }
  void while_it_lasts(const Plan& one, Lasting what, const std::string& whom, const char* word,
                      std::function<void()> end) {
    ++lasting_[{what, whom}];
    later(one.length, [this, one, what, whom, word, end = std::move(end)] {
      const auto found = lasting_.find({what, whom});
      if (--found->second > 0) return;  // Another one of the kind has come meanwhile.
      lasting_.erase(found);
      end();
      tell(one, word, whom);
    });
  }
  void later(std::chrono::milliseconds time, std::function<void()> act) {
    to_make_good_.emplace(world_.now() + time, std::move(act));
  }
  /// Makes good meanwhile what is due.
  void run_until(Nanos end) {
    while (!to_make_good_.empty() && to_make_good_.begin()->first <= end) {
      const auto due = to_make_good_.extract(to_make_good_.begin());
      if (due.key() > world_.now()) world_.run_for(due.key() - world_.now());
      due.mapped()();
    }
    if (end > world_.now()) world_.run_for(end - world_.now());
  }
  void tell(const Plan& one, const std::string& what, const std::string& whom) {
    history_->add({world_.now(), whom, what, 0, 0, fmt::format("#{}", one.number)});
  }

  struct Step {
    SimulatedProcess* process = nullptr;  ///< nullptr: it has come.
    Trouble kind = Trouble::kill_process;
  };
  /// As far as the notes tell.
  struct Holding {
    std::size_t process = 0;
    Nanos since{};
  };

  Simulation& world_;
  const WorldDraw& drawn_;
  Habits habits_;
  const ScenarioOptions& options_;
  Outcome& outcome_;
  std::vector<Plan> planned_;
  History* history_ = nullptr;
  std::vector<SimulatedProcess*> processes_;
  std::optional<std::size_t> last_process_;  // Whom the last trouble has hit.
  std::optional<int> last_server_;
  std::optional<Step> step_;  // What a trouble waits for.
  std::optional<Holding> holding_;
  Nanos next_{};  // When the next one comes.
  std::map<std::pair<Lasting, std::string>, int> lasting_;
  std::multimap<Nanos, std::function<void()>> to_make_good_;
};

/// There is nothing that must go on, and has not gone on yet.
bool has_gone_on(const Workload& workload, const History& history) {
  const Faults faults = workload.check(history);
  return std::none_of(faults.begin(), faults.end(),
                      [](const std::string& fault) { return fault.starts_with("after the last fault nobody"); });
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
    case Trouble::slow_link: return "slow-link";
    case Trouble::stall_connections: return "stall-connections";
    case Trouble::cut_link: return "cut-link";
    case Trouble::slow_peer_link: return "slow-peer-link";
    case Trouble::slow_disk: return "slow-disk";
    case Trouble::stall_disk: return "stall-disk";
    case Trouble::refuse_fsync: return "refuse-fsync";
    case Trouble::wipe_disk: return "wipe-disk";
    case Trouble::strand_server: return "strand-server";
  }
  return "?";
}

int drawn_seconds(std::uint64_t seed) { return static_cast<int>(draw(seed).troubled.count()); }

Outcome run_scenario(const Workload& workload, const ScenarioOptions& options) {
  return run_drawn_scenario(workload, options, draw(options.seed));
}

Outcome run_drawn_scenario(const Workload& workload, const ScenarioOptions& options, WorldDraw drawn) {
  drawn.world.seed += options.course;
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
    if (!director.wait_for_servers()) outcome.faults.push_back("after the last fault the servers do not find together");
    world.run_for(20s);
    if (!has_gone_on(workload, history)) world.run_for(60s);
    if (!director.stop()) outcome.faults.push_back("the processes do not come to an end");
    bool looked = false;
    world.process("end", [&](SimulatedProcess& process) {
      SimulatedPlace place(world, process, history, -1, drawn, drawn.habits, nullptr);
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
