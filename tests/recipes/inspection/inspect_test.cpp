#include <zkrecipes/inspect.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>

#include <zkrecipes/barrier.hpp>
#include <zkrecipes/delay_queue.hpp>
#include <zkrecipes/double_barrier.hpp>
#include <zkrecipes/id_queue.hpp>
#include <zkrecipes/leader_election.hpp>
#include <zkrecipes/mutex.hpp>
#include <zkrecipes/priority_queue.hpp>
#include <zkrecipes/queue.hpp>
#include <zkrecipes/semaphore.hpp>
#include <zkrecipes/shared_mutex.hpp>
#include <zkrecipes/unfair_leader_election.hpp>
#include <zkrecipes/unfair_mutex.hpp>

#include "tests/support/recipe_test.hpp"
#include "tests/support/words.hpp"

namespace zkrecipes {
namespace {

using namespace testkit::words;

class InspectTest : public testkit::RecipeTest {
 protected:
  InspectTest() : RecipeTest("/place") {}

  Inspection look() { return inspect(client(), path(), {.deadline = soon()}); }
  /// When so many contend.
  Inspection look_at(std::size_t contenders) {
    Inspection found;
    EXPECT_TRUE(eventually([&] {
      found = look();
      return found.contenders.size() == contenders;
    }));
    return found;
  }
  static std::size_t holders(const Inspection& found) {
    return static_cast<std::size_t>(
        std::count_if(found.contenders.begin(), found.contenders.end(), [](const auto& one) { return one.holds; }));
  }
  static bool said_by(const Contender& contender, const std::string& id) {
    return contender.data.starts_with("id=" + id + " host=");
  }
};

TEST_F(InspectTest, NothingAtThePath) {
  EXPECT_EQ(look().kind, RecipeKind::nothing);
  Box<Inspection> box;
  async_inspect(client(), path(), [&](Result<Inspection> found) { box.put(found.value()); });
  EXPECT_EQ(box.take().kind, RecipeKind::nothing);
}

TEST_F(InspectTest, NamesOfNoRecipe) {
  client().create(path(), "words");
  EXPECT_EQ(look().kind, RecipeKind::unknown) << "without children";
  client().create(path() / "child", "words");
  client().create(path() / "leases", "words");
  const Inspection found = look();
  EXPECT_EQ(found.kind, RecipeKind::unknown);
  EXPECT_EQ(found.naming, NodeNaming::none);
  EXPECT_TRUE(found.contenders.empty());
}

TEST_F(InspectTest, MutexWithAWaiter) {
  Mutex first(client(), path(), {.id = "first"});
  Mutex second(client(), path(), {.id = "second"});
  Lease lease = first.acquire();
  auto waiting = in_thread([&] { return second.acquire({.deadline = soon()}); });
  const Inspection found = look_at(2);
  EXPECT_EQ(found.kind, RecipeKind::mutex);
  EXPECT_EQ(found.naming, NodeNaming::curator);
  EXPECT_TRUE(found.contenders[0].holds);
  EXPECT_FALSE(found.contenders[1].holds);
  EXPECT_TRUE(said_by(found.contenders[0], "first"));
  EXPECT_TRUE(said_by(found.contenders[1], "second"));
  EXPECT_EQ(found.contenders[0].token, lease.token());
  EXPECT_EQ(found.contenders[0].session_id, lease.session()->id());
  lease.release();
  Lease next = result_of(waiting);
  EXPECT_EQ(look_at(1).contenders[0].token, next.token());
}

TEST_F(InspectTest, NamesOfCuratorAndOfKazoo) {
  Mutex ours(client(), path());
  Mutex theirs(client(), path(), {.layout = Layout::kazoo()});
  Lease lease = ours.acquire();
  auto waiting = in_thread([&] { return theirs.acquire({.deadline = soon()}); });
  const Inspection found = look_at(2);
  EXPECT_EQ(found.kind, RecipeKind::mutex);
  EXPECT_EQ(found.naming, NodeNaming::mixed);
  EXPECT_TRUE(found.contenders[0].holds);
  EXPECT_FALSE(found.contenders[1].holds);
  lease.release();
  (void)result_of(waiting);
}

// Known by their names, but nothing is said of who holds.
TEST_F(InspectTest, ForeignContendersAreListedLast) {
  client().create(path(), "");
  const zkclient::CreateOptions sequential{.mode = CreateMode::ephemeral_sequential};
  client().create(path() / "x-1234-", "java", sequential);
  const Inspection alone = look();
  EXPECT_EQ(alone.kind, RecipeKind::unknown);
  ASSERT_EQ(alone.contenders.size(), 1U);
  EXPECT_TRUE(alone.contenders[0].foreign);
  EXPECT_FALSE(alone.contenders[0].holds);
  Lease lease = Mutex(client(), path()).acquire();
  const Inspection both = look();
  EXPECT_EQ(both.kind, RecipeKind::mutex);
  ASSERT_EQ(both.contenders.size(), 2U);
  EXPECT_TRUE(both.contenders[0].holds);
  EXPECT_TRUE(both.contenders[1].foreign);
}

TEST_F(InspectTest, SharedMutexWithReaders) {
  SharedMutex mutex(client(), path());
  Lease one = mutex.acquire_shared();
  Lease two = mutex.acquire_shared();
  const Inspection found = look();
  EXPECT_EQ(found.kind, RecipeKind::shared_mutex);
  ASSERT_EQ(found.contenders.size(), 2U);
  EXPECT_EQ(holders(found), 2U);
  EXPECT_TRUE(found.contenders[0].shared);
}

// Nobody tells it how many leases there are.
TEST_F(InspectTest, SemaphoreThatIsFull) {
  Semaphore semaphore(client(), path(), 2);
  std::vector<Lease> leases = semaphore.acquire_many(2);
  auto in_front = in_thread([&] { return semaphore.acquire({.deadline = soon()}); });
  ASSERT_TRUE(eventually([&] { return names(path() / "leases").size() == 3; }));
  const Inspection found = look();
  EXPECT_EQ(found.kind, RecipeKind::semaphore);
  EXPECT_EQ(holders(found), 2U) << "the third lease is not granted";
  leases.clear();
  const Lease next = result_of(in_front);
  EXPECT_TRUE(eventually([&] { return holders(look()) == 1; }));
}

TEST_F(InspectTest, UnfairMutex) {
  Lease lease = UnfairMutex(client(), path(), {.id = "me"}).acquire();
  const Inspection found = look();
  EXPECT_EQ(found.kind, RecipeKind::unfair_mutex);
  ASSERT_EQ(found.contenders.size(), 1U);
  EXPECT_TRUE(found.contenders[0].holds);
  EXPECT_TRUE(said_by(found.contenders[0], "me"));
}

TEST_F(InspectTest, BothElections) {
  const auto check = [&](Election& election, RecipeKind kind) {
    Leadership leadership = election.campaign({.deadline = soon()});
    const Inspection found = look();
    EXPECT_EQ(found.kind, kind);
    ASSERT_EQ(found.contenders.size(), 1U);
    EXPECT_TRUE(found.contenders[0].holds);
    EXPECT_EQ(found.contenders[0].data, "me");
    leadership.release();
  };
  LeaderElection fair(client(), path(), {.id = "me"});
  check(fair, RecipeKind::election);
  UnfairLeaderElection unfair(client(), path(), {.id = "me"});
  check(unfair, RecipeKind::unfair_election);
}

TEST_F(InspectTest, BarrierThatIsUp) {
  Barrier barrier(client(), path(), {.id = "me"});
  barrier.raise();
  const Inspection found = look();
  EXPECT_EQ(found.kind, RecipeKind::barrier);
  ASSERT_EQ(found.contenders.size(), 1U);
  EXPECT_EQ(found.contenders[0].session_id, 0);
  barrier.lower();
  EXPECT_EQ(look().kind, RecipeKind::nothing);
  barrier.raise(BarrierLife::ephemeral);
  EXPECT_EQ(look().contenders.at(0).session_id, client().session().id());
}

TEST_F(InspectTest, DoubleBarrierBeforeAndInARound) {
  DoubleBarrier first(client(), path(), 2);
  DoubleBarrier second(client(), path(), 2);
  auto entering = in_thread([&] { return first.enter({.deadline = soon()}); });
  const Inspection waiting = look_at(1);
  EXPECT_EQ(waiting.kind, RecipeKind::double_barrier);
  EXPECT_EQ(holders(waiting), 0U);
  second.enter({.deadline = soon()});
  (void)result_of(entering);
  const Inspection inside = look_at(2);
  EXPECT_EQ(holders(inside), 2U);
}

TEST_F(InspectTest, QueuesOfEachLayout) {
  const QueueLayout layouts[] = {QueueLayout::standard(), QueueLayout::zookeeper(), QueueLayout::curator(),
                                 QueueLayout::kazoo(), QueueLayout::kazoo_locking()};
  for (const QueueLayout& layout : layouts) {
    Queue queue(client(), path(), {.layout = layout, .id = "me"});
    queue.push_all({"a", "b", "c"});
    Claim claim = queue.claim({.deadline = soon()});
    const Inspection found = look();
    const bool of_kazoo = found.naming == NodeNaming::kazoo;
    EXPECT_EQ(found.kind, of_kazoo ? RecipeKind::priority_queue : RecipeKind::queue);
    EXPECT_EQ(found.items, 3U) << to_string(found.naming);
    ASSERT_EQ(found.contenders.size(), 1U) << to_string(found.naming);
    EXPECT_TRUE(found.contenders[0].holds);
    EXPECT_EQ(found.contenders[0].node, queue.list().front().node);
    claim.commit();
    client().remove_tree(path());
  }
}

// The server removes its other folders while they are empty.
TEST_F(InspectTest, QueueWithItemsAlone) {
  client().create(path() / "items", "", {.parents = true});
  EXPECT_EQ(look().kind, RecipeKind::unknown);
  client().create(path() / "items/item-0000000001", "a");
  EXPECT_EQ(look().kind, RecipeKind::queue);
  EXPECT_EQ(look().items, 1U);
}

TEST_F(InspectTest, PriorityQueuesOfBothLayouts) {
  for (const QueueLayout& layout : {QueueLayout::standard(), QueueLayout::curator()}) {
    PriorityQueue queue(client(), path(), {.layout = layout});
    queue.push("a", 3);
    EXPECT_EQ(look().kind, RecipeKind::priority_queue);
    EXPECT_EQ(look().items, 1U);
    client().remove_tree(path());
  }
}

TEST_F(InspectTest, DelayAndIdQueuesOfBothLayouts) {
  for (const QueueLayout& layout : {QueueLayout::standard(), QueueLayout::curator()}) {
    DelayQueue delayed(client(), path(), {.layout = layout});
    delayed.push("a", std::chrono::system_clock::now());
    EXPECT_EQ(look().kind, RecipeKind::delay_queue);
    client().remove_tree(path());
    IdQueue identified(client(), path(), {.layout = layout});
    identified.push("a", "order-17");
    const Claim claim = identified.claim({.deadline = soon()});
    EXPECT_EQ(look().kind, RecipeKind::id_queue);
    EXPECT_EQ(look().items, 1U);
    EXPECT_EQ(look().contenders.size(), 1U);
    client().remove_tree(path());
  }
}

TEST_F(InspectTest, NoAccessToANode) {
  client().create(path(), "");
  const zkclient::AclList others = {{zkclient::Acl::all, "ip", "127.255.255.1"}};
  const zkclient::CreateOptions hidden{.mode = CreateMode::ephemeral_sequential, .acl = others};
  client().create(path() / "_c_x-lock-", "", hidden);
  EXPECT_EQ(error_of([&] { (void)look(); }), Errc::no_auth);
  EXPECT_EQ(error_of([&] { async_inspect(client(), path(), {}); }), Errc::invalid_argument);
}

// While others queue up and go.
TEST_F(InspectTest, NodeThatVanishesMeanwhile) {
  std::atomic<bool> over = false;
  auto busy = in_thread([&] {
    Mutex mutex(client(), path());
    while (!over)
      mutex.acquire({.deadline = soon()}).release();
    return true;
  });
  for (int i = 0; i < 200; ++i) {
    const Inspection found = look();
    EXPECT_LE(found.contenders.size(), 2U);
    EXPECT_TRUE(found.kind == RecipeKind::mutex || found.contenders.empty());
  }
  over = true;
  (void)result_of(busy);
}

}  // namespace
}  // namespace zkrecipes
