// Partitioners while everything breaks: the rows of the table "What goes wrong" in <zkrecipes/partitioner.hpp> that need a
// fault; the others are in partitioner_test.cpp.

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/partition_map.hpp>
#include <zkrecipes/partitioner.hpp>
#include <zktesting/ensemble.hpp>

#include "tests/support/ensembles.hpp"
#include "tests/support/given_up.hpp"
#include "tests/support/partition_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::all_owned;
using testkit::Ledger;
using testkit::PartitionWorker;
using WorkerPtr = std::unique_ptr<PartitionWorker>;

const testkit::OnRealServers partitions_on_real_servers{"PartitionerFaults.TakeLost",
                                                        "PartitionerFaults.OwnersSessionIsLost"};

PartitionerOptions quick(std::string id) {
  PartitionerOptions options;
  options.id = std::move(id);
  options.settle = 50ms;
  options.grace = 60s;  // Nobody who gives back is too late.
  return options;
}

class PartitionerFaults : public testkit::RecipeFaultTest {
 protected:
  PartitionerFaults() : RecipeFaultTest("/parts") {}

  WorkerPtr join(const Client& client, const std::string& id, std::size_t count = 8) {
    return std::make_unique<PartitionWorker>(client, "/parts", PartitionSource::numbered(count), quick(id),
                                             PartitionWorker::Behaviour{.ledger = ledger});
  }
  static bool is_hidden(const Partitioner& partitioner) {
    return eventually([&] {
      const auto problem = partitioner.problem();
      return problem && problem->errc() == Errc::no_auth;
    });
  }
  static bool owns(const WorkerPtr& worker, std::size_t count) {
    return eventually([&] { return worker->count() == count; });
  }
  /// Of eight partitions each has what it shall have. So nothing moves any more.
  static bool shared_out(const WorkerPtr& a, const WorkerPtr& b) {
    const std::vector<std::string> partitions = PartitionSource::numbered(8).names();
    std::vector<std::string> shares[2];
    const auto owners = assign(partitions, {{a->partitioner().id()}, {b->partitioner().id()}}, 1.0);
    for (std::size_t i = 0; i < owners.size(); ++i)
      shares[owners[i].value()].push_back(partitions[i]);
    return eventually([&] { return a->owned() == shares[0] && b->owned() == shares[1]; });
  }

  std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
  const zkclient::AclList hidden = {{zkclient::Acl::all & ~zkclient::Acl::read, "world", "anyone"}};
};

// It may be a member's: those that are known go on with what they have.
TEST_F(PartitionerFaults, AMembersNodeCannotBeRead) {
  the_operator().create("/names", "");
  std::vector<std::string> partitions;
  const auto add = [&] {
    partitions.push_back("p" + std::to_string(partitions.size()));
    the_operator().create(Path("/names") / partitions.back(), "");
  };
  const auto share_of_a = [&] {
    std::vector<std::string> share;
    const auto owners = assign(partitions, {{"a"}, {"b"}}, 1.0);
    for (std::size_t i = 0; i < owners.size(); ++i) {
      if (owners[i] == 0U) share.push_back(partitions[i]);
    }
    return share;
  };
  for (int i = 0; i < 8; ++i)
    add();
  PartitionWorker a(calm_direct(), "/parts", PartitionSource::children_of("/names"), quick("a"), {.ledger = ledger});
  ASSERT_TRUE(eventually([&] { return a.count() == 8; }));
  const std::string share = the_operator().get("/parts/members/a").data;
  the_operator().create("/parts/members/b", share, {.mode = CreateMode::ephemeral});
  ASSERT_TRUE(eventually([&] { return a.owned() == share_of_a(); }));

  zkclient::Transaction again;
  again.remove("/parts/members/b");
  again.create("/parts/members/b", share, {.mode = CreateMode::ephemeral, .acl = hidden});
  the_operator().commit(again);
  ASSERT_TRUE(is_hidden(a.partitioner()));
  const std::size_t before = share_of_a().size();
  while (share_of_a().size() == before)
    add();
  EXPECT_TRUE(eventually([&] { return a.owned() == share_of_a(); })) << "the others are for b";
  the_operator().remove("/parts/members/b");
  EXPECT_TRUE(eventually([&] { return a.count() == partitions.size(); }));
  EXPECT_FALSE(a.partitioner().problem());
}

// An operator's, say: it is persistent, so it is no member's.
TEST_F(PartitionerFaults, AnotherNodeCannotBeRead) {
  the_operator().create("/parts/members", "");
  the_operator().create("/parts/members/note", "", {.acl = hidden});
  const WorkerPtr a = join(calm_direct(), "a");
  ASSERT_TRUE(owns(a, 8));
  EXPECT_TRUE(is_hidden(a->partitioner()));
  WorkerPtr b = join(calm_direct(), "b");
  EXPECT_TRUE(shared_out(a, b));
  b.reset();
  EXPECT_TRUE(owns(a, 8)) << "b's are taken over";
}

// It has to go by those that it can read: nothing else is known to it.
TEST_F(PartitionerFaults, StartsWhileAMembersNodeCannotBeRead) {
  the_operator().create("/parts/members", "");
  the_operator().create("/parts/members/c", "", {.mode = CreateMode::ephemeral, .acl = hidden});
  const WorkerPtr a = join(calm_direct(), "a");
  EXPECT_TRUE(owns(a, 8));
  EXPECT_TRUE(is_hidden(a->partitioner()));
}

TEST_F(PartitionerFaults, NoServerYet) {
  proxy.refuse(true);
  const WorkerPtr a = join(calm_proxied(), "a");
  EXPECT_EQ(a->count(), 0U);
  proxy.refuse(false);
  EXPECT_TRUE(owns(a, 8));
}

// The looks, the takings, what a taking reads, the parents.
TEST_F(PartitionerFaults, TakeLost) {
  for (const RequestType type :
       {RequestType::multi, RequestType::get_data, RequestType::get_children2, RequestType::create_container}) {
    for (const bool request : {true, false}) {
      const Client client = calm_proxied();
      (void)client.connect(patient());
      const zktesting::Fault fault = lose(request, type);
      const WorkerPtr a = join(client, "a");
      EXPECT_TRUE(owns(a, 8)) << static_cast<int>(type);
      EXPECT_TRUE(fault.happened());
      EXPECT_EQ(a->given(), 8);
      a->partitioner().leave(patient());
      the_operator().remove_tree("/parts/owners");
    }
  }
}

// Every one of the takings' transactions in its turn.
TEST_F(PartitionerFaults, EachTakingLost) {
  for (int number = 1; number <= 9; ++number) {
    const Client client = calm_proxied();
    (void)client.connect(patient());
    auto held = proxy.hold_next_reply(RequestType::multi);
    const WorkerPtr a = join(client, "a");
    ASSERT_TRUE(held.wait(patience));
    for (int i = 1; i < number; ++i) {
      auto next = proxy.hold_next_reply(RequestType::multi);
      held.release();
      ASSERT_TRUE(next.wait(patience));
      held = std::move(next);
    }
    proxy.cut();
    EXPECT_TRUE(owns(a, 8)) << number;
    EXPECT_EQ(a->given(), 8);
    EXPECT_EQ(a->lost(), 0);
    a->partitioner().leave(patient());  // Else the next one might wait for the end of this session.
  }
}

// V98.
TEST_F(PartitionerFaults, ConnectionBreaksSessionGoesOn) {
  const Client client = calm_proxied();
  const WorkerPtr a = join(client, "a");
  const WorkerPtr b = join(calm_direct(), "b");
  ASSERT_TRUE(shared_out(a, b));
  const auto of_a = a->tokens();
  const auto of_b = b->tokens();
  const int asked = a->asked() + b->asked();
  for (int i = 0; i < 5; ++i) {
    refuse_and_cut();
    ASSERT_TRUE(reaches(client, ConnectionState::suspended));
    testkit::let_age(100ms);  // Longer than `settle`.
    proxy.refuse(false);
    client.sync("/", patient());
  }
  EXPECT_EQ(a->tokens(), of_a);
  EXPECT_EQ(b->tokens(), of_b);
  EXPECT_EQ(a->asked() + b->asked(), asked);
  EXPECT_EQ(a->lost() + b->lost(), 0);
}

TEST_F(PartitionerFaults, OwnersSessionIsLost) {
  const Client client = calm_direct();
  ledger = nullptr;  // The server ends the session in the middle of its time: the owner hears of it a moment later.
  const WorkerPtr a = join(client, "a");
  const WorkerPtr b = join(calm_direct(), "b");
  ASSERT_TRUE(shared_out(a, b));
  const auto of_b = b->tokens();
  expire(client);
  EXPECT_TRUE(eventually([&] { return a->lost() == 4; }));
  EXPECT_TRUE(shared_out(a, b)) << "it is a member again";
  for (const auto& [name, token] : b->tokens())
    EXPECT_EQ(token, of_b.at(name));
  EXPECT_EQ(b->lost(), 0);
}

// The servers have kept the session that cost the partitions, and the owner's nodes with it. Its next session need not wait
// for the end of it.
TEST_F(PartitionerFaults, OwnNodesOfAGivenUpSessionGo) {
  const Client client = brief_proxied();
  const WorkerPtr a = join(client, "a");
  ASSERT_TRUE(owns(a, 8));
  const std::stop_token over = client.session().lost();
  const std::size_t closes = proxy.request_count(RequestType::close_session);
  testkit::cut_off_and_keep_session(client, proxy, server);
  ASSERT_TRUE(stopped(over));
  proxy.refuse(false);
  EXPECT_TRUE(proxy.wait_for_requests(RequestType::close_session, closes + 1, patience));
  EXPECT_TRUE(owns(a, 8));
}

TEST_F(PartitionerFaults, OwnerIsCutOff) {
  const Client client = contended_proxied();
  const WorkerPtr a = join(client, "a");
  const WorkerPtr b = join(calm_direct(), "b");
  ASSERT_TRUE(shared_out(a, b));
  std::vector<std::shared_ptr<Partition>> of_a;  // The last ones: a session as short as this may lose some before.
  for (const std::string& name : a->owned())
    of_a.push_back(a->partition(name));
  refuse_and_cut();
  EXPECT_TRUE(owns(b, 8));  // The ledger looks whether the others were lost before.
  for (const auto& partition : of_a)
    EXPECT_TRUE(stopped(partition->lost()));
  EXPECT_GE(a->lost(), 4);
  EXPECT_EQ(a->count(), 0U);
}

// What it reads of the group is late, and does not show it.
TEST_F(PartitionerFaults, ALateListHidesTheMember) {
  const WorkerPtr b = join(calm_direct(), "b");
  ASSERT_TRUE(owns(b, 8));
  const Client client = calm_proxied();
  (void)client.connect(patient());
  auto late = proxy.hold_next_reply(RequestType::get_children2);
  const WorkerPtr a = join(client, "a");
  ASSERT_TRUE(late.wait(patience));
  EXPECT_EQ(a->count(), 0U);
  late.release();
  EXPECT_TRUE(eventually([&] { return a->count() == 4 && b->count() == 4; }));
  EXPECT_EQ(b->lost(), 0);
}

// A member that waits for a partition learns at once that it is free, by one watch for each.
TEST_F(PartitionerFaults, OneWatchForEachPartitionThatIsWaitedFor) {
  const Client holding = calm_direct();
  PartitionWorker a(holding, "/parts", PartitionSource::numbered(8), quick("a"), {.gives_back = false});
  ASSERT_TRUE(eventually([&] { return a.count() == 8; }));
  const Client client = calm_direct();
  const WorkerPtr b = join(client, "b");
  ASSERT_TRUE(eventually([&] { return a.asked() == 4; }));
  const auto session = client.connect(patient()).id();
  const auto watched = [&] {
    const auto all = testkit::watches_at(server);
    return std::count_if(all.begin(), all.end(), [&](const auto& watch) {
      return watch.session_id == session && watch.path.starts_with("/parts/owners/");
    });
  };
  EXPECT_TRUE(eventually([&] { return watched() == 4; })) << watched();
  b->partitioner().leave(patient());
  EXPECT_TRUE(eventually([&] { return watched() == 0; }));
}

TEST_F(PartitionerFaults, NothingIsLeft) {
  {
    const WorkerPtr a = join(calm_direct(), "a");
    const WorkerPtr b = join(calm_direct(), "b");
    ASSERT_TRUE(eventually([&] { return a->count() == 4 && b->count() == 4; }));
    a->partitioner().leave(patient());
    ASSERT_TRUE(owns(b, 8));
    b->partitioner().stop(patient());
  }
  EXPECT_TRUE(eventually([&] { return server.ephemeral_count() == 0; })) << server.four_letter_word("dump");
  expect_no_watch_left();
}

TEST_F(PartitionerFaults, AMapGoesOnAfterAnOutage) {
  const WorkerPtr a = join(calm_direct(), "a");
  ASSERT_TRUE(owns(a, 8));
  const Client client = calm_proxied();
  PartitionMap map(client, "/parts");
  ASSERT_TRUE(eventually([&] { return map.owners().size() == 8; }));
  refuse_and_cut();
  ASSERT_TRUE(eventually([&] { return map.state() == CacheState::stale; }));
  EXPECT_EQ(map.owners().size(), 8U);
  const FencingToken before = map.owner("3")->token;
  a->partition("3")->release(patient());
  proxy.refuse(false);
  EXPECT_GT(map.wait_owner("3", before, patient()).token, before);
}

// Members come, go, are cut off, and lose their nodes; the judge's clock is everybody's. Afterwards each partition has one
// owner.
TEST_F(PartitionerFaults, NeverTwoOwners) {
  constexpr std::size_t partitions = 24;
  constexpr auto time = 13s;
  constexpr auto outage = 7s;  // Longer than the sessions of those who are behind the proxy.
  std::mt19937 random(7);
  std::map<std::string, std::pair<Client, WorkerPtr>> workers;
  int number = 0;
  const auto add = [&](bool through_proxy) {
    const std::string id = "m" + std::to_string(number++ % 9);
    if (workers.contains(id)) return;
    Client client = through_proxy ? contended_proxied() : calm_direct();
    WorkerPtr worker = join(client, id, partitions);
    workers.emplace(id, std::pair(std::move(client), std::move(worker)));
  };
  for (int i = 0; i < 5; ++i)
    add(i % 2 == 0);
  const auto pick = [&] {
    auto picked = workers.begin();
    std::advance(picked, static_cast<std::ptrdiff_t>(random() % workers.size()));
    return picked;
  };
  const auto take_out = [&] {
    const auto leaver = pick();
    auto taken = std::move(leaver->second);
    workers.erase(leaver);
    return taken;
  };
  int steps = 0;
  int outages = 0;
  const auto enough = [&] { return steps > 20 && ledger->grants() > 3 * partitions; };
  const auto begin = SteadyClock::now();
  // Longer, where all of this takes long.
  for (; SteadyClock::now() < begin + time || (!enough() && SteadyClock::now() < begin + patience); ++steps) {
    const auto elapsed = SteadyClock::now() - begin;
    const bool cut_off = elapsed > 2s && elapsed < 2s + outage;
    if (cut_off != proxy.refuses()) {
      proxy.refuse(cut_off);
      if (cut_off) proxy.cut();
      outages += cut_off ? 1 : 0;
    }
    const bool many = workers.size() > 3;
    std::error_code error;
    switch (random() % 6) {
      case 0:
      case 1: add(random() % 2 == 0); break;
      case 2:
        if (many) (void)take_out();
        break;
      case 3:
        if (many) {
          auto [client, leaver] = take_out();
          leaver->partitioner().async_leave([](const zkclient::Result<void>&) {});
          testkit::let_age(30ms);
        }
        break;
      case 4:
        if (many) take_out().first.close();
        break;
      case 5:
        if (random() % 2 == 0) proxy.cut();
        the_operator().remove(Path("/parts/members") / pick()->first, zkclient::any_version, patient(), error);
        break;
      default: break;
    }
    testkit::let_age(std::chrono::milliseconds(random() % 150));
  }
  proxy.refuse(false);  // The last step may have lasted beyond the end.
  EXPECT_TRUE(eventually(
      [&] {
        std::vector<PartitionWorker*> all;
        for (const auto& [id, worker] : workers)
          all.push_back(worker.second.get());
        return all_owned(all, partitions);
      },
      patience));
  EXPECT_EQ(outages, 1);
  EXPECT_GT(steps, 20);
  EXPECT_GT(ledger->grants(), 3 * partitions);
}

// V94: a server dies, then a member joins.
TEST(PartitionerEnsemble, AServerDiesThenAMemberJoins) {
  zktesting::Ensemble ensemble;
  const auto connect = [&] {
    return Client(ensemble.connect_string(), {.session_timeout = 20s, .server_tick = testkit::server_tick});
  };
  const auto ledger = std::make_shared<Ledger>();
  std::deque<WorkerPtr> workers;
  const auto join = [&](const std::string& id) {
    workers.push_back(std::make_unique<PartitionWorker>(connect(), "/parts", PartitionSource::numbered(12), quick(id),
                                                        PartitionWorker::Behaviour{.ledger = ledger}));
  };
  for (const char* id : {"a", "b", "c"})
    join(id);
  ASSERT_TRUE(eventually([&] { return all_owned(workers, 12); }));
  std::optional<std::size_t> leader;
  ASSERT_TRUE(eventually([&] { return (leader = ensemble.leader()).has_value(); }));
  ensemble.kill(*leader);
  join("d");
  EXPECT_TRUE(eventually(
      [&] {
        testkit::restart_who_has_died(ensemble, *leader);
        return all_owned(workers, 12) &&
               std::all_of(workers.begin(), workers.end(), [](const auto& worker) { return worker->count() == 3; });
      },
      90s));
}

}  // namespace
}  // namespace zkrecipes
