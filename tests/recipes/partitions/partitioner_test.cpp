#include <zkrecipes/partitioner.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <zkclient/error.hpp>
#include <zkrecipes/hashing.hpp>
#include <zkrecipes/partition_map.hpp>

#include "tests/support/partition_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;
using testkit::all_owned;
using testkit::Ledger;
using testkit::PartitionWorker;
using Strings = std::vector<std::string>;
using WorkerPtr = std::unique_ptr<PartitionWorker>;

class PartitionerTest : public testkit::RecipeTest {
 protected:
  PartitionerTest() : RecipeTest("/parts") {}

  static PartitionerOptions quick(std::string id) {
    PartitionerOptions options;
    options.id = std::move(id);
    options.settle = 50ms;
    options.grace = 60s;  // Nobody who gives back is too late.
    return options;
  }
  WorkerPtr join(PartitionerOptions options, PartitionSource source = PartitionSource::numbered(16),
                 PartitionWorker::Behaviour behaviour = {}) {
    if (behaviour.ledger == nullptr) behaviour.ledger = ledger;
    return std::make_unique<PartitionWorker>(make_client(), path(), std::move(source), std::move(options),
                                             std::move(behaviour));
  }
  WorkerPtr join(const std::string& id, std::size_t count = 16) {
    return join(quick(id), PartitionSource::numbered(count));
  }
  static bool owns(const WorkerPtr& worker, std::size_t count) {
    return eventually([&] { return worker->count() == count; });
  }
  /// Each worker owns what it shall have, and nothing else. So nothing moves any more.
  template <typename Workers>
  static bool shared_out(const Workers& workers, std::size_t count, double max_load = 1.0) {
    std::vector<WeightedMember> members;
    for (const auto& worker : workers)
      members.push_back({worker->partitioner().id()});
    const Strings partitions = PartitionSource::numbered(count).names();
    std::vector<Strings> shares(workers.size());
    const auto owners = assign(partitions, members, max_load);
    for (std::size_t i = 0; i < owners.size(); ++i)
      shares[owners[i].value()].push_back(partitions[i]);
    return eventually([&] {
      return std::equal(workers.begin(), workers.end(), shares.begin(),
                        [](const auto& worker, const Strings& share) { return worker->owned() == share; });
    });
  }
  std::string owner(const std::string& partition) {
    std::error_code error;
    return client().get(Path("/parts/owners") / partition / "owner", patient(), error).data;
  }

  const std::shared_ptr<Ledger> ledger = std::make_shared<Ledger>();
};

TEST_F(PartitionerTest, AMemberAloneOwnsAll) {
  const WorkerPtr a = join("a");
  EXPECT_TRUE(owns(a, 16));
  EXPECT_EQ(owner("3"), "a");
  EXPECT_EQ(a->given(), 16);
  EXPECT_EQ(a->partitioner().owned(), a->owned());
  EXPECT_FALSE(a->partitioner().problem());
  const auto partition = a->partition("3");
  EXPECT_EQ(partition->name(), "3");
  EXPECT_TRUE(partition->valid());
  client().commit(zkclient::Transaction().check(Path(partition->node())));
}

// It gets a half, and the owner keeps the leases of the rest.
TEST_F(PartitionerTest, AMemberJoins) {
  const WorkerPtr a = join("a");
  ASSERT_TRUE(owns(a, 16));
  const auto before = a->tokens();
  const WorkerPtr b = join("b");
  ASSERT_TRUE(owns(b, 8));
  EXPECT_TRUE(owns(a, 8));
  for (const auto& [name, token] : a->tokens())
    EXPECT_EQ(token, before.at(name)) << "it was not touched";
  EXPECT_EQ(a->asked(), 8);
  EXPECT_EQ(a->lost(), 0);
  EXPECT_EQ(a->given(), 16);
}

TEST_F(PartitionerTest, AMemberLeaves) {
  const WorkerPtr a = join("a");
  WorkerPtr b = join("b");
  const WorkerPtr c = join("c");
  ASSERT_TRUE(
      eventually([&] { return a->count() + b->count() + c->count() == 16 && c->count() >= 4 && b->count() >= 4; }));
  const int lost = a->lost() + b->lost() + c->lost();
  b->partitioner().leave(patient());
  EXPECT_EQ(b->count(), 0U);
  EXPECT_TRUE(eventually([&] { return a->count() == 8 && c->count() == 8; }));
  EXPECT_EQ(a->lost() + b->lost() + c->lost(), lost) << "handed over, not lost";
  EXPECT_EQ(error_of([&] { b->partitioner().start(); }), Errc::closed);
  b->partitioner().leave(patient());
  b->partitioner().stop(patient());
}

TEST_F(PartitionerTest, AtMostMaxMovingAreAskedForAtATime) {
  PartitionerOptions options = quick("a");
  options.max_moving = 3;
  options.grace = 60s;
  const WorkerPtr a = join(options, PartitionSource::numbered(16), {.gives_back = false});
  ASSERT_TRUE(owns(a, 16));
  const WorkerPtr b = join("b");
  ASSERT_TRUE(eventually([&] { return a->asked() == 3; }));
  for (int given_back = 1; given_back <= 5; ++given_back) {
    for (const auto& [name, token] : a->tokens()) {
      const auto partition = a->partition(name);
      if (!partition->revoke_requested().stop_requested()) continue;
      partition->release(patient());
      break;
    }
    EXPECT_TRUE(owns(b, static_cast<std::size_t>(given_back)));
    EXPECT_TRUE(eventually([&] { return a->asked() == 3 + given_back; }));
    testkit::let_age(20ms);
    EXPECT_EQ(a->asked(), 3 + given_back);
  }
}

TEST_F(PartitionerTest, StopEndsAllAtOnce) {
  const WorkerPtr a = join("a");
  ASSERT_TRUE(owns(a, 16));
  a->partitioner().stop(patient());
  EXPECT_EQ(a->count(), 0U);
  EXPECT_TRUE(a->partitioner().owned().empty());
  EXPECT_TRUE(eventually([&] { return a->lost() == 16; }));
  EXPECT_EQ(a->asked(), 0);
  for (const std::string& partition : names("/parts/owners"))
    EXPECT_EQ(owner(partition), "");
  EXPECT_TRUE(remain(0, "/parts/members"));  // That one is not waited for.
}

TEST_F(PartitionerTest, TheDestructorEndsAll) {
  WorkerPtr a = join("a");
  ASSERT_TRUE(owns(a, 16));
  const auto partition = a->partition("0");
  a.reset();
  EXPECT_TRUE(stopped(partition->lost()));
  const WorkerPtr b = join("b");
  EXPECT_TRUE(owns(b, 16));
}

TEST_F(PartitionerTest, LeavingBeforeTheStart) {
  for (const bool at_once : {false, true}) {
    Partitioner partitioner(
        client(), path(), PartitionSource::numbered(4), [](const Partition&) {}, quick("a"));
    at_once ? partitioner.stop(patient()) : partitioner.leave(patient());
    EXPECT_EQ(error_of([&] { partitioner.start(); }), Errc::closed);
    EXPECT_FALSE(partitioner.problem());
  }
}

TEST_F(PartitionerTest, WhatIsNotKeptIsGivenBack) {
  Box<std::string> got;
  Partitioner partitioner(
      client(), path(), PartitionSource::list({"one"}), [&](const Partition& partition) { got.put(partition.name()); },
      quick("a"));
  partitioner.start();
  EXPECT_EQ(got.take(), "one");
  EXPECT_EQ(got.take(), "one") << "it gets it again";
}

TEST_F(PartitionerTest, OwnerDoesNotGiveBack) {
  PartitionerOptions options = quick("a");
  options.grace = 200ms;
  const WorkerPtr a = join(options, PartitionSource::numbered(16), {.gives_back = false});
  ASSERT_TRUE(owns(a, 16));
  const WorkerPtr b = join("b");
  EXPECT_TRUE(owns(b, 8));
  EXPECT_EQ(a->asked(), 8);
  EXPECT_EQ(a->lost(), 8);
  EXPECT_EQ(a->count(), 8U);
}

TEST_F(PartitionerTest, TheGraceMayBeForEver) {
  PartitionerOptions options = quick("a");
  options.grace = std::chrono::milliseconds::max();
  const WorkerPtr a = join(options, PartitionSource::numbered(16), {.gives_back = false});
  ASSERT_TRUE(owns(a, 16));
  const WorkerPtr b = join("b");
  EXPECT_TRUE(eventually([&] { return a->asked() == 8; }));
  testkit::let_age(60ms);  // Longer than no time at all.
  EXPECT_EQ(a->lost(), 0);
  EXPECT_EQ(a->count(), 16U);
}

TEST_F(PartitionerTest, OwnerGivesBackWhatItShallHave) {
  const WorkerPtr a = join("a");
  ASSERT_TRUE(owns(a, 16));
  const auto partition = a->partition("3");
  partition->release(patient());
  EXPECT_FALSE(partition->valid());  // A second later it may have the next one.
  EXPECT_TRUE(owns(a, 16));
  EXPECT_GT(a->partition("3")->token(), partition->token());
}

TEST_F(PartitionerTest, OwnersNodeDeletedByHand) {
  const WorkerPtr a = join("a");
  ASSERT_TRUE(owns(a, 16));
  const auto partition = a->partition("3");
  client().remove("/parts/owners/3/owner");
  EXPECT_TRUE(stopped(partition->lost()));
  EXPECT_TRUE(eventually([&] { return a->partition("3")->token() > partition->token(); }));
  EXPECT_TRUE(owns(a, 16));
  EXPECT_EQ(a->lost(), 1);
}

TEST_F(PartitionerTest, MembersNodeDeletedByHand) {
  const WorkerPtr a = join("a");
  const WorkerPtr b = join("b");
  ASSERT_TRUE(shared_out(std::vector{a.get(), b.get()}, 16));
  const auto before = a->tokens();
  const std::int64_t member = client().get("/parts/members/a").stat.czxid;
  client().remove("/parts/members/a");
  EXPECT_TRUE(eventually([&] {
    const auto stat = client().exists("/parts/members/a");
    return stat && stat->czxid > member;
  }));
  const WorkerPtr c = join("c");
  EXPECT_TRUE(eventually([&] { return a->count() + b->count() + c->count() == 16 && c->count() >= 4; }));
  EXPECT_EQ(a->lost() + b->lost(), 0);
  for (const auto& [name, token] : a->tokens())
    EXPECT_EQ(token, before.at(name));
}

// V100.
TEST_F(PartitionerTest, TwoMembersWithOneId) {
  WorkerPtr first = join("a");
  ASSERT_TRUE(owns(first, 16));
  const WorkerPtr second = join("a");
  EXPECT_TRUE(eventually([&] {
    const auto problem = second->partitioner().problem();
    return problem && problem->errc() == Errc::node_exists;
  }));
  EXPECT_EQ(second->given(), 0);
  EXPECT_EQ(first->count(), 16U);
  first->partitioner().leave(patient());
  EXPECT_TRUE(owns(second, 16));
  EXPECT_TRUE(eventually([&] { return !second->partitioner().problem(); }));
}

// V96: nobody hangs, and what both know has one owner.
TEST_F(PartitionerTest, MembersKnowDifferentSets) {
  const WorkerPtr a = join(quick("a"), PartitionSource::list({"1", "2", "3", "4", "both-1", "both-2"}));
  const WorkerPtr b = join(quick("b"), PartitionSource::list({"5", "6", "7", "both-1", "both-2"}));
  const auto has_all = [](const WorkerPtr& worker, const Strings& names) {
    return std::all_of(names.begin(), names.end(), [&](const std::string& name) { return worker->has(name); });
  };
  const auto one_has = [&](const char* name) { return a->has(name) != b->has(name); };
  EXPECT_TRUE(eventually([&] {
    return has_all(a, {"1", "2", "3", "4"}) && has_all(b, {"5", "6", "7"}) && one_has("both-1") && one_has("both-2");
  })) << "while one is handed over, nobody has it";
  a->partitioner().leave(patient());
  EXPECT_TRUE(owns(b, 5));
}

TEST_F(PartitionerTest, PartitionsComeAndGo) {
  client().create("/names", "");
  for (const char* name : {"x", "y"})
    client().create(Path("/names") / name, "");
  const auto source = PartitionSource::children_of("/names");
  const WorkerPtr a = join(quick("a"), source);
  const WorkerPtr b = join(quick("b"), source);
  EXPECT_TRUE(eventually([&] { return a->count() + b->count() == 2 && b->count() == 1; }));
  client().create("/names/z", "");
  client().create("/names/zz", "");
  EXPECT_TRUE(eventually([&] { return a->count() == 2 && b->count() == 2; }));
  client().remove("/names/x");
  EXPECT_TRUE(eventually([&] { return a->count() + b->count() == 3 && !a->has("x") && !b->has("x"); }));
  EXPECT_EQ(a->lost() + b->lost(), 0);
}

TEST_F(PartitionerTest, TheSourcesNodeIsMissing) {
  const WorkerPtr a = join(quick("a"), PartitionSource::children_of("/names"));
  EXPECT_TRUE(eventually([&] { return client().exists("/parts/members/a").has_value(); }));
  EXPECT_EQ(a->count(), 0U);
  client().create("/names", "");
  client().create("/names/x", "");
  EXPECT_TRUE(owns(a, 1));
  client().remove_tree("/names");
  EXPECT_TRUE(owns(a, 0));
  EXPECT_EQ(a->lost(), 0);
}

TEST_F(PartitionerTest, TheSourcesNodeIsUnreadable) {
  const zkclient::AclList nobodys = {{zkclient::Acl::all & ~zkclient::Acl::read, "world", "anyone"}};
  client().create("/names", "", {.acl = nobodys});
  client().create("/names/x", "");
  const WorkerPtr a = join(quick("a"), PartitionSource::children_of("/names"));
  EXPECT_TRUE(eventually([&] {
    const auto problem = a->partitioner().problem();
    return problem && problem->errc() == Errc::no_auth;
  }));
  EXPECT_EQ(a->count(), 0U);
  client().set_acl("/names", zkclient::open_acl());
}

TEST_F(PartitionerTest, MayNotCreate) {
  const zkclient::AclList readable = {{zkclient::Acl::read | zkclient::Acl::admin, "world", "anyone"}};
  client().create("/parts", "");
  client().create("/parts/owners", "", {.acl = readable});
  const WorkerPtr a = join("a", 2);
  EXPECT_TRUE(eventually([&] {
    const auto problem = a->partitioner().problem();
    return problem && problem->errc() == Errc::no_auth;
  }));
  client().set_acl("/parts/owners", zkclient::open_acl());
  EXPECT_TRUE(owns(a, 2));
  EXPECT_FALSE(a->partitioner().problem());
}

TEST_F(PartitionerTest, ClientClosed) {
  Client own = make_client();
  PartitionWorker worker(own, path(), PartitionSource::numbered(4), quick("a"), {});
  ASSERT_TRUE(eventually([&] { return worker.count() == 4; }));
  own.close();
  EXPECT_EQ(worker.count(), 0U);
  EXPECT_TRUE(eventually([&] { return worker.lost() == 4; }));
  EXPECT_EQ(error_of([&] { worker.partitioner().leave(patient()); }), Errc::closed);
  const auto has_no_owner = [this](const std::string& partition) { return owner(partition).empty(); };
  const Strings partitions = names("/parts/owners");
  EXPECT_TRUE(eventually([&] { return std::all_of(partitions.begin(), partitions.end(), has_no_owner); }));
}

// V95: members come and go while the first ones still take.
TEST_F(PartitionerTest, MembersChangeWhilePartitionsAreTaken) {
  std::vector<WorkerPtr> workers;
  for (const char* id : {"a", "b", "c", "d", "e"})
    workers.push_back(join(id, 60));
  workers[1]->partitioner().leave(patient());
  workers[3].reset();
  workers.erase(workers.begin() + 3);
  EXPECT_TRUE(eventually([&] { return all_owned(workers, 60) && workers[0]->count() == 20; }));
  EXPECT_TRUE(eventually([&] { return workers[2]->count() == 20 && workers[3]->count() == 20; }));
}

// V102: only what it had moves, and it gets it back.
TEST_F(PartitionerTest, AMemberRestarts) {
  std::vector<WorkerPtr> workers;
  for (const char* id : {"a", "b", "c"}) {
    PartitionerOptions options = quick(id);
    options.settle = 500ms;
    options.max_load = 2.0;
    workers.push_back(join(options, PartitionSource::numbered(60)));
  }
  ASSERT_TRUE(shared_out(workers, 60, 2.0));
  const auto before_a = workers[0]->tokens();
  const auto before_b = workers[1]->tokens();
  workers[2].reset();
  PartitionerOptions options = quick("c");
  options.max_load = 2.0;
  workers[2] = join(options, PartitionSource::numbered(60));
  EXPECT_TRUE(shared_out(workers, 60, 2.0));
  EXPECT_EQ(workers[0]->tokens(), before_a);
  EXPECT_EQ(workers[1]->tokens(), before_b);
}

// Who has something is asked for it when nothing has changed for a while.
TEST_F(PartitionerTest, AMemberThatComesAndGoesMovesNothing) {
  PartitionerOptions patient_one = quick("a");
  patient_one.settle = std::chrono::milliseconds::max();
  const WorkerPtr a = join(patient_one);
  ASSERT_TRUE(owns(a, 16));
  const auto before = a->tokens();
  for (int i = 0; i < 3; ++i) {
    const WorkerPtr b = join("b", 17);  // Of another set: it takes what is free.
    ASSERT_TRUE(owns(b, 1));
    const WorkerPtr c = join("c");
    ASSERT_TRUE(eventually([&] { return client().exists("/parts/members/c").has_value(); }));
    testkit::let_age(60ms);  // Longer than the others' `settle`.
    c->partitioner().leave(patient());
    b->partitioner().leave(patient());
  }
  EXPECT_EQ(a->asked(), 0);
  EXPECT_EQ(a->tokens(), before);
}

// V97: about an eleventh moves; the others keep their leases.
TEST_F(PartitionerTest, AMemberJoinsTenOthers) {
  constexpr std::size_t partitions = 220;
  std::vector<WorkerPtr> workers;
  for (int i = 0; i < 10; ++i)
    workers.push_back(join("member-" + std::to_string(i), partitions));
  ASSERT_TRUE(shared_out(workers, partitions));
  std::map<std::string, FencingToken> before;
  for (const auto& worker : workers)
    before.merge(worker->tokens());
  workers.push_back(join("member-10", partitions));
  ASSERT_TRUE(shared_out(workers, partitions));
  for (const auto& worker : workers)
    EXPECT_EQ(worker->count(), 20U);
  std::size_t moved = 0;
  for (const auto& worker : workers) {
    for (const auto& [name, token] : worker->tokens())
      moved += before.at(name) == token ? 0 : 1;
  }
  EXPECT_GE(moved, 20U);
  EXPECT_LE(moved, 33U) << "15 %, where 9 % is the least";
}

TEST_F(PartitionerTest, SharesFollowTheWeights) {
  PartitionerOptions heavy = quick("heavy");
  heavy.weight = 3;
  PartitionerOptions none = quick("none");
  none.weight = 0;
  const WorkerPtr a = join(heavy);
  const WorkerPtr b = join("light");
  const WorkerPtr c = join(none);
  EXPECT_TRUE(eventually([&] { return a->count() == 12 && b->count() == 4; }));
  EXPECT_EQ(c->given(), 0);
}

TEST_F(PartitionerTest, RefusedArguments) {
  const auto make = [&](PartitionerOptions options) {
    Partitioner partitioner(
        client(), path(), PartitionSource::numbered(1), [](const Partition&) {}, std::move(options));
  };
  const auto error = [&](auto change) {
    PartitionerOptions options;
    change(options);
    return error_of([&] { make(options); });
  };
  const auto refused = [&](auto change) { return error(change) == Errc::invalid_argument; };
  make({});
  EXPECT_EQ(error([](auto& options) { options.id = "a/b"; }), Errc::invalid_path);
  EXPECT_EQ(error([](auto& options) { options.id = "a\nb"; }), Errc::invalid_path);
  EXPECT_TRUE(refused([](auto& options) { options.weight = max_weight + 1; }));
  EXPECT_TRUE(refused([](auto& options) { options.max_load = 0.5; }));
  EXPECT_TRUE(refused([](auto& options) { options.settle = -1ms; }));
  EXPECT_TRUE(refused([](auto& options) { options.grace = -1ms; }));
  EXPECT_TRUE(refused([](auto& options) { options.max_moving = 0; }));
  EXPECT_EQ(error_of([&] { Partitioner none(client(), path(), PartitionSource::numbered(1), {}); }),
            Errc::invalid_argument);
  EXPECT_EQ(error_of([] { (void)PartitionSource::list({"a", "a"}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { (void)PartitionSource::list({"a/b"}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { (void)PartitionSource::list({""}); }), Errc::invalid_argument);
  EXPECT_EQ(error_of([] { (void)PartitionSource::list({".."}); }), Errc::invalid_argument);
}

// --- The map ---------------------------------------------------------------------------------------------------------

TEST_F(PartitionerTest, AMapKnowsTheOwners) {
  PartitionMap map(client(), path());
  EXPECT_TRUE(map.wait_ready(patient()).empty()) << "the path is missing";
  Box<OwnerChange> changes;
  const auto subscription = map.on_change([&](const std::vector<OwnerChange>& all) {
    for (const OwnerChange& change : all)
      changes.put(change);
  });
  PartitionerOptions options = quick("a");
  options.data = "10.0.0.1:80\nand more";
  WorkerPtr a = join(options, PartitionSource::list({"one"}));
  const PartitionOwner first = map.wait_owner("one", {}, patient());
  EXPECT_EQ(first.id, "a");
  EXPECT_EQ(first.data, "10.0.0.1:80\nand more");
  ASSERT_TRUE(owns(a, 1));  // The map may know before the owner does.
  EXPECT_EQ(first.token, a->partition("one")->token());
  EXPECT_EQ(map.owner("one"), first);
  EXPECT_EQ(map.owners().size(), 1U);
  OwnerChange change = changes.take();
  EXPECT_EQ(change.partition, "one");
  EXPECT_FALSE(change.before);
  EXPECT_EQ(change.after, first);
  a.reset();
  const WorkerPtr b = join(quick("b"), PartitionSource::list({"one"}));
  const PartitionOwner second = map.wait_owner("one", first.token, patient());
  EXPECT_EQ(second.id, "b");
  EXPECT_EQ(second.data, "");
  while (change.after != second)
    change = changes.take();
  EXPECT_FALSE(map.owner("two"));
  EXPECT_FALSE(map.owner(""));
  EXPECT_EQ(error_of([&] { (void)map.wait_owner("two", {}, {.deadline = testkit::SteadyClock::now() + 10ms}); }),
            Errc::deadline_exceeded);
}

TEST_F(PartitionerTest, AMapLeavesOutWhatIsNoOwner) {
  client().create("/parts/owners/one/owner", "by hand", {.parents = true});
  client().create("/parts/owners/two", "", {.parents = true});
  client().create("/parts/owners/two/other", "", {.mode = zkclient::CreateMode::ephemeral});
  PartitionMap map(client(), path());
  EXPECT_TRUE(map.wait_ready(patient()).empty());
}

TEST_F(PartitionerTest, AMapThatMayNotRead) {
  const zkclient::AclList write_only = {{zkclient::Acl::write, "world", "anyone"}};
  client().create("/parts/owners/one", "", {.parents = true});
  client().create("/parts/owners/two", "", {.parents = true});
  client().create("/parts/owners/one/owner", "a", {.mode = zkclient::CreateMode::ephemeral, .acl = write_only});
  client().create("/parts/owners/two/owner", "b", {.mode = zkclient::CreateMode::ephemeral});
  PartitionMap map(client(), path());
  EXPECT_EQ(map.wait_ready(patient()).size(), 1U);
  ASSERT_TRUE(map.problem().has_value());
  EXPECT_EQ(map.problem()->errc(), Errc::no_auth);
}

TEST_F(PartitionerTest, AMapOfAClosedClient) {
  const WorkerPtr a = join("a", 2);
  ASSERT_TRUE(owns(a, 2));
  Client own = make_client();
  PartitionMap map(own, path());
  ASSERT_TRUE(eventually([&] { return map.owners().size() == 2; }));
  own.close();
  EXPECT_EQ(map.state(), CacheState::closed);
  EXPECT_EQ(map.owners().size(), 2U);
  EXPECT_EQ(error_of([&] { (void)map.wait_owner("7", {}, patient()); }), Errc::closed);
}

}  // namespace
}  // namespace zkrecipes
