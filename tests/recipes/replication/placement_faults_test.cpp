// Placements while everything breaks: the rows of the table "What goes wrong" in <zkrecipes/placement.hpp> that take
// servers. Those that take none are in placement_decider_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <random>
#include <set>
#include <sstream>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <fmt/format.h>

#include <zkrecipes/placement_map.hpp>

#include "tests/recipes/replication/placement_support.hpp"
#include "tests/support/lease_judges.hpp"

namespace zkrecipes {
namespace {

using namespace std::chrono_literals;
using testkit::Box;
using testkit::error_of;
using testkit::eventually;
using testkit::patience;
using testkit::TestHost;
using zkclient::Acl;
using zkclient::Client;
using zkclient::Errc;
using zkclient::Path;
using Partitions = std::vector<std::string>;

const testkit::OnRealServers placement_on_real_servers{"PlacementFaults.HostIsDrained"};

zkclient::CallOptions within_patience() { return {.deadline = testkit::SteadyClock::now() + patience}; }

class PlacementFaults : public testkit::RecipeFaultTest {
 protected:
  PlacementFaults() : RecipeFaultTest("/app") {}

  static PlacerOptions quick() {
    PlacerOptions options;
    options.minimum = 2;
    options.settle = 200ms;
    return options;
  }
  static PlacerOptions one_at_a_time() {
    PlacerOptions options = quick();
    options.max_moving = 1;
    return options;
  }
  std::unique_ptr<Placer> place(const Client& client, PlacerOptions options = quick()) {
    auto placer = std::make_unique<Placer>(client, "/app", partitions, std::move(options));
    placer->start();
    return placer;
  }
  std::unique_ptr<TestHost> host(const Client& client, const std::string& id, const std::string& rack = "") {
    return std::make_unique<TestHost>(client, ReplicaHost{id, rack}, disks);
  }
  /// Each partition has three replicas in sync, one of them a primary, all of them among `ids`; and each host has some.
  bool all_on(const PlacementMap& map, const std::set<std::string>& ids) {
    return eventually([&] {
      std::set<std::string> used;
      for (const std::string& partition : partitions) {
        const PartitionReplicas replicas = map.replicas(partition);
        if (!replicas.primary || replicas.secondaries.size() != 2) return false;
        used.insert(replicas.primary->id);
        for (const ReplicaAddress& one : replicas.secondaries)
          used.insert(one.id);
      }
      return used == ids;
    });
  }

  static bool has_problem(const Placer& placer, Errc code) {
    return eventually([&] {
      const auto problem = placer.problem();
      return problem && problem->errc() == code;
    });
  }
  std::size_t acknowledged() {
    const auto lock = disks.lock();
    std::size_t count = 0;
    for (const std::string& partition : partitions)
      count += disks.acknowledged(partition).size();
    return count;
  }
  bool goes_on() {
    const std::size_t before = acknowledged();
    return eventually([&] { return acknowledged() >= before + 10; });
  }
  /// Each replica that is in sync has every acknowledged entry, in order. One whose disk is gone is about to leave.
  void expect_nothing_lost() {
    for (const std::string& partition : partitions) {
      const auto lock = disks.lock();
      std::istringstream state(the_operator().get(Path("/app/groups") / partition / "state").data);
      const std::vector<int>& acknowledged = disks.acknowledged(partition);
      int copies = 0;
      std::string line;
      for (std::getline(state, line); std::getline(state, line);) {
        std::istringstream words(line);
        std::string id;
        std::string storage;
        words >> id >> storage;
        const testkit::Disks::Disk* disk = disks.find(partition, storage);
        if (disk == nullptr) continue;
        ++copies;
        const std::vector<int>& entries = disk->entries;
        EXPECT_TRUE(std::includes(entries.begin(), entries.end(), acknowledged.begin(), acknowledged.end()))
            << partition << " on " << id;
      }
      EXPECT_GE(copies, 2) << partition;
    }
  }

  const Partitions partitions = {"p0", "p1", "p2", "p3"};
  testkit::Disks disks;
};

/// A host whose handlers do nothing.
class IdleHost {
 public:
  IdleHost(const Client& client, const std::string& id)
      : hosted_(
            client, "/app", {id},
            {[](const HostedReplica&) {}, [](const HostedReplica&) {}, [this](const HostedReplica&) { ++erased_; }}) {
    hosted_.start();
  }
  bool has(const Partitions& expected) {
    return eventually([&] { return hosted_.hosted() == expected; });
  }
  HostedReplicas& hosted() { return hosted_; }
  int erased() const { return erased_; }

 private:
  std::atomic<int> erased_{0};
  HostedReplicas hosted_;
};

TEST_F(PlacementFaults, HostDies) {
  const Client dying = contended_proxied();
  const Client direct = calm_direct();
  const auto placer = place(direct);
  const auto a = host(dying, "a");
  const auto b = host(direct, "b");
  const auto c = host(direct, "c");
  const auto d = host(direct, "d");
  const PlacementMap map(direct, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c", "d"}));
  refuse_and_cut();
  EXPECT_TRUE(all_on(map, {"b", "c", "d"}));
  proxy.refuse(false);
  EXPECT_TRUE(all_on(map, {"a", "b", "c", "d"}));
  EXPECT_FALSE(placer->problem());
}

TEST_F(PlacementFaults, HostComes) {
  const Client client = calm_direct();
  const auto placer = place(client);
  const auto a = host(client, "a", "rack-1");
  const auto b = host(client, "b", "rack-2");
  const auto c = host(client, "c", "rack-3");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  EXPECT_EQ(a->hosted().hosted(), partitions);
  EXPECT_EQ(the_operator().get("/app/hosts/a").data, "host 1 1 rack-1");
  EXPECT_EQ(the_operator().get("/app/placement/p0").data, "placement 1\na wanted\nb wanted\nc wanted\n");
  const auto d = host(client, "d", "rack-3");
  EXPECT_TRUE(all_on(map, {"a", "b", "c", "d"}));
  EXPECT_TRUE(eventually([&] { return c->hosted().hosted().size() == 2; }));
  EXPECT_EQ(d->hosted().hosted().size(), 2U);
  EXPECT_EQ(a->closed() + b->closed(), 0) << "only a host of its rack makes room";
  const PartitionReplicas replicas = map.wait_primary("p0", {}, within_patience());
  EXPECT_EQ(replicas.primary->address, "at-" + replicas.primary->id);
  EXPECT_GT(replicas.token, FencingToken());
}

TEST_F(PlacementFaults, HostIsDrained) {
  const Client client = calm_direct();
  const auto placer = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const auto d = host(client, "d");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c", "d"}));
  a->hosted().drain(within_patience());
  EXPECT_TRUE(eventually([&] { return a->hosted().hosted().empty(); }));
  EXPECT_TRUE(all_on(map, {"b", "c", "d"}));
  a->hosted().leave(within_patience());
  EXPECT_EQ(error_of([&] { a->hosted().drain(); }), Errc::not_held);
  EXPECT_EQ(error_of([&] { a->hosted().start(); }), Errc::closed);
}

/// Its open() runs until the test lets it end.
TEST_F(PlacementFaults, HostLeavesWhileAHandlerRuns) {
  the_operator().create("/app/placement", "");
  the_operator().create("/app/placement/p0", "placement 1\na wanted\n");
  const Client client = calm_direct();
  Box<bool> begun;
  Box<bool> may_end;
  std::atomic<bool> ended{false};
  HostedReplicasHandlers handlers;
  handlers.open = [&](const HostedReplica&) {
    begun.put(true);
    (void)may_end.take();
    ended = true;
  };
  handlers.close = [](const HostedReplica&) {};
  auto a = std::make_unique<HostedReplicas>(client, "/app", ReplicaHost{"a"}, std::move(handlers));
  a->start();
  ASSERT_TRUE(begun.take());
  a->leave(within_patience());
  Box<bool> left;
  a->async_leave([&](const auto& result) { left.put(result.has_value()); }, within_patience());
  EXPECT_FALSE(ended);
  EXPECT_FALSE(the_operator().exists("/app/hosts/a"));
  may_end.put(true);
  EXPECT_TRUE(left.take());
  a.reset();
  EXPECT_TRUE(ended) << "the destructor waits for it";
}

TEST_F(PlacementFaults, HostIsDrainedWhileItsPlacementIsDamaged) {
  const std::string here = "placement 1\na wanted\n";
  the_operator().create("/app/placement", "");
  for (const char* partition : {"p0", "p1"})
    the_operator().create(Path("/app/placement") / partition, here);
  const Client client = calm_direct();
  IdleHost idle(client, "a");
  HostedReplicas& a = idle.hosted();
  ASSERT_TRUE(idle.has({"p0", "p1"}));
  const auto waits = [&] {
    const auto in_vain = testkit::SteadyClock::now() + 500ms;
    return error_of([&] { a.drain({.deadline = in_vain}); }) == Errc::deadline_exceeded;
  };
  const auto tells = [&](Errc code) {
    const auto problem = a.problem();
    return problem && problem->errc() == code && problem->path() == "/app/placement/p0";
  };
  the_operator().set("/app/placement/p1", "placement 1\nb wanted\n");
  the_operator().remove("/app/placement/p0");
  EXPECT_TRUE(waits());
  EXPECT_TRUE(tells(Errc::no_node));
  the_operator().create("/app/placement/p0", "by hand");
  EXPECT_TRUE(waits());
  EXPECT_TRUE(tells(Errc::foreign_node));
  the_operator().set("/app/placement/p0", "placement 1\na leaving\nb wanted\n");
  EXPECT_TRUE(waits());
  the_operator().set("/app/placement/p0", "placement 1\nb wanted\n");
  a.drain(within_patience());
  EXPECT_TRUE(idle.has({}));
}

/// No other change would bring back what its executor has dropped.
TEST_F(PlacementFaults, AnExecutorDropsThatAHostGetsAReplica) {
  the_operator().create("/app/placement", "");
  testkit::DroppingRuntime dropping;
  const Client client(dropping.runtime(), proxy.connect_string(), {.session_timeout = calm});
  IdleHost a(client, "a");
  the_operator().create("/app/placement/p0", "placement 1\na wanted\n");
  ASSERT_TRUE(a.has({"p0"}));
  dropping.drop();
  the_operator().create("/app/placement/p1", "placement 1\na wanted\n");
  ASSERT_TRUE(dropping.dropped_one());
  dropping.run();
  EXPECT_TRUE(a.has({"p0", "p1"}));
}

/// It gets a replica at the time of its update. When it hears that the update is done, it has not heard of the replica.
TEST_F(PlacementFaults, HostGetsAReplicaWhileItIsDrained) {
  the_operator().create("/app/placement", "");
  const Client client = calm_proxied();
  IdleHost a(client, "a");
  the_operator().create("/app/placement/p0", "placement 1\na wanted\n");
  ASSERT_TRUE(a.has({"p0"}));
  the_operator().set("/app/placement/p0", "placement 1\nb wanted\n");
  ASSERT_TRUE(a.has({}));
  auto updated = proxy.hold_next_reply(zktesting::RequestType::set_data);
  std::atomic<bool> moved{false};
  auto draining = testkit::in_thread([&] {
    a.hosted().drain(within_patience());
    return moved.load();
  });
  EXPECT_TRUE(updated.wait(patience));
  the_operator().set("/app/placement/p0", "placement 1\na wanted\n");
  const std::size_t barriers = proxy.request_count(zktesting::RequestType::multi);
  updated.release();
  EXPECT_TRUE(proxy.wait_for_requests(zktesting::RequestType::multi, barriers + 1, patience)) << "it trusts its view";
  EXPECT_TRUE(a.has({"p0"}));
  moved = true;
  the_operator().set("/app/placement/p0", "placement 1\nb wanted\n");
  EXPECT_TRUE(testkit::result_of(draining));
}

/// A primary that was told to close its replica takes the other one out, which is cut off from it: then its copy is the
/// only one with all that was acknowledged.
TEST_F(PlacementFaults, APrimaryTakesTheOthersOutWhileItCloses) {
  const Client client = calm_direct();
  PlacerOptions options = quick();
  options.replicas = options.minimum = 1;
  const auto placer = place(client, options);
  const auto a = host(client, "a");
  const auto are_primary = [&, map = std::make_shared<PlacementMap>(client, "/app")](const std::string& id) {
    return eventually([&] {
      return std::all_of(partitions.begin(), partitions.end(), [&](const std::string& partition) {
        const auto primary = map->replicas(partition).primary;
        return primary && primary->id == id;
      });
    });
  };
  ASSERT_TRUE(are_primary("a"));
  const int all = static_cast<int>(partitions.size());
  a->lose_the_others(all);
  a->hosted().async_drain([](const auto&) {}, within_patience());
  const auto b = host(client, "b");
  EXPECT_TRUE(are_primary("b"));
  EXPECT_TRUE(eventually([&] { return a->erased() == all; }));
  EXPECT_EQ(a->closed(), 2 * all) << "each was called back, and closed again when b was in sync";
}

/// A host that is behind the proxy has closed p0, and the state of its group changes.
class PlacementErasure : public PlacementFaults {
 protected:
  PlacementErasure() {
    the_operator().create("/app/placement", "");
    place_p0({"a"});
    for (const char* above : {"/app/groups", "/app/groups/p0", "/app/groups/p0/members"})
      the_operator().create(above, "");
    the_operator().create("/app/groups/p0/state", "");
    for (const char* host : {"b", "c"})
      the_operator().create(member(host), "");
    are_there({"b", "c"});
  }
  static Path member(const std::string& host) { return Path("/app/groups/p0/members") / host; }
  /// With the storages that are_in_sync() names, or with others.
  void are_there(const std::vector<std::string>& hosts, const std::string& disk = "disk-") {
    for (const std::string& host : hosts)
      the_operator().set(member(host), fmt::format("replica 1 {}{} 1000 0 at-{}", disk, host, host));
  }
  void place_p0(const std::vector<std::string>& wanted) { place("p0", wanted); }
  void place(const std::string& partition, const std::vector<std::string>& wanted) {
    std::string text = "placement 1\n";
    for (const std::string& host : wanted)
      text += host + " wanted\n";
    const Path node = Path("/app/placement") / partition;
    if (the_operator().exists(node)) {
      the_operator().set(node, text);
    } else {
      the_operator().create(node, text);
    }
  }
  void are_in_sync(const std::vector<std::string>& hosts) {
    std::string text = "replicas 1 epoch=7 primary=" + hosts.back() + " minimum=1 forced=0 leaving=0\n";
    for (const std::string& host : hosts)
      text += fmt::format("{0} disk-{0} 1000\n", host);
    the_operator().set("/app/groups/p0/state", text);
  }
  /// It has looked at all facts since this was called.
  bool looks_again() {
    const auto looks = proxy.request_count(zktesting::RequestType::exists);
    return proxy.wait_for_requests(zktesting::RequestType::exists, looks + 3, patience);
  }
};

/// A host with a handler that runs until the test lets it go on.
class GatedHost {
 public:
  using Strings = std::vector<std::string>;

  GatedHost(const zktesting::Proxy& proxy, std::string gate, HostedReplicasOptions options = {})
      : gate_(std::move(gate)),
        client_(runtime_, proxy.connect_string(), {.session_timeout = 30s}),
        hosted_(client_, "/app", {"a"}, handlers(), std::move(options)) {
    hosted_.start();
  }
  ~GatedHost() { open_the_gate(); }
  GatedHost(const GatedHost&) = delete;
  GatedHost& operator=(const GatedHost&) = delete;

  HostedReplicas& hosted() { return hosted_; }
  Strings told() const {
    const std::lock_guard lock(mutex_);
    return told_;
  }
  bool was_told(const Strings& expected) {
    return eventually([&] { return told() == expected; });
  }
  bool erased_p0() {
    const Strings all = told();
    return std::count(all.begin(), all.end(), "erase p0") > 0;
  }
  bool has_problem(Errc code, const std::string& path) {
    return eventually([&] {
      const auto problem = hosted_.problem();
      return problem && problem->errc() == code && problem->path() == path;
    });
  }
  bool waits_at_the_gate() { return begun_.take(); }
  void open_the_gate() { may_go_on_.put(true); }
  /// All that was to be called has been called.
  bool rests() {
    return eventually([this] { return threads_->tasks == 0; });
  }
  void throw_at_the_gate() { throws_ = true; }
  /// Nothing is called while its executor is busy.
  void be_busy(bool from_now_on) { threads_->be_busy(from_now_on); }
  /// To all requests that were sent before this was called.
  void wait_for_replies() { (void)client_.exists("/app", within_patience()); }

 private:
  HostedReplicasHandlers handlers() {
    const auto note = [this](const char* name) {
      return [this, name](const HostedReplica& replica) { be_told(name + (" " + replica.partition)); };
    };
    return {note("open"), note("close"), note("erase")};
  }
  void be_told(const std::string& what) {
    {
      const std::lock_guard lock(mutex_);
      told_.push_back(what);
    }
    if (what != gate_) return;
    if (throws_.exchange(false)) throw std::domain_error("the disk refuses");
    begun_.put(true);
    (void)may_go_on_.take();
  }
  /// Of the executor: each task has its own, unless it is kept waiting.
  struct Threads : std::enable_shared_from_this<Threads> {
    std::atomic<int> tasks{0};
    std::mutex mutex;
    bool busy = false;                           // Guarded by mutex.
    std::vector<std::function<void()>> waiting;  // Likewise.

    void post(std::function<void()> task) {
      ++tasks;
      const std::lock_guard lock(mutex);
      busy ? waiting.push_back(std::move(task)) : run(std::move(task));
    }
    void be_busy(bool from_now_on) {
      const std::lock_guard lock(mutex);
      busy = from_now_on;
      if (busy) return;
      for (auto& task : waiting)
        run(std::move(task));
      waiting.clear();
    }
    void run(std::function<void()> task) {
      std::thread([self = shared_from_this(), task = std::move(task)] {
        try {
          task();
        } catch (const std::domain_error&) {
        }
        --self->tasks;
      }).detach();
    }
  };
  zkclient::RuntimeOptions with_threads() const {
    zkclient::RuntimeOptions options;
    options.callback_executor = [threads = threads_](std::function<void()> task) { threads->post(std::move(task)); };
    return options;
  }

  const std::string gate_;
  const std::shared_ptr<Threads> threads_ = std::make_shared<Threads>();
  mutable std::mutex mutex_;
  Strings told_;  // Guarded by mutex_.
  std::atomic<bool> throws_{false};
  Box<bool> begun_;
  Box<bool> may_go_on_;
  zkclient::Runtime runtime_{with_threads()};
  const Client client_;
  HostedReplicas hosted_;
};

/// Each handler rests on what is known when it is called.
TEST_F(PlacementErasure, APlacementGoesWhileAHandlerRuns) {
  place("p1", {"b", "c"});
  GatedHost a(proxy, "close p0");
  ASSERT_TRUE(a.was_told({"open p0"}));
  const std::string here = "placement 1\na wanted\n";
  const std::string elsewhere = the_operator().get("/app/placement/p1").data;
  zkclient::Transaction both;
  both.set("/app/placement/p0", elsewhere).set("/app/placement/p1", here);
  the_operator().commit(both);
  ASSERT_TRUE(a.waits_at_the_gate());
  a.hosted().async_drain([](const auto&) {}, within_patience());
  EXPECT_TRUE(a.has_problem(Errc::not_available, "/app/placement/p1")) << "what drain() waits for";
  place("p1", {"b", "c"});
  a.hosted().drain(within_patience());
  a.open_the_gate();
  EXPECT_TRUE(a.rests());
  place_p0({"a"});
  EXPECT_TRUE(a.was_told({"open p0", "close p0", "open p0"})) << "p1 was elsewhere again";
}

/// The copy of p0 may be erased, but another handler runs, or the executor is busy.
class PlacementPermission : public PlacementErasure {
 protected:
  void be_allowed(GatedHost& a, bool but_busy = false) {
    ASSERT_TRUE(a.was_told({"open p0"}));
    are_in_sync({"a", "b", "c"});
    place_p0({"b", "c"});
    place("p1", {"a"});
    ASSERT_TRUE(a.waits_at_the_gate());
    auto gone = proxy.hold_next_reply(zktesting::RequestType::exists);
    ASSERT_TRUE(gone.wait(patience));
    if (but_busy) a.be_busy(true);
    are_in_sync({"b", "c"});
    const std::size_t reads = proxy.request_count(zktesting::RequestType::get_data);
    gone.release();
    const std::size_t all = 4;  // The placement, the state, two members.
    ASSERT_TRUE(proxy.wait_for_requests(zktesting::RequestType::get_data, reads + all, patience));
    a.wait_for_replies();
  }
};

TEST_F(PlacementPermission, TheReplicaIsOpenedAgain) {
  GatedHost a(proxy, "open p1");
  be_allowed(a);
  a.hosted().async_drain([](const auto&) {}, within_patience());
  place_p0({"a"});
  EXPECT_TRUE(a.has_problem(Errc::not_available, "/app/placement/p0")) << "it knows";
  a.open_the_gate();
  EXPECT_TRUE(eventually([&] { return a.told().back() == "open p0"; }));
  EXPECT_TRUE(a.rests());
  EXPECT_FALSE(a.erased_p0());
}

TEST_F(PlacementPermission, ItIsOld) {
  GatedHost a(proxy, "open p1");
  be_allowed(a);
  testkit::let_age(2s);
  are_in_sync({"c"});
  a.open_the_gate();
  EXPECT_TRUE(looks_again());
  EXPECT_TRUE(a.rests());
  EXPECT_FALSE(a.erased_p0()) << "only c has what was acknowledged by now";
  are_in_sync({"b", "c"});
  EXPECT_TRUE(eventually([&] { return a.erased_p0(); }));
}

/// It is as old as the state is, not as the answer that the executor gets.
TEST_F(PlacementPermission, TheExecutorWasBusy) {
  GatedHost a(proxy, "open p1");
  be_allowed(a, true);
  testkit::let_age(2s);
  are_in_sync({"c"});
  a.be_busy(false);
  a.open_the_gate();
  EXPECT_TRUE(looks_again());
  EXPECT_TRUE(a.rests());
  EXPECT_FALSE(a.erased_p0());
}

TEST_F(PlacementPermission, AnotherSessionHasTheId) {
  GatedHost a(proxy, "open p1");
  be_allowed(a);
  zkclient::Transaction taken;
  taken.remove("/app/hosts/a").create("/app/hosts/a", "host 1 1 -", {.mode = zkclient::CreateMode::ephemeral});
  the_operator().commit(taken);
  EXPECT_TRUE(a.has_problem(Errc::node_exists, "/app/hosts/a"));
  a.open_the_gate();
  EXPECT_TRUE(a.rests());
  EXPECT_FALSE(a.erased_p0());
  the_operator().remove("/app/hosts/a");
  EXPECT_TRUE(eventually([&] { return a.erased_p0(); })) << "it is asked again";
}

TEST_F(PlacementPermission, TheHostLeaves) {
  GatedHost a(proxy, "open p1");
  be_allowed(a);
  a.hosted().leave(within_patience());
  a.open_the_gate();
  EXPECT_TRUE(a.rests());
  EXPECT_FALSE(a.erased_p0());
}

/// A former process has closed p0, and has left its copy behind. Its session is not over yet.
TEST_F(PlacementErasure, HostRestartsBeforeItsCopyIsErased) {
  place_p0({"b", "c"});
  place("p1", {"a"});
  are_in_sync({"b", "c"});
  the_operator().create("/app/groups/p0/members/a", "", {.mode = zkclient::CreateMode::ephemeral});
  HostedReplicasOptions options;
  options.copies = {"p0", "p1"};
  GatedHost a(proxy, "erase p0", options);
  ASSERT_TRUE(a.was_told({"open p1"}));
  EXPECT_TRUE(looks_again());
  EXPECT_FALSE(a.erased_p0());
  a.throw_at_the_gate();
  the_operator().remove("/app/groups/p0/members/a");
  EXPECT_TRUE(a.waits_at_the_gate()) << "it is told again";
  a.open_the_gate();
  EXPECT_TRUE(a.rests());
  EXPECT_EQ(a.told(), (Partitions{"open p1", "erase p0", "erase p0"}));
}

TEST_F(PlacementErasure, NobodyKnowsWhetherACopyIsNeeded) {
  GatedHost a(proxy, "");
  ASSERT_TRUE(a.was_told({"open p0"}));
  const std::string placement = "/app/placement/p0";
  const std::string state = "/app/groups/p0/state";
  place_p0({"b", "c"});
  EXPECT_TRUE(a.has_problem(Errc::foreign_node, state));
  the_operator().remove(state);
  EXPECT_TRUE(a.has_problem(Errc::no_node, state));
  the_operator().create(state, "");
  are_in_sync({"a", "c"});
  EXPECT_TRUE(eventually([&] { return !a.hosted().problem(); })) << "it is needed";
  the_operator().set(placement, "by hand");
  EXPECT_TRUE(a.has_problem(Errc::foreign_node, placement));
  the_operator().remove(placement);
  EXPECT_TRUE(a.has_problem(Errc::no_node, placement));
  place_p0({"b", "c"});
  the_operator().set_acl(state, {Acl{Acl::write | Acl::admin, "world", "anyone"}});
  EXPECT_TRUE(a.has_problem(Errc::no_auth, "/app/groups/p0"));
  the_operator().set_acl(state, zkclient::open_acl());
  are_in_sync({"b", "c"});
  EXPECT_TRUE(a.was_told({"open p0", "close p0", "erase p0"}));
  EXPECT_TRUE(eventually([&] { return !a.hosted().problem(); }));
}

TEST_F(PlacementErasure, CloseHangs) {
  GatedHost a(proxy, "close p0");
  ASSERT_TRUE(a.was_told({"open p0"}));
  place_p0({"b", "c"});
  ASSERT_TRUE(a.waits_at_the_gate());
  EXPECT_TRUE(a.has_problem(Errc::not_available, "/app/groups/p0"));
  const std::string told(a.hosted().problem().value().detail());
  EXPECT_NE(told.find("close() of partition p0"), std::string::npos) << told;
  a.open_the_gate();
  EXPECT_TRUE(eventually([&] {
    const auto problem = a.hosted().problem();
    return !problem || problem->errc() != Errc::not_available;
  }));
}

/// The last primary was a, which could not reach b while it was closing: it took b out, and wrote on.
TEST_F(PlacementErasure, ACopyStaysUntilAllWantedHaveWhatItHas) {
  const Client client = calm_proxied();
  IdleHost a(client, "a");
  ASSERT_TRUE(a.has({"p0"}));
  are_in_sync({"c"});
  place_p0({"b", "c"});
  ASSERT_TRUE(a.has({}));
  EXPECT_TRUE(looks_again());
  EXPECT_EQ(a.erased(), 0) << "only c has what was acknowledged last";
  are_there({"b"}, "emptied-");
  are_in_sync({"b", "c"});
  EXPECT_TRUE(looks_again());
  EXPECT_EQ(a.erased(), 0) << "the state names the disk that b had, and c takes b out in a moment";
  are_there({"b"});
  EXPECT_TRUE(eventually([&] { return a.erased() == 1; }));
}

/// The host is taken in just before it leaves: so the state has to be younger than the look at the member.
TEST_F(PlacementErasure, AHostLeavesWhileItIsLookedFor) {
  const Client client = calm_proxied();
  IdleHost a(client, "a");
  ASSERT_TRUE(a.has({"p0"}));
  are_in_sync({"b", "c"});
  auto gone = proxy.hold_next_reply(zktesting::RequestType::exists);
  place_p0({"b", "c"});
  ASSERT_TRUE(gone.wait(patience));
  are_in_sync({"a", "b", "c"});
  gone.release();
  EXPECT_TRUE(looks_again());
  EXPECT_EQ(a.erased(), 0) << "b and c may be taken out, and a read at the time of the look does not show that";
  are_in_sync({"b", "c"});
  EXPECT_TRUE(eventually([&] { return a.erased() == 1; }));
}

TEST_F(PlacementFaults, NoPlacer) {
  const Client client = calm_direct();
  auto placer = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  placer.reset();
  const auto d = host(client, "d");
  EXPECT_TRUE(eventually([&] { return the_operator().exists("/app/hosts/d").has_value(); }));
  EXPECT_TRUE(all_on(map, {"a", "b", "c"}));
  placer = place(client);
  EXPECT_TRUE(all_on(map, {"a", "b", "c", "d"}));
}

TEST_F(PlacementFaults, PlacerIsCutOff) {
  const Client cut = contended_proxied();
  const Client client = calm_direct();
  const auto first = place(cut);
  ASSERT_TRUE(eventually([&] { return first->leads(); }));
  const auto second = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  refuse_and_cut();
  EXPECT_TRUE(eventually([&] { return second->leads(); }));
  EXPECT_FALSE(first->leads());
  const auto d = host(client, "d");
  EXPECT_TRUE(all_on(map, {"a", "b", "c", "d"}));
}

TEST_F(PlacementFaults, ReplyOfAStepIsLost) {
  const Client client = calm_direct();
  const Client lossy = calm_proxied();
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const PlacementMap map(client, "/app");
  const auto placer = place(lossy);
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  // The multi after a heartbeat is a step's: the next heartbeat comes seconds later.
  const auto wait_for_heartbeat = [this] {
    const auto multi = zktesting::RequestType::multi;
    EXPECT_TRUE(proxy.wait_for_requests(multi, proxy.request_count(multi) + 1, patience));
  };
  const auto written = [&] {
    std::vector<std::int32_t> versions;
    for (const std::string& partition : partitions)
      versions.push_back(the_operator().get(Path("/app/placement") / partition).stat.version);
    return versions;
  };
  wait_for_heartbeat();
  const auto before = written();
  const auto reply = lose(false);
  const auto d = host(client, "d");
  EXPECT_TRUE(reply.wait(patience));
  EXPECT_NE(written(), before) << "the reply of a heartbeat was lost";
  EXPECT_TRUE(all_on(map, {"a", "b", "c", "d"}));
  wait_for_heartbeat();
  const auto request = lose(true);
  d->hosted().drain(within_patience());
  EXPECT_TRUE(all_on(map, {"a", "b", "c"}));
  EXPECT_TRUE(request.happened());
}

/// On a flapping link the connection breaks in each look. What only adds replicas is written all the same.
TEST_F(PlacementFaults, ConnectionBreaksWhileThePlacerDecides) {
  const Client client = calm_direct();
  const Client deciding = calm_proxied();
  IdleHost a(client, "a");
  IdleHost b(client, "b");
  ASSERT_TRUE(
      eventually([&] { return the_operator().exists("/app/hosts/a") && the_operator().exists("/app/hosts/b"); }));
  PlacerOptions options = quick();
  options.settle = 0ms;
  const auto sync = zktesting::RequestType::sync;
  auto lost = proxy.drop_next_reply(sync);
  const auto placer = place(deciding, options);
  const auto written = [&] { return the_operator().exists("/app/placement/p0").has_value(); };
  for (int look = 0; look < 20 && !written(); ++look) {
    ASSERT_TRUE(lost.wait(patience));
    for (int i = 0; i < 3; ++i) {  // The one that is sent again, and two others: a look has three.
      auto passed = proxy.hold_next_reply(sync);
      ASSERT_TRUE(passed.wait(patience));
      if (i == 2) lost = proxy.drop_next_reply(sync);
      passed.release();
    }
  }
  EXPECT_TRUE(written());
}

TEST_F(PlacementFaults, ServerRefusesAStep) {
  const Client client = calm_direct();
  const auto placer = place(client, one_at_a_time());
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  ASSERT_TRUE(eventually([&] { return a->hosted().hosted() == partitions && b->hosted().hosted() == partitions; }));
  the_operator().set_acl("/app/placement/p0", {Acl{Acl::read | Acl::admin, "world", "anyone"}});
  const auto c = host(client, "c");
  EXPECT_TRUE(eventually([&] { return c->hosted().hosted() == Partitions{"p1", "p2", "p3"}; }));
  EXPECT_TRUE(has_problem(*placer, Errc::no_auth));
  EXPECT_EQ(placer->problem().value().path(), "/app/placement/p0");
  the_operator().set_acl("/app/placement/p0", zkclient::open_acl());
  const auto next = place(client, one_at_a_time());
  EXPECT_TRUE(eventually([&] { return c->hosted().hosted() == partitions; })) << "it is tried again";
  EXPECT_TRUE(eventually([&] { return !placer->problem(); }));
}

TEST_F(PlacementFaults, AHostCannotBeRead) {
  const Client client = calm_direct();
  auto placer = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const auto d = host(client, "d");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c", "d"}));
  placer.reset();
  const int closed = a->closed();
  the_operator().set_acl("/app/hosts/a", {Acl{Acl::write | Acl::admin, "world", "anyone"}});
  placer = place(calm_direct());
  EXPECT_TRUE(has_problem(*placer, Errc::no_auth));
  EXPECT_EQ(a->closed(), closed) << "it was taken for one that has gone";
  the_operator().set_acl("/app/hosts/a", zkclient::open_acl());
  EXPECT_TRUE(eventually([&] { return !placer->problem(); }));
  EXPECT_TRUE(all_on(map, {"a", "b", "c", "d"}));
}

TEST_F(PlacementFaults, AGroupCannotBeRead) {
  const Client client = calm_direct();
  auto placer = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  placer.reset();
  the_operator().set_acl("/app/groups/p0/state", {Acl{Acl::write | Acl::admin, "world", "anyone"}});
  placer = place(calm_direct());
  EXPECT_TRUE(has_problem(*placer, Errc::no_auth));
  const auto d = host(client, "d");
  EXPECT_TRUE(eventually([&] { return !d->hosted().hosted().empty(); })) << "the other partitions go on";
  for (const auto* one : {&a, &b, &c}) {
    const auto hosted = (*one)->hosted().hosted();
    EXPECT_EQ(std::count(hosted.begin(), hosted.end(), "p0"), 1) << "nothing of it is taken away";
  }
  the_operator().remove("/app/placement/p0");
  the_operator().remove("/app/placement/p1");
  EXPECT_TRUE(eventually([&] {
    return names("/app/placement") == Partitions{"p1", "p2", "p3"};
  })) << "what is known of p1 is enough for its placement";
  the_operator().set_acl("/app/groups/p0/state", zkclient::open_acl());
  EXPECT_TRUE(eventually([&] { return !placer->problem(); }));
  EXPECT_TRUE(all_on(map, {"a", "b", "c", "d"}));
}

/// One who is in sync is away for a moment, when the placement is removed and nobody can read who is in sync.
TEST_F(PlacementFaults, AStateIsForeign) {
  const Client client = calm_direct();
  the_operator().ensure("/app/groups/p0", zkclient::CreateMode::persistent);
  the_operator().create("/app/groups/p0/state", "by hand");
  IdleHost a(client, "a");
  IdleHost b(client, "b");
  const auto placer = place(client);
  EXPECT_TRUE(eventually([&] { return names("/app/placement") == Partitions{"p1", "p2", "p3"}; }));
  EXPECT_TRUE(has_problem(*placer, Errc::foreign_node));
  EXPECT_EQ(placer->problem().value().path(), "/app/groups/p0/state");
  the_operator().set("/app/groups/p0/state",
                     "replicas 1 epoch=7 primary=c minimum=1 forced=0 leaving=0\nc disk-c 1000\n");
  EXPECT_TRUE(eventually([&] { return names("/app/placement") == partitions; }));
  EXPECT_EQ(the_operator().get("/app/placement/p0").data, "placement 1\na wanted\nb wanted\nc leaving\n");
  EXPECT_TRUE(eventually([&] { return !placer->problem(); }));
  the_operator().set("/app/groups/p0/state", "by hand");
  EXPECT_TRUE(has_problem(*placer, Errc::foreign_node));
}

/// What other programs have put beside the nodes that tell members apart.
TEST_F(PlacementFaults, MembersHaveForeignNodesBesideThem) {
  const Client client = calm_direct();
  const Client deciding = calm_proxied();
  const auto placer = place(deciding);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  constexpr int many = 1'001;
  const auto plant = [&](const std::string& partition, const char* format) {
    zkclient::Transaction all;
    for (int i = 0; i < many; ++i)
      all.create(Path("/app/groups") / partition / "members-presence" / fmt::format(fmt::runtime(format), i), "");
    the_operator().commit(all);
  };
  plant("p0", "foreign-{}");
  plant("p1", "00000000-0000-4000-8000-{:012x}");
  const std::size_t looks = proxy.request_count(zktesting::RequestType::exists);
  a->hosted().async_drain([](const zkclient::Result<void>&) {}, within_patience());
  EXPECT_TRUE(eventually([&] { return a->hosted().hosted() == Partitions{"p1"}; })) << "the others move";
  EXPECT_TRUE(has_problem(*placer, Errc::foreign_node));
  EXPECT_EQ(placer->problem().value().path(), "/app/placement/p1");
  EXPECT_LT(proxy.request_count(zktesting::RequestType::exists), looks + many) << "it looks at foreign nodes";
}

/// A move is about to end, since all members that are wanted are ready, when one of them is back with an empty disk: as
/// the same member, with a node of the same version.
TEST_F(PlacementFaults, HostIsBackWithAnEmptyDiskWhileThePlacerDecides) {
  const Client members = calm_direct();
  the_operator().ensure("/app/groups/p0/members-presence", zkclient::CreateMode::persistent);
  the_operator().ensure("/app/groups/p0/members", zkclient::CreateMode::persistent);
  the_operator().ensure("/app/placement", zkclient::CreateMode::persistent);
  the_operator().ensure("/app/hosts", zkclient::CreateMode::persistent);
  const zkclient::CreateOptions ephemeral{.mode = zkclient::CreateMode::ephemeral};
  const auto join = [&](const std::string& id, const std::string& storage, const std::string& witness) {
    const Path group = "/app/groups/p0";
    zkclient::Transaction both;
    both.create(group / "members" / id, "replica 1 " + storage + " 1000 0 at-" + id, ephemeral);
    both.create(group / "members-presence" / witness, "", ephemeral);
    members.commit(both);
  };
  members.create("/app/hosts/b", "host 1 1 -", ephemeral);
  members.create("/app/hosts/c", "host 1 1 -", ephemeral);
  const std::string witness_of_b = "00000000-0000-4000-8000-00000000000b";
  join("b", "disk-b", witness_of_b);
  the_operator().create("/app/groups/p0/state",
                        "replicas 1 epoch=7 primary=c minimum=1 forced=0 leaving=0\n"
                        "a disk-a 1000\nb disk-b 1000\nc disk-c 1000\n");
  const std::string moving = "placement 1\na leaving\nb wanted\nc wanted\n";
  the_operator().create("/app/placement/p0", moving);
  the_operator().create("/app/placement/p1", "by hand");
  PlacerOptions options = quick();
  options.replicas = 2;
  const Client deciding = calm_proxied();
  Placer placer(deciding, "/app", {"p0", "p1"}, options);
  placer.start();
  ASSERT_TRUE(has_problem(placer, Errc::foreign_node)) << "it has looked";
  auto witness_seen = proxy.hold_next_reply(zktesting::RequestType::exists);
  const std::size_t looks = proxy.request_count(zktesting::RequestType::exists);
  join("c", "disk-c", "00000000-0000-4000-8000-00000000000c");
  ASSERT_TRUE(witness_seen.wait(patience));
  EXPECT_TRUE(proxy.wait_for_requests(zktesting::RequestType::exists, looks + 2, patience)) << "one after the other";
  zkclient::Transaction gone;
  gone.remove("/app/groups/p0/members/b").remove(Path("/app/groups/p0/members-presence") / witness_of_b);
  members.commit(gone);
  join("b", "disk-new", "00000000-0000-4000-8000-0000000000bb");
  witness_seen.release();
  const auto steps = proxy.request_count(zktesting::RequestType::sync);
  EXPECT_TRUE(proxy.wait_for_requests(zktesting::RequestType::sync, steps + 3, patience)) << "it looks again";
  EXPECT_EQ(the_operator().get("/app/placement/p0").data, moving) << "only one of those wanted has all writes";
}

/// The placer has looked at the hosts, and not at the placements yet, when one of them is drained.
TEST_F(PlacementFaults, HostIsDrainedWhileThePlacerDecides) {
  const Client client = calm_direct();
  PlacerOptions options = quick();
  options.settle = 0ms;
  const auto placer = place(calm_proxied(), options);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  ASSERT_TRUE(eventually([&] { return a->hosted().hosted() == partitions && b->hosted().hosted() == partitions; }));
  auto hosts = proxy.hold_next_reply(zktesting::RequestType::sync);
  auto placements = proxy.hold_next_reply(zktesting::RequestType::sync);
  const auto c = host(client, "c");
  ASSERT_TRUE(hosts.wait(patience));
  hosts.release();
  ASSERT_TRUE(placements.wait(patience));
  c->hosted().drain(within_patience());
  placements.release();
  const auto d = host(client, "d");
  EXPECT_TRUE(eventually([&] { return d->hosted().hosted() == partitions; }));
  const auto written = the_operator().get("/app/placement/p0");
  EXPECT_EQ(written.data, "placement 1\na wanted\nb wanted\nd wanted\n");
  EXPECT_EQ(written.stat.version, 1) << "c got something after it was drained";
}

TEST_F(PlacementFaults, AnotherProcessTakesTheIdOfALostSession) {
  const Client cut = contended_proxied();
  const Client client = calm_direct();
  the_operator().create("/app/placement", "");
  the_operator().create("/app/placement/p0", "placement 1\na wanted\n");
  IdleHost first(cut, "a");
  ASSERT_TRUE(first.has({"p0"}));
  refuse_and_cut();
  IdleHost second(client, "a");
  ASSERT_TRUE(second.has({"p0"}));
  proxy.refuse(false);
  ASSERT_TRUE(eventually([&] {
    const auto problem = first.hosted().problem();
    return problem && problem->errc() == Errc::node_exists;
  }));
  the_operator().create("/app/placement/p1", "placement 1\na wanted\n");
  the_operator().set("/app/placement/p0", "placement 1\nb wanted\n");
  EXPECT_TRUE(first.has({})) << "it closes what it had, and opens nothing";
  EXPECT_TRUE(second.has({"p1"}));
  second.hosted().leave(within_patience());
  EXPECT_TRUE(first.has({"p1"}));
}

/// Names that a node below `placement` can have, while no group can: there is no room for its nodes.
TEST_F(PlacementFaults, APlacementHasTooLongAName) {
  const Client client = calm_direct();
  the_operator().create("/app/placement", "");
  const std::string placed = "placement 1\na wanted\n";
  const std::size_t above = std::string("/app/placement/").size();
  for (const std::size_t left : {0U, 5U, 100U}) {
    const std::string name(Path::max_size - above - left, 'x');
    the_operator().create(Path("/app/placement") / name, placed);
  }
  the_operator().create("/app/placement/p0", placed);
  std::map<std::string, std::unique_ptr<ReplicaGroup>> groups;
  HostedReplicasHandlers handlers;
  handlers.open = [&](const HostedReplica& replica) {
    ReplicaHandlers told{[](const PrimaryTerm&) {}, [](const SecondaryTerm&) {}};
    const Replica self{"a", "disk-a"};
    groups[replica.partition] = std::make_unique<ReplicaGroup>(client, replica.group, self, std::move(told));
  };
  handlers.close = [&](const HostedReplica& replica) { groups.erase(replica.partition); };
  HostedReplicas a(client, "/app", {"a"}, std::move(handlers));
  a.start();
  EXPECT_TRUE(eventually([&] { return a.hosted() == Partitions{"p0"}; }));
  the_operator().set("/app/placement/p0", "placement 1\nb wanted\n");
  a.drain(within_patience());
  EXPECT_TRUE(eventually([&] { return a.hosted().empty(); }));
}

TEST_F(PlacementFaults, AHandlerThrows) {
  the_operator().create("/app/placement", "");
  for (const std::string& partition : partitions)
    the_operator().create(Path("/app/placement") / partition, "placement 1\na wanted\n");
  std::atomic<int> thrown{0};
  const auto survives = [&thrown](const std::function<void()>& task) {
    try {
      task();
    } catch (const std::domain_error&) {
      ++thrown;
    }
  };
  zkclient::Runtime runtime({.callback_executor = survives});
  const Client client(runtime, proxy.connect_string(), {.session_timeout = calm});
  std::atomic<int> opened{0};
  HostedReplicasHandlers handlers;
  handlers.open = [&opened](const HostedReplica& replica) {
    ++opened;
    if (replica.partition == "p0") throw std::domain_error("its storage cannot be opened");
  };
  std::atomic<int> closed{0};
  handlers.close = [&closed](const HostedReplica& replica) {
    ++closed;
    if (replica.partition == "p1") throw std::domain_error("its group cannot be left");
  };
  HostedReplicas a(client, "/app", {"a"}, std::move(handlers));
  a.start();
  EXPECT_TRUE(eventually([&] { return opened == 4; })) << "the other ones wait for news that does not come";
  EXPECT_TRUE(eventually([&] { return thrown == 1; }));
  for (const char* partition : {"p1", "p2"})
    the_operator().set(Path("/app/placement") / partition, "placement 1\nb wanted\n");
  EXPECT_TRUE(eventually([&] { return thrown == 2 && closed >= 2 && a.hosted() == Partitions{"p0", "p3"}; }));
  EXPECT_EQ(closed, 2) << "it is told once";
  EXPECT_EQ(opened, 4);
}

/// A host hangs in the first replica that it opens. What goes to another host must not wait for that.
TEST_F(PlacementFaults, AHandlerNeverEnds) {
  if (!time_is_made()) GTEST_SKIP() << "a placer waits for half a minute";
  const Client client = calm_direct();
  const auto placer = place(client, one_at_a_time());
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  Box<bool> begun;
  Box<bool> may_end;
  HostedReplicasHandlers handlers;
  handlers.open = [&](const HostedReplica&) {
    begun.put(true);
    may_end.put(may_end.take());
  };
  handlers.close = [](const HostedReplica&) {};
  HostedReplicas d(client, "/app", {"d"}, std::move(handlers));
  d.start();
  ASSERT_TRUE(begun.take());
  const auto e = host(client, "e");
  EXPECT_TRUE(eventually([&] { return e->hosted().hosted().size() >= 2; }));
  EXPECT_TRUE(has_problem(*placer, Errc::not_available)) << "d does not join";
  may_end.put(true);
  EXPECT_TRUE(eventually([&] { return d.hosted().size() >= 2; }));
}

TEST_F(PlacementFaults, APlacementIsForeign) {
  const Client client = calm_direct();
  const auto placer = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(eventually([&] { return a->hosted().hosted() == partitions && b->hosted().hosted() == partitions; }));
  the_operator().set("/app/placement/p0", "by hand");
  EXPECT_TRUE(has_problem(*placer, Errc::foreign_node));
  the_operator().remove("/app/placement/p1");
  const auto c = host(client, "c");
  EXPECT_TRUE(eventually([&] { return c->hosted().hosted() == Partitions{"p1", "p2", "p3"}; }));
  the_operator().set("/app/placement/p2", "placement 1\n");
  the_operator().set("/app/placement/p0", the_operator().get("/app/placement/p1").data);
  EXPECT_TRUE(eventually([&] {
    const auto problem = placer->problem();
    return problem && problem->path() == "/app/placement/p2";
  }));
  EXPECT_EQ(a->closed() + b->closed() + c->closed(), 0) << "without a host it is no placement";
}

TEST_F(PlacementFaults, PlacementsAreRemovedByHand) {
  const Client client = calm_direct();
  auto placer = place(client);
  std::vector<std::unique_ptr<TestHost>> hosts;
  std::set<std::string> ids;
  for (const char* id : {"a", "b", "c", "d", "e", "f"}) {
    hosts.push_back(host(client, id));
    ids.insert(id);
  }
  const PlacementMap map(client, "/app");
  ASSERT_TRUE(all_on(map, ids));
  for (int i = 0; i < 3; ++i) {
    EXPECT_TRUE(goes_on());
    placer.reset();
    for (const std::string& partition : partitions)
      the_operator().remove(Path("/app/placement") / partition);
    if (i == 1) hosts[0]->hosted().leave(within_patience());  // Others are wanted now.
    placer = place(client);
    if (i == 1) ids.erase("a");
    EXPECT_TRUE(goes_on());
    EXPECT_TRUE(eventually([&] { return names("/app/placement") == partitions; }));
  }
  EXPECT_TRUE(goes_on());
  expect_nothing_lost();
}

TEST_F(PlacementFaults, TwoHostsWithOneId) {
  const Client client = calm_direct();
  const Client other = calm_direct();
  const auto placer = place(client);
  auto first = host(client, "a");
  const auto b = host(client, "b");
  ASSERT_TRUE(eventually([&] { return first->hosted().hosted() == partitions; }));
  const auto second = host(other, "a");
  EXPECT_TRUE(eventually([&] {
    const auto problem = second->hosted().problem();
    return problem && problem->errc() == Errc::node_exists;
  }));
  EXPECT_TRUE(second->hosted().hosted().empty());
  first.reset();
  EXPECT_TRUE(eventually([&] { return second->hosted().hosted() == partitions; }));
}

TEST_F(PlacementFaults, ClientClosed) {
  Client client = calm_direct();
  const auto placer = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  ASSERT_TRUE(eventually([&] { return a->hosted().hosted() == partitions; }));
  const PlacementMap map(client, "/app");
  client.close();
  EXPECT_FALSE(placer->leads());
  EXPECT_EQ(error_of([&] { a->hosted().drain(within_patience()); }), Errc::closed);
  EXPECT_EQ(error_of([&] { map.wait_primary("p0", {}, within_patience()); }), Errc::closed);
}

/// Nine hosts in three racks, of which some are behind the proxy.
class PlacementChurn : public PlacementFaults {
 protected:
  void start(std::size_t number) {
    const std::string id = "h" + std::to_string(number);
    ids.insert(id);
    hosts[number] = host(number < 3 ? contended_proxied() : calm_direct(), id, "rack-" + std::to_string(number % 3));
  }
  /// As if its process had died: nothing is said to anybody.
  void kill(std::size_t number) {
    Client(hosts[number]->client()).close();
    hosts[number].reset();
  }
  void start_all() {
    for (std::size_t i = 0; i < hosts.size(); ++i) {
      if (drained.erase(i) > 0 && hosts[i] != nullptr) kill(i);
      if (hosts[i] == nullptr) start(i);
    }
  }
  void trouble(std::size_t what, std::size_t number) {
    switch (what) {
      case 0:
      case 1:
        if (hosts[number] != nullptr) kill(number);
        break;
      case 2: start_all(); break;
      case 3:
        if (hosts[number] != nullptr && number >= 3) expire(hosts[number]->client());
        break;
      case 4:
        if (hosts[number] == nullptr || !drained.insert(number).second) break;
        hosts[number]->hosted().async_drain([](const zkclient::Result<void>&) {}, within_patience());
        break;
      case 5: refuse_and_cut(); break;
      default: proxy.refuse(false); break;
    }
  }

  std::vector<std::unique_ptr<TestHost>> hosts{9};
  std::set<std::size_t> drained;
  std::set<std::string> ids;
};

TEST_F(PlacementChurn, NothingIsLostAndEachPartitionIsBackAtItsReplicas) {
  const unsigned seed = testkit::seed();
  SCOPED_TRACE("ZKRECIPES_SEED=" + std::to_string(seed));
  std::minstd_rand random(seed);
  const Client client = calm_direct();
  auto placer = place(client);
  const PlacementMap map(client, "/app");
  start_all();
  ASSERT_TRUE(all_on(map, ids));
  for (int round = 0; round < 30; ++round) {
    for (std::size_t i = 0; i < 1 + random() % 2; ++i)
      trouble(random() % 7, random() % hosts.size());
    if (random() % 4 == 0) placer = place(client);
    if (random() % 2 == 0) {
      proxy.refuse(false);
      start_all();
      EXPECT_TRUE(goes_on()) << round;
    }
  }
  proxy.refuse(false);
  start_all();
  EXPECT_TRUE(all_on(map, ids));
  EXPECT_TRUE(goes_on());
  EXPECT_TRUE(all_on(map, ids));
  expect_nothing_lost();
}

TEST_F(PlacementFaults, AsynchronousForms) {
  const Client client = calm_direct();
  const auto placer = place(client);
  const auto a = host(client, "a");
  const auto b = host(client, "b");
  const auto c = host(client, "c");
  const PlacementMap map(client, "/app");
  Box<PartitionReplicas> found;
  map.async_wait_primary(
      "p0", {}, [&](const auto& replicas) { found.put(replicas.value()); }, within_patience());
  EXPECT_TRUE(found.take().primary);
  ASSERT_TRUE(all_on(map, {"a", "b", "c"}));
  std::atomic<std::size_t> told{0};
  const auto subscription = map.on_change([&](const PlacementMap::Partitions& now) { told = now.size(); });
  EXPECT_TRUE(eventually([&] { return told == partitions.size(); }));
  const auto done = [](const std::function<void(zkclient::Handler<void>)>& start) {
    Box<bool> ended;
    start([&](const zkclient::Result<void>& result) { ended.put(result.has_value()); });
    return ended.take();
  };
  EXPECT_TRUE(done([&](auto h) { a->hosted().async_drain(std::move(h), within_patience()); }));
  EXPECT_TRUE(eventually([&] { return a->hosted().hosted().empty(); }));
  EXPECT_TRUE(done([&](auto h) { a->hosted().async_leave(std::move(h), within_patience()); }));
  EXPECT_EQ(error_of([&] { b->hosted().async_drain({}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { b->hosted().async_leave({}); }), Errc::invalid_argument);
  HostedReplicasHandlers handlers{[](const HostedReplica&) {}, [](const HostedReplica&) {}};
  HostedReplicas unstarted(client, "/app", {"x"}, std::move(handlers));
  EXPECT_TRUE(done([&](auto h) { unstarted.async_leave(std::move(h), within_patience()); }));
}

TEST_F(PlacementFaults, BadInputIsRefused) {
  const Client client = calm_direct();
  const auto refuses_placer = [&](const Partitions& names, PlacerOptions options = {}) {
    return error_of([&] { Placer none(client, "/app", names, std::move(options)); }).value_or(Errc::closed);
  };
  EXPECT_EQ(refuses_placer({"p", "p"}), Errc::invalid_argument);
  for (const char* name : {"p/q", "", ".", "..", "p\n"})
    EXPECT_EQ(refuses_placer({name}), Errc::invalid_argument) << name;
  const std::string no_room(Path::max_size - std::string("/app/placement/").size(), 'p');
  EXPECT_EQ(refuses_placer({no_room}), Errc::invalid_argument) << "hosts would not open it";
  EXPECT_EQ(refuses_placer({"p"}, {.replicas = 0}), Errc::invalid_argument);
  EXPECT_EQ(refuses_placer({"p"}, {.replicas = 2, .minimum = 3}), Errc::invalid_argument);
  EXPECT_EQ(refuses_placer({"p"}, {.minimum = 0}), Errc::invalid_argument);
  EXPECT_EQ(refuses_placer({"p"}, {.settle = -1ms}), Errc::invalid_argument);
  EXPECT_EQ(refuses_placer({"p"}, {.max_moving = 0}), Errc::invalid_argument);
  EXPECT_EQ(refuses_placer({"p"}, {.acl = {}}), Errc::invalid_acl);
  const auto refuses_host = [&](ReplicaHost host, bool with_handlers = true) {
    HostedReplicasHandlers handlers;
    if (with_handlers) {
      handlers.open = [](const HostedReplica&) {};
      handlers.close = [](const HostedReplica&) {};
    }
    return error_of([&] { HostedReplicas none(client, "/app", std::move(host), std::move(handlers)); });
  };
  EXPECT_EQ(refuses_host({"a b"}), Errc::invalid_argument);
  EXPECT_EQ(refuses_host({""}), Errc::invalid_argument);
  EXPECT_EQ(refuses_host({"a", "rack 1"}), Errc::invalid_argument);
  EXPECT_EQ(refuses_host({"a", "", 1'000'001}), Errc::invalid_argument);
  EXPECT_EQ(refuses_host({"a"}, false), Errc::invalid_argument);
  for (const std::string& copy : {std::string("p/q"), std::string(".."), no_room}) {
    HostedReplicasHandlers handlers{[](const HostedReplica&) {}, [](const HostedReplica&) {}};
    const auto refused = error_of([&] {
      HostedReplicas none(client, "/app", {"a"}, std::move(handlers), {.copies = {"p0", copy}});
    });
    EXPECT_EQ(refused, Errc::invalid_argument) << copy;
  }
  const PlacementMap map(client, "/app");
  EXPECT_EQ(error_of([&] { map.wait_primary("p/../q"); }), Errc::invalid_path);
  EXPECT_EQ(error_of([&] { map.async_wait_primary("p", {}, {}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([&] { (void)map.on_change({}); }), Errc::invalid_argument);
}

}  // namespace
}  // namespace zkrecipes
