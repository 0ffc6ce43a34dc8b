#include "storm/workloads/commits.hpp"

#include <functional>
#include <map>
#include <mutex>
#include <stdexcept>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <zkrecipes/participant_log.hpp>
#include <zkrecipes/primary.hpp>
#include <zkrecipes/two_phase_commit.hpp>

#include "storm/checkers/agreements.hpp"
#include "storm/checkers/interventions.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* commits_path = "/commits";
constexpr std::uint64_t committers = 3;

// --- The participants' disks ---------------------------------------------------------------------

struct Record {
  zkrecipes::LogEntry entry{};
  std::string id;
  std::string data;
};

/// What is left of a process that was killed.
struct Disk {
  int made = 0;  ///< So many times: one that was lost is another one.
  std::vector<Record> records;
};

/// One for each participant of a history. It is read and written by the process that lives.
Disk& disk_of(Place& place) {
  static std::mutex mutex;
  static std::map<std::pair<const History*, std::string>, Disk> disks;
  const std::lock_guard lock(mutex);
  return disks[{&place.history(), place.name()}];
}

/// A log on such a disk. What is not synced is lost with the process, or is not.
class DiskLog final : public zkrecipes::ParticipantLog {
 public:
  explicit DiskLog(Place& place) : place_(place), disk_(disk_of(place)) {}

  std::string identity() const override { return fmt::format("disk-{}-of-{}", disk_.made, place_.name()); }
  std::vector<zkrecipes::LoggedTransaction> open() const override {
    std::vector<zkrecipes::LoggedTransaction> all;
    for (const std::vector<Record>* part : {&std::as_const(disk_.records), &waiting_}) {
      for (const Record& record : *part)
        apply(all, record);
    }
    return all;
  }
  void append(zkrecipes::LogEntry entry, std::string_view transaction, std::string_view data) override {
    waiting_.push_back({entry, std::string(transaction), std::string(data)});
    if (place_.below(3) == 0) write();
  }
  void sync() override {
    place_.pause(10);
    write();
    place_.pause(10);
  }

 private:
  static void apply(std::vector<zkrecipes::LoggedTransaction>& all, const Record& record) {
    auto found = all.begin();
    while (found != all.end() && found->id != record.id)
      ++found;
    if (found == all.end()) found = all.insert(all.end(), {record.id, zkrecipes::LogState::none, record.data});
    const auto next = zkrecipes::advance(found->state, record.entry);
    if (!next) throw std::logic_error("illegal entry " + std::string(zkrecipes::to_string(record.entry)));
    found->state = *next;
    if (*next == zkrecipes::LogState::none) all.erase(found);
  }
  void write() {
    disk_.records.insert(disk_.records.end(), waiting_.begin(), waiting_.end());
    waiting_.clear();
  }

  Place& place_;
  Disk& disk_;
  std::vector<Record> waiting_;  // In memory only.
};

// --- The participants ----------------------------------------------------------------------------

/// The same each time that it is asked.
bool votes_for(const std::string& participant, const std::string& payload) {
  return std::hash<std::string>()(participant + payload) % 8 != 0;
}

std::string name_of(const zkrecipes::CommitTransaction& transaction) {
  return transaction.payload.substr(0, transaction.payload.find(' '));
}

zkrecipes::CommitHandlers handlers_of(Place& place) {
  zkrecipes::CommitHandlers handlers;
  handlers.prepare = [&place](const zkrecipes::CommitTransaction& transaction) {
    const bool yes = votes_for(place.name(), transaction.payload);
    place.pause(20);
    place.note("prepared", yes ? 1 : 0, 0, name_of(transaction));
    place.pause(20);
    return yes ? zkrecipes::CommitVote::yes() : zkrecipes::CommitVote::no("I had rather not");
  };
  handlers.commit = [&place](const zkrecipes::CommitTransaction& transaction) {
    place.pause(20);
    if (place.below(10) == 0) throw std::runtime_error("not now");
    place.note("committed", 0, 0, name_of(transaction));
    place.pause(20);
  };
  handlers.abort = [&place](const zkrecipes::CommitTransaction& transaction) {
    place.pause(20);
    place.note("aborted", 0, 0, name_of(transaction));
  };
  return handlers;
}

/// Serves on a thread of its own, while it lives.
class Serving {
 public:
  Serving(Place& place, zkclient::Client& client, std::shared_ptr<zkrecipes::ParticipantLog> log)
      : place_(place), participant_(client, commits_path, place.name(), std::move(log), {.sweep_interval = 5s}) {
    thread_ = std::jthread([this](const std::stop_token& stop) { serve(stop); });
  }
  Serving(const Serving&) = delete;
  Serving& operator=(const Serving&) = delete;
  ~Serving() { end(); }
  void end() {
    if (!thread_.joinable()) return;
    thread_.request_stop();
    thread_.join();
  }
  [[nodiscard]] const zkrecipes::CommitParticipant& participant() const { return participant_; }
  /// As an operator does who asks ZooKeeper what became of what the log has lost.
  void resolve(const zkrecipes::CommitCoordinator& coordinator) {
    for (const zkrecipes::InDoubtTransaction& one : participant_.in_doubt()) {
      if (one.problem.empty()) continue;
      try {
        const auto outcome = coordinator.status(one.id, within(10s)).outcome;
        if (!outcome) continue;
        participant_.resolve(one.id, outcome->committed);
        place_.note("resolved", outcome->committed ? 1 : 0, 0, one.payload.substr(0, one.payload.find(' ')));
      } catch (const zkclient::Error& error) {
        place_.note("error", 0, 0, error.what());  // It is none that waits for it, or it is over.
      }
    }
  }

 private:
  void serve(const std::stop_token& stop) {
    zkclient::CallOptions call;
    call.stop = stop;
    try {
      participant_.serve(handlers_of(place_), call);
    } catch (const zkclient::Error& error) {
      place_.note("error", 0, 0, error.what());
    }
  }

  Place& place_;
  zkrecipes::CommitParticipant participant_;
  std::jthread thread_;
};

// --- The coordinators ----------------------------------------------------------------------------

std::vector<std::string> some_participants(Place& place) {
  std::vector<std::string> names;
  const std::uint64_t chosen = 1 + place.below((1U << committers) - 1);
  for (std::uint64_t i = 0; i < committers; ++i) {
    if ((chosen >> i & 1U) != 0) names.push_back("p" + std::to_string(i));
  }
  return names;
}

void coordinate(Place& place, zkrecipes::CommitCoordinator& coordinator, const std::string& name) {
  const std::vector<std::string> participants = some_participants(place);
  std::string payload = name + " ";
  for (const std::string& participant : participants)
    payload += (payload.ends_with(' ') ? "" : ",") + participant;
  zkrecipes::CommitOptions options;
  options.timeout = std::chrono::milliseconds(500 + place.below(8000));
  if (place.below(2) == 0) options.variant = zkrecipes::CommitVariant::all_to_all;
  const bool applied = place.below(3) == 0;
  if (applied) options.wait = zkrecipes::CommitOptions::Wait::applied;
  place.note("begun", 0, 0, payload);
  const zkrecipes::CommitOutcome outcome = coordinator.run(participants, payload, options, within(30s));
  place.note("decided", outcome.committed ? 1 : 0, applied ? 1 : 0, name + " " + outcome.reason);
}

}  // namespace

namespace {

/// In some lives the log is lost, with all that it knew.
std::shared_ptr<DiskLog> log_of(Place& place, bool is_lost) {
  Disk& disk = disk_of(place);
  if (is_lost) {
    disk = {.made = disk.made + 1, .records = {}};
    place.note("log lost", disk.made);
  }
  return std::make_shared<DiskLog>(place);
}

void take_part(Place& place, bool loses_logs) {
  const std::string life = place.name() + "-" + std::to_string(place.now().count() / 1'000'000);
  int begun = 0;
  auto log = log_of(place, false);
  with_sessions(place, [&](zkclient::Client& client) {
    if (loses_logs && place.below(2) == 0) log = log_of(place, true);
    Serving serving(place, client, log);
    zkrecipes::CommitCoordinator coordinator(client, commits_path);
    for (int i = 0; i < 20 && !place.stopped(); ++i) {
      try {
        if (place.below(6) == 0) {
          static_cast<void>(coordinator.recover(within(30s)));
        } else {
          coordinate(place, coordinator, life + "-" + std::to_string(++begun));
        }
      } catch (const zkclient::Error& error) {
        place.note("error", 0, 0, error.what());
        place.pause(500);
      }
      if (loses_logs) serving.resolve(coordinator);
      place.pause(800);
    }
  });
  // What the others have begun comes to its end.
  zkclient::Client client(place.servers(), {.session_timeout = 5s, .server_tick = place.tick()});
  client.connect(within(30s));
  Serving serving(place, client, log);
  const zkrecipes::CommitCoordinator coordinator(client, commits_path);
  for (int i = 0; i < 10; ++i) {
    std::this_thread::sleep_for(5s);
    if (loses_logs) serving.resolve(coordinator);
  }
  serving.end();
  for (const zkrecipes::InDoubtTransaction& one : serving.participant().in_doubt())
    place.note("in doubt", 0, 0, one.payload.substr(0, one.payload.find(' ')) + " " + one.problem);
}

}  // namespace

void run_commits(Place& place) { take_part(place, false); }
void run_resolved_commits(Place& place) { take_part(place, true); }

void look_at_agreements(Place& place) { place.note("looked"); }

Faults check_commits_workload(const History& history) {
  return all_of({check_commits(history), check_progress(history, "committed")});
}

Faults check_resolved_commits(const History& history) {
  return all_of({check_commits_workload(history), check_nothing_in_doubt(history)});
}

// --- Primaries -----------------------------------------------------------------------------------

namespace {

/// Has a role until that is lost, or asked back.
void be_primary(Place& place, zkrecipes::Primary primary, const std::stop_token& stop) {
  const std::int64_t token = primary.token().value;
  place.note("acquired", token, 0, primary.role());
  for (;;) {
    const Nanos before = place.now();
    if (!primary.valid()) break;
    place.note_at(before, "valid", token, 0, primary.role());
    if (stop.stop_requested() || primary.revoke_requested().stop_requested()) break;
    place.pause(200);
  }
  if (place.below(2) == 0) primary.async_release([](auto&&) {});
}

void move_a_role(Place& place, zkrecipes::PrimaryMonitor& monitor) {
  try {
    const zkclient::CallOptions call = within(5s);
    const std::string member = "p" + std::to_string(place.below(3));
    monitor.move(place.below(2) == 0 ? "red" : "blue", member, call);
    place.note("moved");
  } catch (const zkclient::Error& error) {
    place.note("not moved", 0, 0, error.what());
  }
}

}  // namespace

void run_primaries(Place& place) {
  with_sessions(place, [&](zkclient::Client& client) {
    std::mutex mutex;
    std::vector<std::jthread> owners;
    const auto give = [&](zkrecipes::Primary primary) {
      const std::lock_guard lock(mutex);
      owners.emplace_back([&place, primary = std::move(primary)](const std::stop_token& stop) mutable {
        be_primary(place, std::move(primary), stop);
      });
    };
    zkrecipes::PrimaryNode node(client, "/primaries", give, {.id = place.name(), .status = "new", .grace = 3s});
    zkrecipes::PrimaryMonitor monitor(client, "/primaries", {"red", "blue"}, {.id = place.name()});
    node.start();
    monitor.start();
    const Nanos end = place.now() + 20s;
    while (!place.stopped() && place.now() < end) {
      place.pause(500);
      if (place.below(8) == 0) move_a_role(place, monitor);
      if (place.below(8) == 0) {
        const zkclient::CallOptions call = within(5s);
        node.async_update_status(
            std::to_string(place.below(100)), [](auto&&) {}, call);
      }
    }
    if (place.below(2) == 0) node.stop(within(30s));
    const std::lock_guard lock(mutex);
    owners.clear();
  });
}

Faults check_primaries(const History& history) {
  return all_of({check_named_leases(history, 1), check_named_progress(history, "acquired")});
}

}  // namespace storm
