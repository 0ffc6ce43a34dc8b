// What a client has written is in what it reads next, also when the word of the change takes its time: every answer of the
// server is late, so a view hears of a change long before it can read it. One section per table row in docs/views.md.

#include <gtest/gtest.h>

#include <atomic>
#include <functional>
#include <thread>
#include <vector>

#include <zkrecipes/children_cache.hpp>
#include <zkrecipes/coherent_cache.hpp>
#include <zkrecipes/configuration.hpp>
#include <zkrecipes/counter.hpp>
#include <zkrecipes/discovery.hpp>
#include <zkrecipes/group.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/naming.hpp>
#include <zkrecipes/node_cache.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zkrecipes/replica_group.hpp>
#include <zkrecipes/shared_value.hpp>
#include <zkrecipes/tree_cache.hpp>

#include "tests/recipes/views/cache_support.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::has_data;
using Strings = std::vector<std::string>;

const testkit::OnRealServers own_writes_on_real_servers{"OwnWrites.Caches", "OwnWrites.GroupBehindFaults"};

/// Each answer arrives that much later.
constexpr auto lateness = 15ms;
constexpr int tries = 5;

class OwnWrites : public testkit::RecipeFaultTest {
 protected:
  OwnWrites() : RecipeFaultTest("/own") { proxy.delay(Direction::to_client, lateness); }

  /// All that a view may send.
  std::size_t reads() const {
    return proxy.request_count(RequestType::get_data) + proxy.request_count(RequestType::get_children2) +
           proxy.request_count(RequestType::get_children) + proxy.request_count(RequestType::exists) +
           proxy.request_count(RequestType::sync);
  }
  /// What an asynchronous call hands to its handler.
  template <typename T, typename Start>
  static T result(Start start) {
    Box<Result<T>> box;
    start(zkclient::Handler<T>([&box](Result<T> result) { box.put(std::move(result)); }));
    return std::move(box.take()).value();
  }
  template <typename Start>
  static void done(Start start) {
    Box<Result<void>> box;
    start(zkclient::Handler<void>([&box](Result<void> result) { box.put(std::move(result)); }));
    box.take().value();
  }
  static Snapshot async_ready(const Cache& cache) {
    return result<Snapshot>([&](auto handler) { cache.async_wait_ready(std::move(handler), {.deadline = soon()}); });
  }
  static Snapshot async_refresh(const Cache& cache) {
    return result<Snapshot>(
        [&](auto handler) { cache.async_refresh(ReadBarrier::none, std::move(handler), {.deadline = soon()}); });
  }
  static Snapshot async_any(const Cache& cache) {
    const auto any = [](const Snapshot&) { return true; };
    return result<Snapshot>(
        [&](auto handler) { cache.async_wait_until(any, std::move(handler), {.deadline = soon()}); });
  }
  /// All calls of a cache that wait.
  static std::vector<std::function<Snapshot(const Cache&)>> waiting_reads() {
    const auto any = [](const Snapshot&) { return true; };
    return {[](const Cache& cache) { return cache.wait_ready({.deadline = soon()}); },
            [](const Cache& cache) { return cache.refresh(ReadBarrier::none, {.deadline = soon()}); },
            [any](const Cache& cache) { return cache.wait_until(any, {.deadline = soon()}); },
            &async_ready,
            &async_refresh,
            &async_any};
  }
};

// --- Caches: after every write of the client -------------------------------------------------------------------------

TEST_F(OwnWrites, Caches) {
  const Client client = calm_proxied();
  const NodeCache node(client, "/own/a");
  const ChildrenCache children(client, "/own");
  const TreeCache tree(client, "/own");
  for (const Cache* cache :
       {static_cast<const Cache*>(&node), static_cast<const Cache*>(&children), static_cast<const Cache*>(&tree)}) {
    for (const auto& read : waiting_reads()) {
      client.create("/own/a", "1");
      EXPECT_TRUE(has_data(read(*cache), "/own/a", "1")) << "created";
      client.set("/own/a", "2");
      EXPECT_TRUE(has_data(read(*cache), "/own/a", "2")) << "set";
      client.remove("/own/a");
      EXPECT_FALSE(read(*cache).exists("/own/a")) << "removed";
      client.commit(Transaction().create("/own/a", "3").create("/own/b", "3"));
      EXPECT_TRUE(has_data(read(*cache), "/own/a", "3")) << "committed";
      client.commit(Transaction().remove("/own/a").remove("/own/b"));
      EXPECT_FALSE(read(*cache).exists("/own/a")) << "committed";
    }
  }
}

TEST_F(OwnWrites, SequentialNodes) {
  const Client client = calm_proxied();
  const ChildrenCache cache(client, "/own");
  for (int i = 0; i < tries; ++i) {
    const auto made = client.create("/own/n-", "x", {.mode = zkclient::CreateMode::persistent_sequential});
    EXPECT_TRUE(cache.wait_ready({.deadline = soon()}).exists(made.path));
  }
}

// Without news no call sends anything, and neither does a write where nothing is viewed.
TEST_F(OwnWrites, CostNothing) {
  const Client client = calm_proxied();
  client.create("/elsewhere", "");
  const TreeCache cache(client, "/own");
  cache.wait_ready({.deadline = soon()});
  const std::size_t before = reads();
  for (const auto& read : waiting_reads()) {
    client.set("/elsewhere", "x");
    read(cache);
  }
  EXPECT_EQ(reads(), before);
  client.set("/own", "x");
  for (const auto& read : waiting_reads())
    EXPECT_TRUE(has_data(read(cache), "", "x"));
  EXPECT_EQ(reads(), before + 1) << "the node that has changed";
}

// A change that rests is published for the one who made it.
TEST_F(OwnWrites, DoNotRest) {
  const Client client = calm_proxied();
  const TreeCache cache(client, "/own", {.max_delay = std::chrono::hours(1), .quiet = std::chrono::hours(1)});
  cache.wait_ready({.deadline = soon()});
  client.set("/own", "x");
  EXPECT_TRUE(has_data(cache.wait_ready({.deadline = soon()}), "", "x"));
}

// Other clients' changes hold nobody up: what is late is not waited for, though it is known to have changed.
TEST_F(OwnWrites, OthersAreNotWaitedFor) {
  proxy.delay(Direction::to_client, 0ms);
  const Client client = calm_proxied();
  const ChildrenCache cache(client, "/own");
  cache.wait_ready({.deadline = soon()});
  auto held = proxy.hold_next_reply(RequestType::get_children2);
  the_operator().create("/own/other", "");
  ASSERT_TRUE(held.wait(testkit::patience)) << "the list is read again";
  EXPECT_FALSE(cache.wait_ready({.deadline = soon()}).exists("other"));
  held.release();
  EXPECT_TRUE(eventually([&] { return cache.snapshot().exists("other"); }));
}

// The client does not learn whether its write was applied, and finds out by itself.
TEST_F(OwnWrites, ReplyLost) {
  const Client client = calm_proxied();
  const ChildrenCache cache(client, "/own");
  for (int i = 0; i < tries; ++i) {
    cache.wait_ready({.deadline = soon()});
    const auto dropped = proxy.drop_next_reply(RequestType::create2);
    const std::string path = "/own/" + std::to_string(i);
    client.create(path, "", {.protection = true});
    ASSERT_TRUE(dropped.happened());
    EXPECT_EQ(cache.wait_ready({.deadline = soon()}).size(), static_cast<std::size_t>(i) + 1);
  }
}

// What was written with a session is in what is read with the next one.
TEST_F(OwnWrites, SessionLost) {
  const Client client = calm_proxied();
  const ChildrenCache cache(client, "/own");
  cache.wait_ready({.deadline = soon()});
  for (int i = 0; i < tries; ++i) {
    const std::string path = "/own/" + std::to_string(i);
    client.create(path, "");
    const std::stop_token lost = client.session().lost();
    expire(client);
    EXPECT_TRUE(stopped(lost));
    client.connect({.deadline = soon()});
    client.create(path + "-later", "");
    const Snapshot now = cache.wait_ready({.deadline = soon()});
    EXPECT_TRUE(now.exists(path));
    EXPECT_TRUE(now.exists(path + "-later"));
  }
}

// --- Groups ----------------------------------------------------------------------------------------------------------

Strings ids(const GroupSnapshot& group) {
  Strings all;
  for (const Member& member : group.members)
    all.push_back(member.id + "=" + member.payload);
  return all;
}

TEST_F(OwnWrites, Group) {
  Group group(calm_proxied(), "/own");
  EXPECT_EQ(ids(group.members({.deadline = soon()})), Strings{});
  for (int i = 0; i < tries; ++i) {
    Membership me = group.join("me", "1", {.deadline = soon()});
    EXPECT_EQ(ids(group.members({.deadline = soon()})), Strings{"me=1"});
    me.update("2", {.deadline = soon()});
    EXPECT_EQ(ids(group.wait_for_members(0, {.deadline = soon()})), Strings{"me=2"});
    me.leave({.deadline = soon()});
    EXPECT_EQ(ids(group.members({.deadline = soon()})), Strings{});
  }
}

TEST_F(OwnWrites, GroupAsynchronously) {
  Group group(calm_proxied(), "/own");
  const auto members = [&] {
    return result<GroupSnapshot>([&](auto handler) { group.async_members(std::move(handler), {.deadline = soon()}); });
  };
  EXPECT_EQ(ids(members()), Strings{});
  for (int i = 0; i < tries; ++i) {
    auto me = result<Membership>(
        [&](auto handler) { group.async_join("me", "1", std::move(handler), {.deadline = soon()}); });
    EXPECT_EQ(ids(members()), Strings{"me=1"});
    done([&](auto handler) { me.async_update("2", std::move(handler), {.deadline = soon()}); });
    EXPECT_EQ(ids(members()), Strings{"me=2"});
    done([&](auto handler) { me.async_leave(std::move(handler), {.deadline = soon()}); });
    EXPECT_EQ(ids(members()), Strings{});
  }
}

// However a member came to be there, and with whichever session.
TEST_F(OwnWrites, GroupBehindFaults) {
  const Client client = calm_proxied();
  Group group(client, "/own");
  group.members({.deadline = soon()});
  for (int i = 0; i < tries; ++i) {
    const auto dropped = proxy.drop_next_reply(RequestType::multi);
    Membership me = group.join("me", "1", {.deadline = soon()});
    ASSERT_TRUE(dropped.happened());
    EXPECT_EQ(ids(group.members({.deadline = soon()})), Strings{"me=1"});
    const FencingToken before = me.token();
    expire(client);
    // That it is absent in between may be over before anybody looks.
    EXPECT_TRUE(eventually([&] { return me.state() == PresenceState::present && me.token() > before; }));
    me.wait_present({.deadline = soon()});
    me.update("2", {.deadline = soon()});
    EXPECT_EQ(ids(group.members({.deadline = soon()})), Strings{"me=2"});
    const auto dropped_again = proxy.drop_next_reply(RequestType::multi);
    me.leave({.deadline = soon()});
    ASSERT_TRUE(dropped_again.happened());
    EXPECT_EQ(ids(group.members({.deadline = soon()})), Strings{});
  }
}

// --- Discovery -------------------------------------------------------------------------------------------------------

ServiceInstance instance(ServiceType type, int port) {
  ServiceInstance one;
  one.name = "web";
  one.id = "me";
  one.address = "10.0.0.1";
  one.port = port;
  one.type = type;
  return one;
}

/// The ports that are listed, and the one that is picked.
Strings offered(const ServiceProvider& provider) {
  Strings all;
  for (const ListedInstancePtr& listed : provider.instances().instances)
    all.push_back(std::to_string(*listed->instance.port));
  const ListedInstancePtr picked = provider.pick();
  all.push_back(picked != nullptr && picked->confirmed ? std::to_string(*picked->instance.port) : "none");
  return all;
}

TEST_F(OwnWrites, Provider) {
  ServiceDirectory directory(calm_proxied(), "/own");
  const ServiceProvider provider = directory.provider("web");
  const ServiceProvider other = directory.provider("other");
  for (const ServiceType type : {ServiceType::dynamic, ServiceType::fixed, ServiceType::permanent}) {
    Registration mine = directory.register_instance(instance(type, 1), {.deadline = soon()});
    EXPECT_EQ(offered(provider), (Strings{"1", "1"}));
    mine.update(instance(type, 2), {.deadline = soon()});
    EXPECT_EQ(offered(provider), (Strings{"2", "2"}));
    mine.unregister({.deadline = soon()});
    EXPECT_EQ(offered(provider), Strings{"none"});
  }
  const Registration begun = directory.begin_register_instance(instance(ServiceType::dynamic, 3));
  begun.wait_present({.deadline = soon()});
  EXPECT_EQ(offered(provider), (Strings{"3", "3"}));
}

TEST_F(OwnWrites, ProviderAsynchronously) {
  ServiceDirectory directory(calm_proxied(), "/own");
  const ServiceProvider provider = directory.provider("web");
  for (const ServiceType type : {ServiceType::dynamic, ServiceType::fixed, ServiceType::permanent}) {
    auto mine = result<Registration>([&](auto handler) {
      directory.async_register_instance(instance(type, 1), std::move(handler), {.deadline = soon()});
    });
    EXPECT_EQ(offered(provider), (Strings{"1", "1"}));
    done([&](auto handler) { mine.async_update(instance(type, 2), std::move(handler), {.deadline = soon()}); });
    EXPECT_EQ(offered(provider), (Strings{"2", "2"}));
    done([&](auto handler) { mine.async_unregister(std::move(handler), {.deadline = soon()}); });
    EXPECT_EQ(offered(provider), Strings{"none"});
  }
  Registration begun = directory.begin_register_instance(instance(ServiceType::dynamic, 3));
  done([&](auto handler) { begun.async_wait_present(std::move(handler), {.deadline = soon()}); });
  EXPECT_EQ(offered(provider), (Strings{"3", "3"}));
}

// A directory of its own: it is not told, and waits by itself.
TEST_F(OwnWrites, ProviderOfAnotherDirectory) {
  const Client client = calm_proxied();
  ServiceDirectory directory(client, "/own");
  const ServiceProvider provider = ServiceDirectory(client, "/own").provider("web");
  provider.wait_ready({.deadline = soon()});
  for (int i = 0; i < tries; ++i) {
    Registration mine = directory.register_instance(instance(ServiceType::dynamic, i), {.deadline = soon()});
    EXPECT_EQ(provider.wait_ready({.deadline = soon()}).instances.size(), 1U);
    EXPECT_EQ(offered(provider), (Strings{std::to_string(i), std::to_string(i)}));
    mine.unregister({.deadline = soon()});
    EXPECT_TRUE(result<ServiceListing>([&](auto handler) {
                  provider.async_wait_ready(std::move(handler), {.deadline = soon()});
                }).instances.empty());
    EXPECT_EQ(offered(provider), Strings{"none"});
  }
}

// --- Configuration ---------------------------------------------------------------------------------------------------

ConfigurationUpdate update(const std::string& text) {
  ConfigurationUpdate changes;
  changes.values["key"] = text;
  return changes;
}

TEST_F(OwnWrites, Configuration) {
  Configuration configuration(calm_proxied(), "/own");
  for (int i = 1; i <= tries; ++i) {
    EXPECT_EQ(configuration.publish(update(std::to_string(i)), any_revision, {.deadline = soon()}), i);
    ASSERT_NE(configuration.current(), nullptr);
    EXPECT_EQ(configuration.current()->revision, i);
    EXPECT_EQ(configuration.current()->at("key"), std::to_string(i));
    EXPECT_EQ(configuration.origin(), ConfigurationOrigin::live);
  }
  EXPECT_EQ(configuration.roll_back(1, {.deadline = soon()}), tries + 1);
  EXPECT_EQ(configuration.current()->at("key"), "1");
}

TEST_F(OwnWrites, ConfigurationAsynchronously) {
  Configuration configuration(calm_proxied(), "/own");
  for (int i = 1; i <= tries; ++i) {
    const auto revision = result<std::int64_t>([&](auto handler) {
      configuration.async_publish(update(std::to_string(i)), any_revision, std::move(handler), {.deadline = soon()});
    });
    EXPECT_EQ(revision, i);
    ASSERT_NE(configuration.current(), nullptr);
    EXPECT_EQ(configuration.current()->at("key"), std::to_string(i));
  }
  EXPECT_EQ(result<std::int64_t>(
                [&](auto handler) { configuration.async_roll_back(1, std::move(handler), {.deadline = soon()}); }),
            tries + 1);
  EXPECT_EQ(configuration.current()->at("key"), "1");
}

// The validator runs where it always did or in the call, never twice at a time, and not after close().
TEST_F(OwnWrites, ConfigurationWithAValidatorThatTakesItsTime) {
  std::atomic<int> running{0};
  std::atomic<int> most{0};
  ConfigurationOptions options;
  options.validate = [&](const ConfigurationValues&) {
    most = std::max(most.load(), ++running);
    std::this_thread::yield();
    --running;
  };
  Configuration configuration(calm_proxied(), "/own", options);
  for (int i = 1; i <= tries; ++i) {
    configuration.publish(update(std::to_string(i)), any_revision, {.deadline = soon()});
    EXPECT_EQ(configuration.current()->revision, i);
  }
  configuration.close();
  EXPECT_EQ(running, 0);
}

// --- Partitions ------------------------------------------------------------------------------------------------------

TEST_F(OwnWrites, PartitionMap) {
  const Client client = calm_proxied();
  PartitionMap map(client, "/own");
  EXPECT_TRUE(map.wait_ready({.deadline = soon()}).empty());
  Box<Partition> taken;
  std::vector<Partition> held;
  Partitioner partitioner(client, "/own", PartitionSource::numbered(tries),
                          [&taken](Partition partition) { taken.put(std::move(partition)); });
  partitioner.start();
  for (int i = 0; i < tries; ++i) {
    Partition partition = taken.take();
    EXPECT_TRUE(map.wait_ready({.deadline = soon()}).contains(partition.name()));
    EXPECT_TRUE(map.owner(partition.name()));
    const auto owners = result<PartitionMap::Owners>(
        [&](auto handler) { map.async_wait_ready(std::move(handler), {.deadline = soon()}); });
    EXPECT_TRUE(owners.contains(partition.name()));
    held.push_back(std::move(partition));
  }
  partitioner.stop({.deadline = soon()});
  EXPECT_TRUE(map.wait_ready({.deadline = soon()}).empty());
}

// --- Coherent cache --------------------------------------------------------------------------------------------------

TEST_F(OwnWrites, CoherentPeek) {
  CoherentCache cache(calm_proxied(), "/own/coherent");
  const auto text = [&] {
    const CoherentItemPtr item = cache.peek("a");
    return item == nullptr ? "unknown" : item->exists ? item->data : "none";
  };
  cache.put("a", "0", {.deadline = soon()});
  for (int i = 1; i <= tries; ++i) {
    EXPECT_EQ(cache.get("a", {.deadline = soon()})->data, std::to_string(i - 1));
    EXPECT_EQ(text(), std::to_string(i - 1));
    if (i % 2 == 0) {
      cache.put("a", std::to_string(i), {.deadline = soon()});
    } else {
      done([&](auto handler) { cache.async_put("a", std::to_string(i), std::move(handler), {.deadline = soon()}); });
    }
    EXPECT_EQ(text(), std::to_string(i));
  }
  EXPECT_EQ(cache.get("a", {.deadline = soon()})->data, std::to_string(tries));
  cache.remove("a", {.deadline = soon()});
  EXPECT_EQ(text(), "none");
  cache.create("a", "again", {.deadline = soon()});
  EXPECT_TRUE(text() == "again" || text() == "unknown") << "the answer to a creation tells no revision";
}

// --- Replica groups --------------------------------------------------------------------------------------------------

TEST_F(OwnWrites, ReplicaReports) {
  ReplicaHandlers handlers;
  handlers.become_primary = [](const PrimaryTerm&) {};
  handlers.become_secondary = [](const SecondaryTerm&) {};
  ReplicaGroup group(calm_proxied(), "/own", Replica{.id = "a", .storage = "disk", .address = ""}, std::move(handlers));
  const auto version = [&] {
    for (const ReplicaMember& member : group.members())
      if (member.id == "a") return member.version;
    return std::uint64_t{0};
  };
  for (std::uint64_t i = 1; i <= tries; ++i) {
    group.report_version(2 * i, {.deadline = soon()});
    EXPECT_EQ(version(), 2 * i);
    done([&](auto handler) { group.async_report_version(2 * i + 1, std::move(handler), {.deadline = soon()}); });
    EXPECT_EQ(version(), 2 * i + 1);
  }
  group.leave({.deadline = soon()});
}

// --- What asks the server: one connection answers in order -----------------------------------------------------------

TEST_F(OwnWrites, Naming) {
  Naming naming(calm_proxied(), "/own");
  const auto list = [&] {
    return result<Strings>([&](auto handler) { naming.async_list(std::move(handler), {.deadline = soon()}); });
  };
  for (int i = 0; i < tries; ++i) {
    Lease bound = naming.bind("a", "1", {.deadline = soon()});
    EXPECT_EQ(naming.resolve("a", {.deadline = soon()})->data, "1");
    EXPECT_EQ(list(), Strings{"a"});
    bound.release({.deadline = soon()});
    EXPECT_EQ(naming.list({.deadline = soon()}), Strings{});
    naming.bind_permanent("b", "1", {.deadline = soon()});
    EXPECT_EQ(list(), Strings{"b"});
    naming.rebind("b", "2", zkclient::any_version, {.deadline = soon()});
    EXPECT_EQ(naming.resolve("b", {.deadline = soon()})->data, "2");
    naming.unbind("b", zkclient::any_version, {.deadline = soon()});
    EXPECT_EQ(list(), Strings{});
  }
}

TEST_F(OwnWrites, Values) {
  const Client client = calm_proxied();
  Counter counter(client, "/own/counter");
  SharedValue value(client, "/own/value");
  for (int i = 1; i <= tries; ++i) {
    counter.add(1, {.deadline = soon()});
    EXPECT_EQ(counter.get({.deadline = soon()}), i);
    value.set(std::to_string(i), {.deadline = soon()});
    EXPECT_EQ(value.get({.deadline = soon()}).data, std::to_string(i));
    EXPECT_EQ(
        result<VersionedValue>([&](auto handler) { value.async_get(std::move(handler), {.deadline = soon()}); }).data,
        std::to_string(i));
  }
}

TEST_F(OwnWrites, Election) {
  LeaderElection election(calm_proxied(), "/own", {.id = "me"});
  for (int i = 0; i < tries; ++i) {
    Leadership led = election.campaign({.deadline = soon()});
    ASSERT_TRUE(election.leader({.deadline = soon()}));
    EXPECT_EQ(election.leader({.deadline = soon()})->id, "me");
    led.proclaim(std::to_string(i), {.deadline = soon()});
    EXPECT_EQ(election.leader({.deadline = soon()})->value, std::to_string(i));
    const auto seen = result<std::optional<Leader>>(
        [&](auto handler) { election.async_leader(std::move(handler), {.deadline = soon()}); });
    EXPECT_EQ(seen->value, std::to_string(i));
    led.release({.deadline = soon()});
    EXPECT_FALSE(election.leader({.deadline = soon()}));
  }
}

}  // namespace
}  // namespace zkrecipes
