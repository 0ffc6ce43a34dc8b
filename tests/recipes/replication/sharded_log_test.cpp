// The example of a log of many partitions: nine hosts in three racks, while routers append, and hosts are killed, stopped,
// cut off and drained. ZKRECIPES_SEED repeats a run, ZKRECIPES_RUNS=number makes it longer.

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkrecipes/placement_map.hpp>

#include "tests/recipes/replication/log_support.hpp"
#include "tests/support/lease_judges.hpp"
#include "tests/support/recipe_test.hpp"
#include "tests/support/self_process.hpp"
#include "tests/support/temporary_folder.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::eventually;
using testkit::free_address;
using testkit::Line;
using testkit::patience;
using zktesting::Direction;
using zktesting::Proxy;
using Words = std::vector<std::string>;

constexpr std::size_t partition_count = 9;
constexpr std::size_t replica_count = 3;
constexpr std::size_t rack_count = 3;
constexpr auto shard_session = 3s;

Words shard_settings(const std::string& mode, const std::string& servers) {
  return {mode, "servers=" + servers, "partitions=" + std::to_string(partition_count),
          "session_ms=" + std::to_string(std::chrono::milliseconds(shard_session).count()),
          "server_tick_ms=" + std::to_string(testkit::server_tick.count())};
}

std::vector<std::string> shard_names() {
  std::vector<std::string> names;
  for (std::size_t i = 0; i < partition_count; ++i)
    names.push_back(std::to_string(i));
  return names;
}

/// What hosts say, by partition.
class ShardMinutes {
 public:
  void note(const std::string& host, Words words) {
    if (words.size() < 2) return;
    const std::string partition = words.front();
    words.erase(words.begin());
    const std::lock_guard lock(mutex_);
    partitions_[partition].note(host, words);
  }
  std::map<std::string, std::size_t> counts() const {
    const std::lock_guard lock(mutex_);
    std::map<std::string, std::size_t> counts;
    for (const auto& [partition, minutes] : partitions_)
      counts[partition] = minutes.count();
    return counts;
  }
  void expect_one_primary_at_a_time() const {
    const std::lock_guard lock(mutex_);
    for (const auto& [partition, minutes] : partitions_) {
      SCOPED_TRACE("partition " + partition);
      minutes.expect_one_primary_at_a_time();
    }
  }

 private:
  mutable std::mutex mutex_;
  std::map<std::string, testkit::Minutes> partitions_;
};

enum class ShardFault { kill, stop, cut, isolate, drain };

constexpr std::array every_fault = {ShardFault::kill, ShardFault::stop, ShardFault::cut, ShardFault::isolate,
                                    ShardFault::drain};

const char* to_string(ShardFault fault) {
  switch (fault) {
    case ShardFault::kill: return "kill";
    case ShardFault::stop: return "stop";
    case ShardFault::cut: return "cut off from the server";
    case ShardFault::isolate: return "cut off from all";
    case ShardFault::drain: return "drain";
  }
  return "";
}

/// A host: a process with a folder, a cable to the server, and one from all others.
class ShardHost {
 public:
  ShardHost(std::string id, std::string rack, const std::string& servers, ShardMinutes& minutes)
      : id_(std::move(id)),
        rack_(std::move(rack)),
        minutes_(minutes),
        cable_(servers),
        link_(address_text(), {false, ""}) {
    start();
  }

  void start() {
    listening_ = false;
    Words arguments = shard_settings("host", cable_.connect_string());
    for (const std::string& setting :
         {"id=" + id_, "rack=" + rack_, "folder=" + (folder_ / "data").string(), "listen=" + address_text(),
          "advertised=" + link_.connect_string(), std::string("settle_ms=500")})
      arguments.push_back(setting);
    process_.emplace(SHARDED_LOG, std::move(arguments), [this](const Words& words) {
      if (!words.empty() && words[0] == "listening") listening_ = true;
      minutes_.note(id_, words);
    });
    EXPECT_TRUE(eventually([this] { return listening_.load(); }));
  }
  void suffer(ShardFault fault) {
    switch (fault) {
      case ShardFault::kill: process_.reset(); break;
      case ShardFault::stop: process_->pause(); break;
      case ShardFault::isolate: link_.stall(Direction::both); [[fallthrough]];
      case ShardFault::cut: cable_.stall(Direction::both); break;
      case ShardFault::drain: EXPECT_TRUE(leaves()); break;
    }
  }
  void recover(ShardFault from) {
    switch (from) {
      case ShardFault::stop: process_->resume(); break;
      // What was sent to it meanwhile arrives now.
      case ShardFault::isolate: link_.unstall(Direction::both); [[fallthrough]];
      case ShardFault::cut: cable_.unstall(Direction::both); break;
      default: start(); break;
    }
  }
  const std::string& id() const { return id_; }
  const std::string& rack() const { return rack_; }
  bool has_folder(const std::string& partition) const { return std::filesystem::exists(folder_ / "data" / partition); }

  /// All that it knows to be acknowledged in the partition, as "EPOCH CLIENT NUMBER KEY TEXT"; nothing if it does not say.
  std::optional<std::vector<std::string>> entries(const std::string& partition) const {
    Line line(address_, 10s);
    for (std::vector<std::string> all;;) {
      const std::string answer = line.ask(partition + " read " + std::to_string(all.size())).value_or("");
      if (answer == "end") return all;
      if (!answer.starts_with("ok ")) return std::nullopt;
      all.push_back(answer.substr(3));
    }
  }

 private:
  /// Gives all that it has to others, and ends.
  bool leaves() {
    std::optional<int> code;
    process_->terminate();
    const bool ended = eventually([&] { return (code = process_->exit_code()).has_value(); }, patience);
    process_.reset();
    return ended && code == 0;
  }
  std::string address_text() const { return address_.first + ":" + std::to_string(address_.second); }

  const std::string id_;
  const std::string rack_;
  ShardMinutes& minutes_;
  const std::pair<std::string, int> address_ = free_address();
  testkit::TemporaryFolder folder_;
  Proxy cable_;
  Proxy link_;
  std::atomic<bool> listening_{false};
  std::optional<testkit::ChildProcess> process_;
};

/// A router that appends one entry after the other, with keys of all partitions in turn.
class ShardWriter {
 public:
  struct Place {
    std::string partition;
    std::size_t position = 0;
    std::string entry;
  };

  ShardWriter(std::string id, const std::string& servers)
      : id_(std::move(id)),
        router_(
            SHARDED_LOG, shard_settings("append", servers), [this](const Words& words) { hear(words); }, true) {
    say();
  }

  /// The last one may not be acknowledged yet.
  void stop() { ended_ = true; }
  bool rests() const {
    const std::lock_guard lock(mutex_);
    return acknowledged_.size() == said_;
  }
  /// Once it rests: all that it has appended.
  const std::vector<Place>& acknowledged() const { return acknowledged_; }

 private:
  std::string entry(std::size_t number) const {
    return "key-" + std::to_string(number % 50) + " " + id_ + "-" + std::to_string(number);
  }
  void say() {
    const std::lock_guard lock(mutex_);
    router_.say(entry(++said_) + "\n");
  }
  void hear(const Words& words) {
    if (words.size() != 3 || words[0] != "ok") return;
    {
      const std::lock_guard lock(mutex_);
      acknowledged_.push_back({words[1], std::stoul(words[2]), entry(said_)});
    }
    if (!ended_) say();
  }

  const std::string id_;
  mutable std::mutex mutex_;
  std::size_t said_ = 0;
  std::vector<Place> acknowledged_;
  std::atomic<bool> ended_{false};
  testkit::ChildProcess router_;
};

class ShardedLog : public testkit::RecipeFaultTest {
 protected:
  ShardedLog() : RecipeFaultTest("/sharded_log") {
    for (std::size_t i = 0; i < rack_count * hosts_of_rack; ++i) {
      hosts_.push_back(std::make_unique<ShardHost>(
          "host-" + std::to_string(i), "rack-" + std::to_string(i % rack_count), server.connect_string(), minutes_));
    }
    map_.emplace(operator_of_map_, "/sharded_log");
    for (const char* id : {"x", "y", "z"})
      writers_.push_back(std::make_unique<ShardWriter>(id, server.connect_string()));
  }

  static constexpr int shortest_run = 5;

  unsigned seed() const { return seed_; }
  std::size_t random(std::size_t below) { return random_() % below; }

  /// A host, half the time one that has a primary.
  ShardHost& any_host() {
    if (random(2) == 0) return *hosts_[random(hosts_.size())];
    const auto primary = map_->wait_primary(std::to_string(random(partition_count)), {}, testkit::patient()).primary;
    return *find(primary->id);
  }
  /// Entries of each partition are acknowledged, that were not when this was called.
  bool goes_on() {
    const auto before = minutes_.counts();
    return eventually(
        [&] {
          auto now = minutes_.counts();
          const auto grows = [&](const std::string& name) {
            const auto found = before.find(name);
            return now[name] > (found == before.end() ? 0 : found->second) + 2;
          };
          const auto names = shard_names();
          return std::all_of(names.begin(), names.end(), grows);
        },
        patience);
  }
  using Broken = std::map<ShardHost*, ShardFault>;
  /// All replicas are where they shall be, on hosts without these.
  void expect_settled(const Broken& without) {
    std::string why;
    EXPECT_TRUE(eventually([&] { return (why = unsettled(without)).empty(); }, patience)) << why;
  }
  /// A host has folders of its replicas alone. One that was killed finds folders of others when it starts again.
  void expect_no_copy_left() {
    std::string left;
    EXPECT_TRUE(eventually([&] { return (left = needless_folder()).empty(); }, patience)) << left;
  }
  /// Each entry is in one log, once, in the place where a client was told that it is.
  void expect_nothing_lost() {
    for (const auto& writer : writers_)
      writer->stop();
    for (const auto& writer : writers_)
      ASSERT_TRUE(eventually([&] { return writer->rests(); }, patience));
    std::set<std::string> once;
    std::map<std::string, std::vector<std::string>> logs;  // Without what primaries begin with.
    for (const std::string& partition : shard_names()) {
      std::int64_t before = 0;
      for (const std::string& line : whole_log(partition)) {
        std::istringstream words(line);
        std::int64_t epoch = 0;
        std::string client, number, entry;
        words >> epoch >> client >> number >> std::ws;
        std::getline(words, entry);
        EXPECT_GE(epoch, before) << "partition " << partition << " has an entry of an older term behind a newer one";
        before = epoch;
        logs[partition].push_back(entry);
        EXPECT_TRUE(client == "-" || once.insert(entry).second) << "doubled: " << entry;
      }
    }
    for (const auto& writer : writers_) {
      for (const auto& [partition, position, entry] : writer->acknowledged()) {
        ASSERT_LT(position, logs[partition].size()) << "lost: " << entry << " of partition " << partition;
        EXPECT_EQ(logs[partition][position], entry);
      }
    }
    minutes_.expect_one_primary_at_a_time();
  }

 private:
  static constexpr std::size_t hosts_of_rack = 3;

  ShardHost* find(const std::string& id) {
    for (const auto& host : hosts_) {
      if (host->id() == id) return host.get();
    }
    throw std::runtime_error("no host " + id);
  }
  /// What is not yet as it shall be; "": nothing.
  std::string unsettled(const Broken& without) {
    std::map<std::string, std::size_t> hosts_by_rack;
    for (const auto& host : hosts_)
      hosts_by_rack[host->rack()] += without.contains(host.get()) ? 0 : 1;
    std::map<std::string, std::size_t> replicas_by_host;
    for (const std::string& partition : shard_names()) {
      const PartitionReplicas replicas = map_->replicas(partition);
      if (!replicas.primary) return partition + " has no primary";
      std::set<std::string> ids = {replicas.primary->id};
      for (const ReplicaAddress& one : replicas.secondaries)
        ids.insert(one.id);
      std::string placed = "placement 1\n";
      std::set<std::string> racks;
      for (const std::string& id : ids) {
        if (without.contains(find(id))) return fmt::format("{} still has a replica of {}", id, partition);
        placed += id + " wanted\n";
        racks.insert(find(id)->rack());
        const ShardHost& host = *find(id);
        const std::size_t in_rack = hosts_by_rack[host.rack()];
        if (++replicas_by_host[id] > (partition_count + in_rack - 1) / in_rack) return id + " is overfull";
      }
      if (ids.size() != replica_count || racks.size() != replica_count) return partition + " lacks replicas";
      const zkclient::Path base("/sharded_log");
      if (the_operator().get(base / "placement" / partition).data != placed) return partition + " moves";
      const auto members = names(base / "groups" / partition / "members");
      if (std::set<std::string>(members.begin(), members.end()) != ids) return partition + " has other members";
    }
    return "";
  }
  std::string needless_folder() {
    for (const std::string& partition : shard_names()) {
      const std::string placed = the_operator().get(zkclient::Path("/sharded_log/placement") / partition).data;
      for (const auto& host : hosts_) {
        const bool has_replica = placed.find("\n" + host->id() + " ") != std::string::npos;
        if (!has_replica && host->has_folder(partition)) return host->id() + " still has a copy of " + partition;
      }
    }
    return "";
  }
  /// As all replicas have it.
  std::vector<std::string> whole_log(const std::string& partition) {
    std::vector<std::string> log;
    const auto equal = [&] {
      const PartitionReplicas replicas = map_->replicas(partition);
      if (!replicas.primary) return false;
      const auto first = find(replicas.primary->id)->entries(partition);
      if (!first || replicas.secondaries.size() + 1 != replica_count) return false;
      log = *first;
      return std::all_of(replicas.secondaries.begin(), replicas.secondaries.end(),
                         [&](const ReplicaAddress& one) { return find(one.id)->entries(partition) == first; });
    };
    EXPECT_TRUE(eventually(equal, patience)) << "partition " << partition;
    return log;
  }

  const unsigned seed_ = testkit::seed();
  std::minstd_rand random_{seed_};
  ShardMinutes minutes_;
  std::vector<std::unique_ptr<ShardHost>> hosts_;
  const zkclient::Client operator_of_map_ = calm_direct();
  std::optional<PlacementMap> map_;
  std::vector<std::unique_ptr<ShardWriter>> writers_;
};

// The first rounds break one host each; of those that ZKRECIPES_RUNS adds, some break two at a time.
TEST_F(ShardedLog, RandomFaultsLoseNothing) {
  std::cout << "seed " << seed() << " (ZKRECIPES_SEED)\n";
  const char* given = std::getenv("ZKRECIPES_RUNS");
  const int rounds = given != nullptr ? std::atoi(given) : shortest_run;
  std::vector<ShardFault> faults;
  for (int round = 0; round < rounds && !HasFailure(); ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    expect_settled({});
    ASSERT_TRUE(goes_on());
    Broken broken;
    const std::size_t victims = round >= shortest_run && random(3) == 0 ? 2 : 1;
    while (broken.size() < victims) {
      if (faults.empty()) faults.assign(every_fault.begin(), every_fault.end());
      ShardHost& victim = any_host();
      if (broken.contains(&victim)) continue;
      const auto chosen = faults.begin() + static_cast<std::ptrdiff_t>(random(faults.size()));
      std::cout << "round " << round << ": " << to_string(*chosen) << " " << victim.id() << std::endl;
      victim.suffer(*chosen);
      broken[&victim] = *chosen;
      faults.erase(chosen);  // Each once before any comes again.
    }
    ASSERT_TRUE(goes_on());
    if (random(4) != 0) expect_settled(broken);  // Else they are back before others have all that they had.
    for (const auto& [host, fault] : broken)
      host->recover(fault);
  }
  expect_settled({});
  ASSERT_TRUE(goes_on());
  expect_no_copy_left();
  expect_nothing_lost();
}

}  // namespace
}  // namespace zkrecipes
