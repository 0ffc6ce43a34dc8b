#include "storm/workloads/placements.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <zkrecipes/placement.hpp>
#include <zkrecipes/placement_map.hpp>
#include <zkrecipes/replica_group.hpp>

#include "storm/checkers/placements.hpp"
#include "storm/workloads/disks.hpp"
#include "storm/workloads/sessions.hpp"

namespace storm {
namespace {

using namespace std::chrono_literals;

constexpr const char* placements_path = "/placed";
constexpr std::int64_t wanted_replicas = 3;
constexpr std::int64_t least_in_sync = 2;  // For a write.
constexpr std::int64_t racks_of_hosts = 3;
const std::vector<std::string> partition_names{"red", "blue"};

std::string rack_of(int host) { return fmt::format("r{}", host % racks_of_hosts); }
std::string disk_name(const std::string& partition, const std::string& host) { return partition + "@" + host; }
int number_of_host(const std::string& id) { return std::stoi(id.substr(1)); }
zkclient::Path node_of(const std::string& partition) {
  return zkclient::Path(placements_path) / "placement" / partition;
}

/// What all processes of one history know of each other without a server: a judge's knowledge. Thread-safe.
class Ledger {
 public:
  static Ledger& of(Place& place) {
    static std::mutex mutex;
    static std::map<const History*, Ledger> all;
    const std::lock_guard lock(mutex);
    return all[&place.history()];
  }
  void acknowledge(const std::string& partition, Nanos at, std::int64_t write) {
    const std::lock_guard lock(mutex_);
    acknowledged_[partition].emplace_back(at, write);
  }
  /// It was placed there at a moment after `at`.
  void placed(const std::string& replica, Nanos at) {
    const std::lock_guard lock(mutex_);
    placed_[replica] = std::max(placed_[replica], at);
  }
  /// All that was acknowledged so far.
  Writes acknowledged(const std::string& partition) {
    const std::lock_guard lock(mutex_);
    Writes writes;
    for (const auto& [at, write] : acknowledged_[partition])
      writes.push_back(write);
    return writes;
  }
  /// All that was acknowledged before the replica was known to be placed there for the last time.
  Writes needed_before(const std::string& partition, const std::string& replica) {
    const std::lock_guard lock(mutex_);
    Writes writes;
    for (const auto& [at, write] : acknowledged_[partition]) {
      if (at < placed_[replica]) writes.push_back(write);
    }
    return writes;
  }
  void join(int host) {
    const std::lock_guard lock(mutex_);
    hosts_.insert(host);
  }
  std::set<int> hosts() {
    const std::lock_guard lock(mutex_);
    return hosts_;
  }
  void note_settled(int host) {
    const std::lock_guard lock(mutex_);
    settled_.insert(host);
  }
  /// All have seen it, and may go.
  bool all_settled() {
    const std::lock_guard lock(mutex_);
    return settled_ == hosts_;
  }

 private:
  std::mutex mutex_;
  std::map<std::string, std::vector<std::pair<Nanos, std::int64_t>>> acknowledged_;  // By partition.
  std::map<std::string, Nanos> placed_;
  std::set<int> hosts_;
  std::set<int> settled_;
};

/// A replica: its disk, and what it does while it is the primary.
class PlacedReplica {
 public:
  PlacedReplica(Place& place, const zkclient::Client& client, const zkrecipes::HostedReplica& replica)
      : place_(place),
        disks_(Disks::of(place)),
        partition_(replica.partition),
        own_{disk_name(partition_, place.name()), disks_.storage(disk_name(partition_, place.name()))},
        group_(client, replica.group, {.id = place.name(), .storage = own_.storage}, handlers(),
               {.minimum = static_cast<std::size_t>(least_in_sync), .settle = 300ms}) {}

  void step() {
    const std::int64_t epoch = epoch_;
    if (group_.role() != zkrecipes::ReplicaRole::primary) return;
    const Nanos before = place_.now();
    const bool writes = group_.may_write() && epoch == epoch_;
    if (writes) tell_of_term(before, epoch);
    if (!writes || place_.below(3) == 0) {
      take_out_who_is_gone();
      take_others_in(epoch);
    } else {
      write(epoch);
    }
  }
  /// It may be the primary meanwhile. `cuts`: those that shall go on without it may be cut off from it, and it may take
  /// its time.
  void give_up(const std::atomic<bool>& cuts) {
    const bool leads = cuts && group_.role() == zkrecipes::ReplicaRole::primary;
    if (leads && place_.below(3) == 0) take_others_out();
    if (place_.below(2) == 0) {
      for (int i = 0; i < 40 && cuts; ++i)
        place_.pause(200);  // It has other things to do.
    }
    if (leads && cuts && place_.below(3) == 0) take_others_out();
    try {
      group_.leave(within(5s));
    } catch (const zkclient::Error& error) {  // It goes on.
      place_.note("error", 0, 0, error.what());
    }
  }

 private:
  zkrecipes::ReplicaHandlers handlers() {
    zkrecipes::ReplicaHandlers handlers;
    handlers.become_primary = [this](const zkrecipes::PrimaryTerm& term) { take_over(term); };
    handlers.become_secondary = [this](const zkrecipes::SecondaryTerm& term) { disks_.see(own_.id, term.epoch); };
    return handlers;
  }
  void take_over(const zkrecipes::PrimaryTerm& term) {
    disks_.see(own_.id, term.epoch);
    const Writes log = disks_.read(own_.id);
    for (const zkrecipes::InSyncReplica& other : term.in_sync) {
      place_.pause(20);
      if (other.id != place_.name()) disks_.replace({disk_name(partition_, other.id), other.storage}, term.epoch, log);
    }
    const std::lock_guard lock(mutex_);
    log_ = log;
    epoch_ = term.epoch;
  }
  void tell_of_term(Nanos when, std::int64_t epoch) {
    if (told_ != epoch) {
      std::unique_lock lock(mutex_);
      const Writes log = log_;
      lock.unlock();
      place_.note_at(when, "took over", epoch, 0, partition_ + " " + numbers_of(log));
      place_.note_at(when, "acquired", epoch, 0, partition_);
      told_ = epoch;
    }
    place_.note_at(when, "valid", epoch, 0, partition_);
  }
  /// One that cannot be reached is taken out, or the write is not acknowledged.
  void write(std::int64_t epoch) {
    const std::int64_t number = disks_.next_number();
    if (!disks_.append(own_, epoch, number)) return;
    std::set<std::string> confirmed{place_.name()};
    for (const zkrecipes::InSyncReplica& other : group_.in_sync()) {
      if (other.id == place_.name()) continue;
      place_.pause(20);
      if (disks_.append({disk_name(partition_, other.id), other.storage}, epoch, number)) {
        confirmed.insert(other.id);
      } else if (place_.below(3) != 0) {
        group_.shrink({other.id}, within(10s));
      }
    }
    place_.pause(20);
    const std::vector<zkrecipes::InSyncReplica> in_sync = group_.in_sync();
    const bool all = std::ranges::all_of(in_sync, [&](const auto& one) { return confirmed.contains(one.id); });
    const Nanos before = place_.now();
    if (!all || !group_.may_write() || epoch != epoch_) return;
    Ledger::of(place_).acknowledge(partition_, before, number);
    place_.note_at(before, "acknowledged", number, epoch, partition_);
  }
  void take_others_out() {
    std::vector<std::string> others;
    for (const zkrecipes::InSyncReplica& one : group_.in_sync()) {
      if (one.id != place_.name()) others.push_back(one.id);
    }
    try {
      group_.shrink(others, within(10s));
    } catch (const zkclient::Error& error) {
      place_.note("error", 0, 0, error.what());
    }
  }
  void take_out_who_is_gone() {
    const std::vector<zkrecipes::ReplicaMember> members = group_.members();
    std::vector<std::string> gone;
    for (const zkrecipes::InSyncReplica& one : group_.in_sync()) {
      const bool there = std::ranges::any_of(
          members, [&](const auto& member) { return member.id == one.id && member.storage == one.storage; });
      if (!there && one.id != place_.name()) gone.push_back(one.id);
    }
    if (!gone.empty()) group_.shrink(gone, within(10s));
  }
  void take_others_in(std::int64_t epoch) {
    const std::vector<zkrecipes::InSyncReplica> in_sync = group_.in_sync();
    for (const zkrecipes::ReplicaMember& member : group_.members()) {
      const bool known = std::ranges::any_of(in_sync, [&](const auto& one) { return one.id == member.id; });
      if (known || member.id == place_.name()) continue;
      if (!disks_.replace({disk_name(partition_, member.id), member.storage}, epoch, disks_.read(own_.id))) continue;
      place_.note("expanding", epoch, 0, partition_ + " " + member.id);
      group_.expand(epoch, member.id, member.storage, within(10s));
    }
  }

  Place& place_;
  Disks& disks_;
  const std::string partition_;
  const zkrecipes::InSyncReplica own_;
  std::mutex mutex_;
  Writes log_;  // As it was when it took over.
  std::atomic<std::int64_t> epoch_ = 0;
  std::int64_t told_ = 0;
  zkrecipes::ReplicaGroup group_;  // The last one: its handlers use the others.
};

/// A process with replicas; some processes place them, too.
class PlacedHost {
 public:
  PlacedHost(Place& place, zkclient::Client& client)
      : place_(place),
        client_(client),
        hosted_(client, placements_path, {.id = place.name(), .rack = rack_of(place.number())}, handlers(),
                {.copies = found_copies(place)}) {
    if (place.number() % 2 == 0) {
      zkrecipes::PlacerOptions options;
      options.id = place.name();
      options.replicas = static_cast<std::size_t>(wanted_replicas);
      options.minimum = options.replicas;
      options.settle = 2s;
      options.max_moving = 1;
      placer_.emplace(client, placements_path, partition_names, options);
      placer_->start();
    }
    hosted_.start();
  }

  void step() {
    std::map<std::string, std::shared_ptr<PlacedReplica>> replicas;
    {
      const std::lock_guard lock(mutex_);
      replicas = replicas_;
    }
    for (const auto& [partition, replica] : replicas) {
      try {
        replica->step();
        if (place_.below(8) == 0) look_at_own(partition);
      } catch (const zkclient::Error& error) {
        place_.note("error", 0, 0, error.what());
      }
    }
  }
  /// Who takes others out each time is called back each time, and nothing ever settles.
  void end_cuts() { may_be_cut_off_ = false; }
  void begin_to_drain() {
    place_.note("draining");
    hosted_.async_drain([drained = drained_](const auto& done) { drained->store(done.has_value()); }, within(60s));
  }
  [[nodiscard]] bool drained() const { return *drained_; }
  void leave() {
    place_.note("drained", 0, 0, fmt::format("{} replicas are open", hosted_.hosted().size()));
    hosted_.leave(within(10s));
  }

 private:
  /// What a former life of the process has left behind.
  static std::vector<std::string> found_copies(Place& place) {
    std::vector<std::string> found;
    for (const std::string& partition : partition_names) {
      if (!Disks::of(place).is_empty(disk_name(partition, place.name()))) found.push_back(partition);
    }
    return found;
  }
  zkrecipes::HostedReplicasHandlers handlers() {
    zkrecipes::HostedReplicasHandlers handlers;
    handlers.open = [this](const zkrecipes::HostedReplica& replica) { open(replica); };
    handlers.close = [this](const zkrecipes::HostedReplica& replica) { close(replica); };
    handlers.erase = [this](const zkrecipes::HostedReplica& replica) { erase(replica.partition); };
    return handlers;
  }
  void open(const zkrecipes::HostedReplica& replica) {
    place_.note("opens", 0, 0, replica.partition);
    auto opened = std::make_shared<PlacedReplica>(place_, client_, replica);
    const std::lock_guard lock(mutex_);
    replicas_[replica.partition] = std::move(opened);
  }
  void close(const zkrecipes::HostedReplica& replica) {
    std::shared_ptr<PlacedReplica> closed;
    {
      const std::lock_guard lock(mutex_);
      closed = std::exchange(replicas_[replica.partition], nullptr);
      replicas_.erase(replica.partition);
    }
    if (closed) closed->give_up(may_be_cut_off_);
  }
  void erase(const std::string& partition) {
    Disks& disks = Disks::of(place_);
    const std::string own = disk_name(partition, place_.name());
    const Writes needed = Ledger::of(place_).needed_before(partition, own);
    const Writes all = Ledger::of(place_).acknowledged(partition);
    place_.note("given up", disks.copies(disk_name(partition, ""), own, needed),
                disks.copies(disk_name(partition, ""), own, all), partition);
    disks.empty(own);
  }
  /// A majority says that the replica is placed here.
  void look_at_own(const std::string& partition) {
    const Nanos before = place_.now();
    const zkclient::NodeData node = client_.get(node_of(partition), within(5s));
    if (node.data.find("\n" + place_.name() + " ") == std::string::npos) return;
    client_.commit(zkclient::Transaction().check(node_of(partition), node.stat.version), within(5s));
    Ledger::of(place_).placed(disk_name(partition, place_.name()), before);
  }

  Place& place_;
  zkclient::Client& client_;
  std::mutex mutex_;
  std::map<std::string, std::shared_ptr<PlacedReplica>> replicas_;
  std::atomic<bool> may_be_cut_off_ = true;
  const std::shared_ptr<std::atomic<bool>> drained_ = std::make_shared<std::atomic<bool>>(false);
  std::optional<zkrecipes::Placer> placer_;
  zkrecipes::HostedReplicas hosted_;  // The last one: its handlers use the others.
};

/// Where the replicas of all partitions are, as nodes and the map show it.
class PlacementSight {
 public:
  PlacementSight(Place& place, const zkclient::Client& client)
      : place_(place), client_(client), hosts_(Ledger::of(place).hosts()), map_(client, placements_path) {}

  /// Looks once. True: all replicas are in sync, and where they shall be, and no other host has a copy.
  bool look() {
    seen_.clear();
    missing_.clear();
    for (const std::string& partition : partition_names) {
      const std::string node = client_.get(node_of(partition), within(5s)).data;
      const std::set<int> serving = serving_in(map_.replicas(partition));
      const auto wanted = static_cast<std::size_t>(std::min(wanted_replicas, host_count()));
      const bool all =
          serving.size() == wanted && racks_of(serving).size() == std::min(wanted, racks_of(hosts_).size());
      if (!all || node != text_of_wanted(serving)) {
        missing_ =
            fmt::format("{} of partition {} serve, and its node is {:?}", fmt::join(serving, " "), partition, node);
      } else {
        look_for_copies(partition, serving);
      }
      std::string& text = seen_.emplace_back(partition);
      for (const int host : serving)
        text += fmt::format(" p{}:{}", host, rack_of(host));
    }
    return missing_.empty();
  }
  /// Of the last look; "" if nothing is.
  [[nodiscard]] const std::string& missing() const { return missing_; }
  void note() {
    for (const std::string& text : seen_)
      place_.note("settled", host_count(), static_cast<std::int64_t>(racks_of(hosts_).size()), text);
  }

 private:
  void look_for_copies(const std::string& partition, const std::set<int>& serving) {
    for (const int host : hosts_) {
      if (serving.contains(host) || Disks::of(place_).is_empty(disk_name(partition, fmt::format("p{}", host))))
        continue;
      missing_ = fmt::format("p{} keeps its copy of partition {}, which others have", host, partition);
    }
  }
  [[nodiscard]] std::int64_t host_count() const { return static_cast<std::int64_t>(hosts_.size()); }
  static std::set<int> serving_in(const zkrecipes::PartitionReplicas& replicas) {
    std::set<int> serving;
    if (!replicas.primary) return serving;
    serving.insert(number_of_host(replicas.primary->id));
    for (const zkrecipes::ReplicaAddress& one : replicas.secondaries)
      serving.insert(number_of_host(one.id));
    return serving;
  }
  static std::set<std::string> racks_of(const std::set<int>& hosts) {
    std::set<std::string> racks;
    for (const int host : hosts)
      racks.insert(rack_of(host));
    return racks;
  }
  static std::string text_of_wanted(const std::set<int>& hosts) {
    std::string text = "placement 1\n";
    for (const int host : hosts)
      text += fmt::format("p{} wanted\n", host);
    return text;
  }

  Place& place_;
  const zkclient::Client& client_;
  const std::set<int> hosts_;
  zkrecipes::PlacementMap map_;
  std::vector<std::string> seen_;  // By partition: its name, and where its replicas are.
  std::string missing_;
};

void be_host_for_a_while(Place& place, zkclient::Client& client) {
  PlacedHost host(place, client);
  const int steps = is_too_short_for_leases(place, client) ? 20 : 40 + static_cast<int>(place.below(120));
  const bool drains = place.below(4) == 0;
  for (int i = 0; i < steps && !place.stopped() && !host.drained(); ++i) {
    if (drains && i == 30) host.begin_to_drain();
    host.step();
    place.pause(200);
  }
  if (host.drained()) host.leave();
}

/// All hosts are there, and stay until each has seen where the replicas are.
void stay_until_settled(Place& place, zkclient::Client& client, std::chrono::steady_clock::time_point end,
                        std::string& missing) {
  PlacedHost host(place, client);
  host.end_cuts();
  PlacementSight sight(place, client);
  constexpr int looks_in_a_row = 5;  // What former lives have left behind is gone by then.
  int settled = 0;
  while (std::chrono::steady_clock::now() < end && !Ledger::of(place).all_settled()) {
    host.step();
    place.pause(200);
    if (settled == looks_in_a_row || place.below(3) != 0) continue;
    settled = sight.look() ? settled + 1 : 0;
    missing = sight.missing();
    if (settled < looks_in_a_row) continue;
    sight.note();
    Ledger::of(place).note_settled(place.number());
  }
}

}  // namespace

void run_placements(Place& place) {
  Ledger::of(place).join(place.number());
  with_sessions(place, [&](zkclient::Client& client) { be_host_for_a_while(place, client); });
  const auto end = std::chrono::steady_clock::now() + 100s;
  std::string missing = "nothing";
  while (std::chrono::steady_clock::now() < end && !Ledger::of(place).all_settled()) {
    try {
      zkclient::Client client(place.servers(), some_client_options(place));
      client.connect(within(20s));
      stay_until_settled(place, client, end, missing);
    } catch (const zkclient::Error& error) {
      place.note("error", 0, 0, error.what());
      place.pause(500);
    }
  }
  if (!missing.empty()) place.note("not settled", 0, 0, missing);
}

void look_at_placements(Place& place) { place.note("looked"); }

Faults check_placements_workload(const History& history) {
  return check_placements(history,
                          {.replicas = wanted_replicas, .minimum = wanted_replicas, .least_in_sync = least_in_sync});
}

}  // namespace storm
